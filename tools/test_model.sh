#!/usr/bin/env bash
# Runs a fetched model against its stored outputs: test_model.sh NAME [OPTION...]. Exits 77 (skipped) where it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 folder=build/models/$1
shift
[ -f "$folder/max_rel" ] || { echo "skipped: $folder could not be fetched"; exit 77; }
for set in "$folder"/test_data_set_*/; do
  build/tektite run "$folder/model.onnx" --inputs "$set" --expect "$set" --max-rel "$(<"$folder/max_rel")" "$@"
done
