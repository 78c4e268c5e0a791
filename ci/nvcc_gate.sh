#!/usr/bin/env bash
# Compiler launcher: runs nvcc, keeps what ptxas says in OBJECT.ptxas, and fails on the notes that no flag turns into an
# error: C75xx (wgmma put in series, registers of a warpgroup not moved) and "Potential Performance Loss".
set -u

object=""
previous=""
for argument in "$@"; do
  [ "$previous" = "-o" ] && object=$argument
  previous=$argument
done

log=$object.ptxas
"$@" >"$log" 2>&1
status=$?
grep -vE '^ptxas info|bytes stack frame|^[[:space:]]*$' "$log" >&2
if grep -qE '\(C75[0-9]{2}\)|Potential Performance Loss' "$log"; then
  grep -E '\(C75[0-9]{2}\)|Potential Performance Loss' "$log" >&2
  echo "$object: ptxas gave up an optimisation that the kernel was written for" >&2
  exit 1
fi
exit $status
