#!/usr/bin/env bash
# Runs a fetched model against its stored outputs, fused and unfused, and compares the bits of runs by 1, 2 and 3 threads:
# test_model.sh NAME. Exits 77 (skipped) where it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 folder=build/models/$1
[ -f "$folder/max_rel" ] || { echo "skipped: $folder could not be fetched"; exit 77; }
out=build/models/$name/threads
for set in "$folder"/test_data_set_*/; do
  for threads in 1 2 3; do
    build/tektite run "$folder/model.onnx" --inputs "$set" --expect "$set" --max-rel "$(<"$folder/max_rel")" --threads $threads -o "$out/$threads"
    diff -r "$out/1" "$out/$threads"
  done
  build/tektite run "$folder/model.onnx" --inputs "$set" --expect "$set" --max-rel "$(<"$folder/max_rel")" --unfused
done
