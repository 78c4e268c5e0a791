#!/usr/bin/env bash
# Installs what the build and the tests need and this machine lacks, with apt-get. Does nothing where nothing is missing.
set -euo pipefail

# nvcc is a prerequisite: NVIDIA's toolkit is not in the distributions' archives in the version that is needed.
if ! command -v "${CUDACXX:-nvcc}" >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
  echo "The CUDA Toolkit 13.0 or later is needed and nvcc was found neither on PATH nor in /usr/local/cuda/bin." >&2
  echo "Install it from https://developer.nvidia.com/cuda-downloads, or set CUDACXX to nvcc." >&2
  exit 1
fi

# command or file that shows it is there : package
wanted=(
  "g++:g++" "cmake:cmake" "ninja:ninja-build" "git:git" "jq:jq" "clang-format:clang-format"
  "perl:perl" "python3:python3" "pkg-config:pkg-config" "nm:binutils"
  "/usr/include/png.h:libpng-dev"
  "/usr/include/benchmark/benchmark.h:libbenchmark-dev"
  "/usr/include/catch2:catch2"
)

# A command is looked up on PATH alone: there is a folder called cmake here.
is_there() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing=()
for pair in "${wanted[@]}"; do
  is_there "${pair%%:*}" || missing+=("${pair#*:}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "installing: ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "There is no apt-get here; install these by hand." >&2
  exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } \
  >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
