#!/usr/bin/env bash
# Runs the command lines and the C++ program (built from the text) that README.md shows: test_readme.sh BUILD
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
mkdir -p "$build/readme"
awk '$0 == "```" { on = 0 } on { sub(/ *#.*/, ""); print } $0 == "```sh" { on = 1 }' README.md | while read -r program line; do
  echo "\$ $program $line"
  "$build/${program#build/}" $line </dev/null >"$build/readme/out.txt" 2>&1 || { cat "$build/readme/out.txt"; exit 1; }
done
"$build/tests/tektite_readme"
