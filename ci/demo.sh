#!/usr/bin/env bash
# Denoises a photograph by sparse attention over its pixels, on a GPU if there is one and on the host reference if not.
# Installs what is missing, builds only what the demo needs, prints a table, and says where the pictures are.
# Arguments go to the program: bash ci/demo.sh --size 512; bash ci/demo.sh --help lists them.
set -euo pipefail
cd "$(dirname "$0")/.."
build="build-demo"

bash ci/setup.sh

# One architecture is enough here; 80 comes with PTX, which runs on every later one too.
arch=80
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 || true)
[ "$capability" != "9.0" ] || arch=90a

mkdir -p "$build"
quietly() { "$@" >"$build/log" 2>&1 || { cat "$build/log" >&2; exit 1; }; }
echo "building the demo in $build"
quietly cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DSPARGE_ARCHS="$arch" \
  -DSPARGE_DTYPES=f16 -DSPARGE_HEAD_DIMS="64;128" -DSPARGE_BUILD_TESTS=OFF -DSPARGE_BUILD_BENCH=OFF
quietly cmake --build "$build" --target denoise
"$build/bin/denoise" "$@"
