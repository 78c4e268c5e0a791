#!/usr/bin/env bash
# Writes the tables of built kernels into README.md, from include/sparge/plan/{forward,backward}_table.inc and docs/gpu_record.json.
# With --check it changes nothing and fails where the table is out of date.
set -euo pipefail
cd "$(dirname "$0")/.."
tables=include/sparge/plan
document=README.md

# blocks TILE: the mask block sizes that a whole number of tiles makes.
blocks() {
  local sizes=""
  for size in 64 128; do
    [ $((size % $1)) -ne 0 ] || sizes="$sizes${sizes:+, }$size"
  done
  echo "$sizes"
}

# parsed TABLE: the members of its rows, a row a line.
parsed() { grep -oP '^ROW\(\K[^)]*' "$tables/$1" | tr -d ',' ; }

# forward_bytes ARCH HEAD_DIM Q_TILE KV_TILE STAGES WARPS, as ForwardConfig::smem_bytes()
forward_bytes() {
  case $1 in
    sm80) echo $((2 * $2 * ($3 + 2 * $5 * $4))) ;;
    sm90a) echo $((($6 - 4) / ($3 / 16) * (2 * $2 * (2 * $3 + $5 * $4) + 1024))) ;;
  esac
}

forward_rows() {
  local bytes mask_blocks
  echo "| architecture | element | head_dim | tile: query x key | stages | shared memory | mask blocks: query; key |"
  echo "|---|---|---|---|---|---|---|"
  parsed forward_table.inc | while read -r arch dtype head_dim q kv stages warps _; do
    bytes=$(forward_bytes "$arch" "$head_dim" "$q" "$kv" "$stages" "$warps")
    mask_blocks="$(blocks "$q"); $(blocks "$kv")"
    [ "$arch" != sm90a ] || mask_blocks="128; 64"
    echo "| $arch | $dtype | $head_dim | $q x $kv | $stages | $((bytes / 1024)) KiB | $mask_blocks |"
  done
}

# backward_bytes PASS ARCH HEAD_DIM Q_TILE KV_TILE STAGES, as BackwardConfig::smem_bytes()
backward_bytes() {
  case "$1 $2 $3" in
    "dq sm80 "*) echo $((4 * $3 * ($4 + $6 * $5))) ;;
    "dkdv sm80 "*) echo $((4 * $3 * $5 + 4 * $4 * $5 + $6 * (4 * $3 * $4 + 8 * $4))) ;;
    "dq sm90a "*) echo $((2 * $3 * (3 * $4 + 2 * $6 * $5) + 8 * $4 + 512)) ;;
    "dkdv sm90a 64") echo $((2 * (2 * $6 * (2 * $3 * $4 + 4 * $4) + 8 * $3 * $5 + 1024))) ;;
    "dkdv sm90a 128") echo $(((2 * $6 - 1) * (2 * $3 * $4 + 4 * $4) + 4 * $4 * $5 + 4 * $3 * $5 + 512)) ;;
  esac
}

backward_rows() {
  local bytes mask_blocks
  echo "| pass | architecture | element | head_dim | tile: query x key | stages | shared memory | mask blocks: query; key |"
  echo "|---|---|---|---|---|---|---|---|"
  parsed backward_table.inc | while read -r pass arch dtype head_dim q kv stages _; do
    bytes=$(backward_bytes "$pass" "$arch" "$head_dim" "$q" "$kv" "$stages")
    mask_blocks="$(blocks "$q"); $(blocks "$kv")"
    [ "$arch" != sm90a ] || mask_blocks="128; 64"
    echo "| $pass | $arch | $dtype | $head_dim | $q x $kv | $stages | $(((bytes + 1023) / 1024)) KiB | $mask_blocks |"
  done
}

run_on() {
  local record=docs/gpu_record.json
  if [ ! -f "$record" ]; then
    echo "Tested on: no run on a GPU is recorded yet."
  elif [ "$(jq -r .sources "$record")" = "$(bash ci/source_hash.sh)" ]; then
    echo "Tested on: $(jq -r '"\(.gpu), \(.date)"' "$record") (\`$record\`)."
  else
    echo "Tested on: $(jq -r '"\(.gpu), \(.date)"' "$record") (\`$record\`), before the latest change of the sources, which has not"
    echo "run on a GPU yet."
  fi
}

section() {
  echo "### Forward kernels"
  echo
  forward_rows
  echo
  echo "### Backward kernels"
  echo
  echo "A call runs one of each pass: \`dkdv\` computes the gradients of K and V, \`dq\` that of Q."
  echo
  backward_rows
  echo
  echo "\`sm80\` kernels use cp.async, ldmatrix and mma.sync and run on every GPU of compute capability 8.0 and later; the"
  echo "default build holds code for 8.0 (with PTX for later ones) and 9.0a. \`sm90a\` kernels use TMA and wgmma, gather kept"
  echo "key blocks into tiles, and run on 9.0 alone (H100, H200); a build without 90a leaves them out. Plans take the first row"
  echo "(of each pass) that serves the problem and fits the device's shared memory."
  run_on
}

begin='<!-- support table: made by docs/support_table.sh -->'
end='<!-- end of support table -->'
grep -qxF "$begin" "$document" && grep -qxF "$end" "$document" || { echo "$document has no place for the table" >&2; exit 1; }

updated=$(mktemp)
trap 'rm -f "$updated"' EXIT
{
  awk -v begin="$begin" '{ print } $0 == begin { exit }' "$document"
  echo
  section
  echo
  awk -v end="$end" '$0 == end { found = 1 } found' "$document"
} >"$updated"

if [ "${1:-}" = "--check" ]; then
  diff -u "$document" "$updated" >&2 || { echo "run docs/support_table.sh" >&2; exit 1; }
else
  cat "$updated" >"$document"
fi
