#!/usr/bin/env bash
# symbols.sh LIBRARY HEADER: the library exports exactly the functions that the header declares, and loads only the C and
# C++ runtimes.
set -euo pipefail
export LC_ALL=C
library=$1 header=$2 status=0

declared=$(gcc -fsyntax-only -aux-info /dev/stdout -x c "$header" | grep -oP '\bsparge_\w+(?= \()' | sort)
exported=$(nm -D --defined-only "$library" | awk '{ print $NF }' | sort)
[ "$(wc -l <<<"$declared")" -ge 20 ] || { echo "found too few declarations in $header:" "$declared"; status=1; }
if ! diff <(echo "$declared") <(echo "$exported"); then
  echo "the symbols that are declared (<) and exported (>) differ"
  status=1
fi

needed=$(readelf -d "$library" | grep -oP '\(NEEDED\).*\[\K[^]]+')
if grep -vE '^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux[-a-z0-9_]*)\.so(\.[0-9]+)*$' <<<"$needed"; then
  echo "the libraries above must not be needed"
  status=1
fi
grep -qP 'SONAME.*\[libsparge\.so\.\d+\.\d+\]' <<<"$(readelf -d "$library")" || { echo "no SONAME libsparge.so.X.Y"; status=1; }
exit $status
