#!/usr/bin/env bash
# The code that README.md and docs/quickstart.md show is the function attend() of examples/quickstart.cpp, to the letter.
set -euo pipefail
cd "$(dirname "$0")/.."

snippet=$(sed -n '/^void attend(/,/^}/p' examples/quickstart.cpp)
[ -n "$snippet" ] || { echo "examples/quickstart.cpp has no function attend()" >&2; exit 1; }

status=0
for document in README.md docs/quickstart.md; do
  if [ "$(sed -n '/^void attend(/,/^}/p' "$document")" != "$snippet" ]; then
    echo "$document: the code of attend() is not that of examples/quickstart.cpp" >&2
    status=1
  fi
done
exit $status
