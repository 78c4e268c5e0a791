#!/usr/bin/env bash
# Sets up, checks the style, builds, and tests: everything on the host, and what needs a GPU where there is one. The last
# line counts the tests; the exit status is 0 only if all of them passed or were skipped for want of a GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
build="build-ci"

step() { printf '\n== %s\n' "$*"; }

step "set-up"
bash ci/setup.sh

step "lint"
bash ci/lint.sh

step "build"
cmake --preset ci >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build --preset ci

step "resources of the kernels"
bash ci/resources.sh "$build"

# run_tests LABEL: writes BUILD/LABEL.xml; false if a test failed. Tests of one label run in parallel.
run_tests() {
  ctest --test-dir "$build" -L "^$1\$" --no-tests="$2" -j "$(nproc)" --output-on-failure --no-label-summary \
    --output-junit "$1.xml" | grep -vE '^ *(Start )? *[0-9]+(: |/[0-9]+ .* Passed)|% tests passed'
  return "${PIPESTATUS[0]}"
}

# count LABEL ATTRIBUTE: of the summary that CTest wrote.
count() { grep -m1 -oE "\b$2=\"[0-9]+\"" "$build/$1.xml" | grep -oE '[0-9]+'; }

status=0
step "tests on the host"
run_tests host error || status=1
step "tests on a GPU (skipped where there is none)"
run_tests gpu ignore || status=1

step "GPU record"
sources=$(bash ci/source_hash.sh)
if [ -f docs/gpu_record.json ] && [ "$(jq -r .sources docs/gpu_record.json)" = "$sources" ]; then
  echo "docs/gpu_record.json was made from these sources, on $(jq -r .gpu docs/gpu_record.json)."
else
  echo "docs/gpu_record.json was NOT made from these sources ($sources); run ci/gpu.sh on a GPU."
fi

tests=0 failed=0 skipped=0
for label in host gpu; do
  tests=$((tests + $(count $label tests)))
  failed=$((failed + $(count $label failures)))
  skipped=$((skipped + $(count $label skipped)))
done
passed=$((tests - failed - skipped))
[ $(($(count host tests) - $(count host failures) - $(count host skipped))) -gt 0 ] || status=1
echo
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
