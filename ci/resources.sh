#!/usr/bin/env bash
# resources.sh BUILD: makes BUILD/resources.txt (registers, static shared memory and spills of each kernel) from what
# ci/nvcc_gate.sh kept, shows how it differs from docs/resources.txt, and fails on a spill that ci/spill_budget.txt does
# not allow.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
build=$1
table=$build/resources.txt

# One line a kernel and architecture: source arch registers shared_bytes spill_store_bytes spill_load_bytes mangled-name
parse() {
  awk -v source="$1" '
    /Compiling entry function/ { split($0, quoted, "\047"); name = quoted[2]; arch = quoted[4] }
    /bytes spill stores/ { stores = $5; loads = $9 }
    / Used [0-9]+ registers/ {
      registers = $0; sub(/.* Used /, "", registers); sub(/ registers.*/, "", registers)
      shared = 0
      if (match($0, /[0-9]+ bytes smem/)) { shared = substr($0, RSTART, RLENGTH); sub(/ .*/, "", shared) }
      print source, arch, registers, shared, stores, loads, name
    }' "$2"
}

# `entry<Pool<...>>(...)` to `Pool<...>`; the values of a config are in the name of its source.
readable() {
  c++filt | sed -E 's/\(sparge::[A-Za-z]+\)//g; s/sparge:://g; s/void entry<(.*) ?>\(.*/\1/; s/(Forward|Backward)Config\{[^}]*\}/.../; s/__nv_bfloat16/bf16/g; s/__half/f16/g; s/ +>/>/g; s/, /,/g; s/ $//'
}

{
  echo "source arch registers shared_bytes spill_store_bytes spill_load_bytes kernel"
  find "$build" -path '*sparge_kernels_*' -name '*.ptxas' | sort | while read -r log; do
    parse "$(basename "$log" .cu.o.ptxas)" "$log"
  done | readable | sort
} >"$table"

kernels=$(($(wc -l <"$table") - 1))
echo "$kernels kernels compiled (each architecture counted), in $table"
[ "$kernels" -gt 0 ] || { echo "no kernel was seen: was the build made with the preset ci?" >&2; exit 1; }
if [ -f docs/resources.txt ] && ! diff -u docs/resources.txt "$table"; then
  echo "docs/resources.txt differs; if that is meant, copy $table over it."
fi

awk '
  NR == FNR { if ($1 !~ /^#/ && NF >= 2) budget[$1] = $2; next }
  FNR > 1 && $5 + $6 > budget[$1] + 0 {
    printf "%s for %s spills %d bytes of stores and %d of loads, allowed are %d\n", $1, $2, $5, $6, budget[$1] + 0
    failed = 1
  }
  END { exit failed }' ci/spill_budget.txt "$table" >&2
