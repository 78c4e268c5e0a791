#!/usr/bin/env bash
# Prints the hash of everything that decides what the kernels compute: comments and white space do not count, so that the
# record of a GPU run stays valid across a reworded comment. Needs no git and no compiler.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."

# Strings are kept, so that a // inside one is no comment; a ' behind a letter or digit separates digits. Removing all
# white space makes line ends and indentation not count either.
code_of() {
  case $1 in
    CMakeLists.txt | *.cmake) sed -E 's/^[[:space:]]*#.*//' "$1" ;;
    *)
      perl -0777 -pe 's{(R"([^(]*)\(.*?\)\g2"|"(?:\\.|[^"\\])*"|(?<![0-9A-Za-z])\x27(?:\\.|[^\x27\\])*\x27)|//[^\n]*|/\*.*?\*/}
        {defined $1 ? $1 : ""}gsex' "$1"
      ;;
  esac | tr -d '[:space:]'
}

folders=()
for folder in include src cmake test/device test/op test/property test/contract test/support; do
  [ -d "$folder" ] && folders+=("$folder")
done
find CMakeLists.txt "${folders[@]}" -type f ! -name '.*' ! -name '*.md' | sort | while read -r file; do
  printf '%s %s\n' "$file" "$(code_of "$file" | sha256sum | cut -d' ' -f1)"
done | sha256sum | cut -d' ' -f1
