#!/usr/bin/env bash
# Runs a fetched model on inputs of many shapes in one session, against onnxruntime; shapes that came before compile nothing:
# test_dynamic.sh NAME. Exits 77 (skipped) where the model or its expected outputs can't be had.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 folder=build/models/$1
[ -f "$folder/max_rel" ] && [ -x build/venv/bin/python ] || { echo "skipped: $folder could not be fetched"; exit 77; }
both=$(build/venv/bin/python tools/models/sweep.py build/models "$name") || { echo "skipped: no onnxruntime"; exit 77; }
{ read -r sets; read -r refused || true; } <<<"$both"  # of some models no size is refused
build/tektite run "$folder/model.onnx" --inputs "$sets" --expect "$sets" --max-rel "$(<"$folder/max_rel")" --cache-dir build/cache | tee "$folder/sweep/log"
distinct=$(tr , '\n' <<<"$sets" | sort -u | wc -l)
grep -q " $distinct compilations so far\$" <(tail -n1 "$folder/sweep/log") || { echo "$distinct different shapes, but another number of compilations"; exit 1; }
for set in ${refused//,/ }; do  # sizes that the model isn't for: one line, exit code 2
  said=$(build/tektite run "$folder/model.onnx" --inputs "$set" 2>&1) && code=0 || code=$?
  [ $code = 2 ] && [[ $said == *"node '"* && $said != *$'\n'* ]] || { echo "$set: exit code $code: $said"; exit 1; }
done
