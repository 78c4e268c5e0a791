#!/usr/bin/env bash
# gpu.sh STAGE: runs a stage on a machine with a GPU and writes OUT/record.STAGE.json.
#   test              every test of the floors and every other one that needs a GPU; none may be skipped
#   sanitize [TOOL..] the tests tagged [sanitize] under compute-sanitizer: memcheck racecheck initcheck synccheck
#   fuzz              the tests tagged [fuzz], again and again with new seeds, for FUZZ_SECONDS
#   bench             the benchmark programs
#   merge [FOLDER..]  joins the records of these sources (default: OUT) into docs/gpu_record.json; needs no GPU
# Environment: OUT (default out), SPARGE_ARCHS (default 90a), FUZZ_SECONDS (default 240), SANITIZE_SECONDS (a tool's limit
# per program, default 100), BUILD (a folder with all of these sources built for SPARGE_ARCHS, taken as it is; default:
# build-gpu, which is built first). A stage ends within 8 minutes; whole logs stay in BUILD/logs, what failed comes to OUT.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
out=${OUT:-out}
build=${BUILD:-build-gpu}
stage=${1:-}
[ $# -gt 0 ] && shift
logs=$build/logs
mkdir -p "$out" "$logs"

sources=$(bash ci/source_hash.sh)
cuda=$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")
export SPARGE_REQUIRE_GPU=1
export PATH="$cuda/bin:$PATH"

# build_targets TARGET...: `all` for everything.
build_targets() {
  [ -z "${BUILD:-}" ] || return 0
  local log=$logs/build.$stage.log
  { cmake --preset gpu "-DSPARGE_ARCHS=${SPARGE_ARCHS:-90a}" && cmake --build --preset gpu --target "$@"; } >"$log" 2>&1 || {
    tail -n 60 "$log"
    exit 1
  }
}

# record JSON: the stage's result, with where it came from.
record() {
  local gpu driver
  gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
  jq -n --arg sources "$sources" --arg gpu "$gpu" --arg driver "$driver" --arg date "$(date -u +%F)" \
    --arg stage "$stage" --arg archs "${SPARGE_ARCHS:-90a}" --argjson result "$1" \
    '{sources: $sources, gpu: $gpu, driver: $driver, date: $date, stages: {($stage): ($result + {archs: $archs})}}' |
    tee "$out/record.$stage.json"
}

# tagged TAG: the test programs that have tests with that tag.
tagged() {
  local program
  for program in "$build"/bin/*_tests; do
    if grep -qE '^[1-9][0-9]* (matching )?test case' <<<"$("$program" --list-tests "$1" 2>/dev/null)"; then echo "$program"; fi
  done
}

# run_floor NAME PROGRAM [ARGUMENTS]: a test program, or a part of it, as a whole: a process for each test would spend minutes on
# starting CUDA. Its log is logs/NAME.log.
run_floor() {
  local name=$1
  shift
  timeout 300 "$@" >"$logs/$name.log" 2>&1 || echo "$name failed or took more than 300 s" >>"$logs/failed.txt"
}

# count_cases KIND: of all floors, from the last lines that Catch2 writes: "All tests passed (A assertions in N test cases)", or
# "test cases: N | P passed | F failed | S skipped".
count_cases() {
  local kind=$1
  grep -hE '^(All tests passed|test cases:)' "$logs"/*_tests*.log | awk -v kind="$kind" '
    /^All tests passed/ { if (kind == "passed") for (i = 1; i <= NF; ++i) if ($i == "in") n += $(i + 1) }
    /^test cases:/ { for (i = 2; i <= NF; ++i) if ($i == kind) n += $(i - 1) }
    END { print n + 0 }'
}

# names_of PROGRAM: of its tests, a line each, as Catch2 2 or 3 lists them.
names_of() {
  if grep -q -- --list-test-names-only <<<"$("$1" --help)"; then
    "$1" --list-test-names-only "~[.]" || true # the status is their number
  else
    "$1" --list-tests --verbosity quiet "~[.]"
  fi
}

# Every test of the floors, and the others that need a GPU. What else needs none is of ci/test.sh.
run_tests() {
  rm -f "$logs"/*_tests* "$logs"/failed.txt "$logs"/ctest.log
  build_targets all
  local program name shard shards=6
  for program in "$build"/bin/*_tests; do
    name=$(basename "$program")
    if [ "$name" = op_tests ]; then # the longest, in parts
      names_of "$program" | split -n "r/$shards" -d -a 1 - "$logs/op_tests.names."
      for shard in $(seq 0 $((shards - 1))); do
        run_floor "$name.$shard" "$program" --input-file "$logs/op_tests.names.$shard" &
      done
    else
      run_floor "$name" "$program" &
    fi
  done
  ctest --test-dir "$build" -L gpu -E '^(unit|device|op|property|contract):' -j 4 --timeout 200 --output-on-failure \
    --no-tests=error --output-junit "$PWD/$build/tests.xml" >"$logs/ctest.log" 2>&1 || echo "ctest failed" >>"$logs/failed.txt"
  wait
  count() { grep -m1 -oE "\b$1=\"[0-9]+\"" "$build/tests.xml" | grep -oE '[0-9]+'; }
  local tests failed skipped
  failed=$(($(count failures) + $(count_cases failed))) skipped=$(($(count skipped) + $(count_cases skipped)))
  tests=$(($(count tests) - $(count failures) - $(count skipped) + $(count_cases passed)))
  local log
  for log in "$logs"/*_tests*.log "$logs/ctest.log"; do
    grep -qE '^All tests passed|100% tests passed' "$log" || { echo "== $log"; tail -n 80 "$log"; }
  done >"$out/test.log"
  grep -hE 'FAILED:' "$logs"/*_tests*.log | sort | uniq -c | head -n 40 || true
  record "{\"passed\": $tests, \"failed\": $failed, \"skipped\": $skipped}"
  [ ! -s "$logs/failed.txt" ] || { cat "$logs/failed.txt"; return 1; }
  [ "$skipped" -eq 0 ]
}

# Names of kernels that the [sanitize] tests launch, against those that the library holds.
count_kernels() {
  local programs=$1 library=$logs/kernels.built.txt launched=$logs/kernels.launched.txt program
  g++ -shared -fPIC -std=c++17 -I"$cuda/include" -I"$cuda/extras/CUPTI/include" ci/launched_kernels.cpp \
    -o "$build/liblaunched_kernels.so" -L"$cuda/lib64" -L"$cuda/lib" -L"$cuda/extras/CUPTI/lib64" -lcupti \
    -Wl,-rpath,"$cuda/lib64:$cuda/lib:$cuda/extras/CUPTI/lib64"
  # The names under which kernels are registered; their host stubs are local symbols.
  strings -a "$build/libsparge.a" | grep -oE '_ZN6sparge5entryI\S+vNT_6ParamsE$' | sort -u >"$library"
  : >"$launched.all"
  for program in $programs; do
    CUDA_INJECTION64_PATH=$PWD/$build/liblaunched_kernels.so LAUNCHED_KERNELS=$launched.all \
      timeout 120 "$program" "[sanitize]" >/dev/null || true
  done
  sort -u "$launched.all" | comm -12 - "$library" >"$launched"
  rm "$launched.all"
  comm -13 "$launched" "$library" | c++filt | sed 's/^/no [sanitize] test launches /' >&2
}

# sanitize TOOL PROGRAMS KERNELS: prints the tool's entry of the record. What it found, each kind once, goes to TOOL.summary.txt.
sanitize() {
  local tool=$1 programs=$2 kernels=$3 log=$logs/$1.log program status=0 hazards
  : >"$log"
  # Outputs and scratch start uninitialised for the tool that looks for reads of such memory, and poisoned for the others.
  unset SPARGE_INITCHECK
  [ "$tool" != initcheck ] || export SPARGE_INITCHECK=1
  for program in $programs; do
    timeout "${SANITIZE_SECONDS:-100}" compute-sanitizer --tool "$tool" --error-exitcode 86 --print-limit 20 "$program" "[sanitize]" \
      >>"$log" 2>&1 || status=$?
  done
  hazards=$(grep -oE '(ERROR|RACECHECK) SUMMARY: [0-9]+' "$log" | awk '{ n += $3 } END { print n + 0 }')
  {
    echo "== $tool"
    grep -vE 'Saved host|Host Frame' "$log" | sed -E 's/(thread|block) \([0-9,]*\)/\1/g; s/0x[0-9a-f]+ is/ADDRESS is/' | sort | uniq -c | sort -rn | head -n 60
  } >"$logs/$tool.summary.txt"
  local summaries
  summaries=$(grep -cE '(ERROR|RACECHECK) SUMMARY' "$log" || true)
  if [ "$status" -eq 0 ] && [ "$hazards" -eq 0 ] && [ "$summaries" -eq "$(wc -w <<<"$programs")" ]; then
    echo "{\"$tool\": {\"kernels\": $kernels, \"verdict\": \"clean\"}}"
  else
    echo "{\"$tool\": {\"kernels\": $kernels, \"verdict\": \"failed\", \"hazards\": $hazards, \"exit\": $status}}"
  fi
}

run_sanitize() {
  build_targets all
  local programs kernels tool result='{}'
  [ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
  programs=$(tagged "[sanitize]")
  [ -n "$programs" ] || { echo "no test is tagged [sanitize]" >&2; exit 1; }
  count_kernels "$programs" || true # a machine without CUPTI still records the verdicts, with 0 kernels, and fails
  kernels=$(wc -l <"$logs/kernels.launched.txt")
  for tool in "$@"; do sanitize "$tool" "$programs" "$kernels" >"$logs/$tool.json" & done # the tools leave most of the GPU idle
  wait
  : >"$out/sanitize.log"
  for tool in "$@"; do
    cat "$logs/$tool.summary.txt" >>"$out/sanitize.log"
    result=$(jq -s 'add' <<<"$result $(cat "$logs/$tool.json")")
  done
  record "$(jq --argjson built "$(wc -l <"$logs/kernels.built.txt")" '. + {kernels_built: $built}' <<<"$result")"
  jq -e '[.[] | objects | select(.verdict != "clean")] | length == 0' <<<"$result" >/dev/null &&
    [ "$kernels" -gt 0 ] && cmp -s "$logs/kernels.launched.txt" "$logs/kernels.built.txt"
}

run_fuzz() {
  build_targets all
  local programs program seed=$(($(date +%s) % 1000000)) rounds=0 failed=0
  programs=$(tagged "[fuzz]")
  [ -n "$programs" ] || { echo "no test is tagged [fuzz]" >&2; exit 1; }
  local first=$seed end=$((SECONDS + ${FUZZ_SECONDS:-240}))
  while [ $SECONDS -lt $end ] && [ $failed -eq 0 ]; do
    for program in $programs; do
      timeout 180 "$program" "[fuzz]" --rng-seed "$seed" >"$logs/fuzz.log" 2>&1 || {
        failed=1
        echo "$program fails with --rng-seed $seed:" && tail -n 40 "$logs/fuzz.log"
      }
    done
    rounds=$((rounds + 1)) seed=$((seed + 1))
  done
  record "{\"first_seed\": $first, \"rounds\": $rounds, \"failed\": $failed}"
  return $failed
}

run_bench() {
  build_targets all
  local program name status=0 results='{}'
  for program in "$build"/bin/*_bench; do
    [ -x "$program" ] || { echo "there are no benchmark programs" >&2; exit 1; }
    name=$(basename "$program")
    # A benchmark that gave up still exits with 0, so its JSON decides.
    timeout 400 "$program" --benchmark_out="$out/$name.json" --benchmark_out_format=json || status=1
    jq -e '[.benchmarks[] | select(.error_occurred)] | length == 0' "$out/$name.json" >/dev/null || status=1
    results=$(jq --arg name "$name" --slurpfile run "$out/$name.json" '. + {($name): ($run[0].benchmarks | length)}' \
      <<<"$results")
  done
  record "$results"
  return $status
}

# Records of other sources are left out, those of docs/gpu_record.json included.
merge() {
  local folder record records=()
  [ -f docs/gpu_record.json ] && records+=(docs/gpu_record.json)
  for folder in "${@:-$out}"; do
    for record in "$folder"/record.*.json; do [ -f "$record" ] && records+=("$record"); done
  done
  jq -s --arg sources "$sources" 'map(select(.sources == $sources)) | reduce .[] as $one ({}; . * $one)' \
    "${records[@]}" >"$out/merged.json"
  if [ "$(jq length "$out/merged.json")" -eq 0 ]; then
    echo "no record is of these sources ($sources)" >&2
    exit 1
  fi
  mkdir -p docs
  mv "$out/merged.json" docs/gpu_record.json
  cat docs/gpu_record.json
}

case $stage in
  test) run_tests ;;
  sanitize) run_sanitize "$@" ;;
  fuzz) run_fuzz ;;
  bench) run_bench ;;
  merge) merge "$@" ;;
  *)
    sed -n '2,10s/^# //p' "$0" >&2
    exit 2
    ;;
esac
