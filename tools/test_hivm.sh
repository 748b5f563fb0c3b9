#!/usr/bin/env bash
# Kernels for npu:ascend910b as HIVM, judged by the vendor's own tool (PyPI's ascendnpu-ir): they parse, verify, and -hivm-plan-memory
# finds room for them. Skipped (77) where the tool isn't installed in build/ascend.
set -uo pipefail
cd "$(dirname "$0")/.."
tektite=$PWD/build/tektite
judge=$(find -L build/ascend/lib -name bishengir-opt 2>/dev/null | head -n1)
[ -n "$judge" ] || { echo "ascendnpu-ir is not installed"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

says() {  # FILE: what the tool has against it
  "$judge" "$1" -hivm-plan-memory 2>&1 >/dev/null | grep -m1 error
}

kernels=0 printed=0 refused=0
for model in tests/models/{transformer,convnet,quantised,unet,recurrent}/model.onnx build/models/{magika,mobilenet_v2}/model.onnx; do
  [ -f "$model" ] || continue
  rm -rf "$work"/*
  $tektite compile "$model" --target=npu:ascend910b -o "$work" >/dev/null 2>&1 || continue
  kernels=$((kernels + $(find "$work" -name '*.npu' | wc -l)))
  for text in "$work"/*.mlir; do
    [ -f "$text" ] || continue
    printed=$((printed + 1))
    against=$(says "$text")
    [ -z "$against" ] || { echo "$model: $(basename "$text"): $against"; refused=$((refused + 1)); }
  done
done

# Reductions that all cores share: their parts meet behind a wait of all blocks.
cat >"$work/shared.tk" <<'GRAPH'
graph (x: f32[5x300001], b: f32[5x1]) {
  %1 = map (x) { $0 * $0 } : f32[5x300001]
  %2 = reduce sum %1 axes=[1] : f32[5x1]
  %3 = map (%2, b) { sqrt($0) - $1 } : f32[5x1]
  return %3
}
GRAPH
rm -f "$work"/*.mlir
$tektite compile "$work/shared.tk" --target=npu:ascend910b -o "$work" >/dev/null 2>&1
shared=$(ls "$work"/*.mlir) && grep -q sync_block "$shared" || { echo "a reduction that cores share is not printed"; exit 1; }
against=$(says "$shared")
[ -z "$against" ] || { echo "a reduction that cores share: $against"; refused=$((refused + 1)); }
kernels=$((kernels + 1)) printed=$((printed + 1))
echo "$kernels kernels, $printed printed as HIVM, $refused refused"

# Rows that fit no scratchpad: the tool has to say so, else it said nothing above.
cat >"$work/large.tk" <<'GRAPH'
graph (x: f32[64x120000]) {
  %1 = reduce max x axes=[1] : f32[64x1]
  %2 = map (x, %1) { $0 - $1 } : f32[64x120000]
  return %2
}
GRAPH
rm -f "$work"/*.mlir
$tektite compile "$work/large.tk" --target=npu:ascend910b --set scratch_bytes=1000000 -o "$work" >/dev/null 2>&1
large=$(ls "$work"/*.mlir) && [[ $(says "$large") == *overflow* ]] || { echo "a kernel for five times the memory is not refused"; exit 1; }
[ $printed -ge 4 ] && [ $refused = 0 ]
