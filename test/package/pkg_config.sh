#!/usr/bin/env bash
# pkg_config.sh COMPILER FOLDER BUILD: builds the C client with what sparge.pc in FOLDER says, and runs it.
set -euo pipefail
compiler=$1 build=$3
export PKG_CONFIG_PATH=$2
# shellcheck disable=SC2046
"$compiler" -std=c99 "$(dirname "$0")/c_client/main.c" -o "$build/pkg_config_client" $(pkg-config --cflags --libs sparge)
output=$(LD_LIBRARY_PATH=$(pkg-config --variable=libdir sparge) "$build/pkg_config_client")
echo "$output"
grep -qE '^kernel sm(80|90a) bf16 d64 ' <<<"$output"
grep -q '^refused: .*head_dim.* 96' <<<"$output"
