#!/usr/bin/env bash
# Checks what a compiler does not: format, which floor includes which, habits of the library, and that the documents
# speak of no one machine. Prints every finding and fails if there is one.
set -uo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 1
failed=0

complain() {
  printf 'lint: %s\n' "$@" >&2
  failed=1
}

# forbid MESSAGE PATTERN PATH...: complains of every line that matches.
forbid() {
  local message=$1 pattern=$2 found
  shift 2
  found=$(grep -rnP "$pattern" "$@" 2>/dev/null) && complain "$message" "$found"
}

# ---- Format ----------------------------------------------------------------------------------------------------------

sources=$(find include src test examples bench ci -name '*.hpp' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.cu' \
  -o -name '*.h' -o -name '*.c' | sort)
if grep -q 'version 14' <<<"$(clang-format --version 2>/dev/null)"; then
  # shellcheck disable=SC2086
  unformatted=$(clang-format --dry-run $sources 2>&1 | grep -oP '^[^:]+(?=:\d+:\d+: warning)' | sort -u)
  [ -z "$unformatted" ] || complain "run clang-format -i on:" "$unformatted"
else
  echo "lint: no clang-format 14 here, the format is not checked"
fi
# The C ABI is one file on purpose, so that it can be copied: it is not counted.
for file in $(grep -vx 'include/sparge/sparge.h' <<<"$sources"); do
  lines=$(wc -l <"$file")
  [ "$lines" -le 400 ] || complain "$file has $lines lines; a file has one job and stays under 400"
done

# ---- Floors: an include never points up ------------------------------------------------------------------------------

# may_include FILES-PATTERN ALLOWED-PATTERN
may_include() {
  local found
  # shellcheck disable=SC2086
  found=$(grep -nP '^\s*#\s*include "sparge/' $1 2>/dev/null | grep -vP "include \"sparge/($2)")
  [ -z "$found" ] || complain "an include that points up or across floors:" "$found"
}

cd include/sparge || exit 1
may_include 'core/*.hpp' 'core/'
may_include 'plan/*.hpp' 'core/|plan/'
may_include 'device/*.cuh' 'core/element\.hpp|device/'
may_include 'collective/*.cuh' 'core/|plan/|device/|collective/'
may_include 'kernel/*_params.hpp' 'core/|plan/|kernel/\w+_params\.hpp'
may_include 'kernel/*.cuh' 'core/|plan/|device/|collective/|kernel/'
may_include 'op/*.hpp' 'core/|plan/|op/|kernel/\w+_params\.hpp|sparge\.hpp'
may_include 'reference/*.hpp' 'core/|reference/'
may_include 'sparge.hpp' 'core/'
may_include 'sparge.h' 'nothing'
cd ../..

# ---- Habits ----------------------------------------------------------------------------------------------------------

library=(include src)
forbid "the library allocates nothing, waits for nothing, prints nothing, and reads no environment" \
  'cudaDeviceSynchronize|cudaMalloc|\b(f?printf|exit)\s*\(|getenv' "${library[@]}"
forbid "an enum, or two types, instead of a bool template parameter" 'template <.*\bbool\b' "${library[@]}"
forbid "commented-out code" '^\s*//(?!/).*[;{}]\s*$' include src test examples bench
# C99 has neither `#pragma once` nor a word for exported symbols, so sparge.h, which no C++ header includes, has two more.
macros=$(grep -rP --include=sparge.h '^\s*#\s*define\s' include | grep -oP 'define\s+\K\w+' | grep -vxE 'SPARGE_H|SPARGE_API'
  grep -rhoP --exclude=sparge.h '^\s*#\s*define\s+\KSPARGE_\w+' "${library[@]}" | sort -u | grep -vxE 'SPARGE_INLINE|SPARGE_TRY')
[ -z "$macros" ] || complain "macros beyond SPARGE_INLINE, SPARGE_TRY and SPARGE_BUILT_HEADER, and in sparge.h SPARGE_H and SPARGE_API:" "$macros"

documents=$(find . -maxdepth 1 -name '*.md'; find docs examples -name '*.md')
# shellcheck disable=SC2086
forbid "a path of one machine" '(?<![\w.])/(work|tmp|home|root|mnt)/' $documents ci cmake .ci CMakeLists.txt CMakePresets.json

# ---- Documents agree with the code -----------------------------------------------------------------------------------

if [ -f README.md ]; then
  bash docs/check_snippets.sh || failed=1
  bash docs/support_table.sh --check || failed=1
fi

exit $failed
