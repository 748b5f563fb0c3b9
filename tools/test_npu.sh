#!/usr/bin/env bash
# Small models on every machine with explicit memories: kernels run in the kernel interpreter, which finds races, overruns and missing waits, and
# agree with the graph interpreter. Weights of a recurrence are brought once where they fit, not once a step.
set -uo pipefail
cd "$(dirname "$0")/.."
tektite=build/tektite failed=0
for target in npu:ascend910b npu:neuroncore2 npu:ethos-u85-1024 npu:ethos-u65-512 npu:gemmini tests/targets/dsp.toml bench/targets/one_buffer.toml; do
  for model in recurrent transformer quantised convnet; do
    for more in "" --unfused; do
      said=$(timeout 300 $tektite verify tests/models/$model/model.onnx --target=$target --no-cache $more 2>&1) ||
        { echo "$model on $target $more: $(tail -n1 <<<"$said")"; failed=1; }
    done
  done
done

# Counted and run: small ones by the interpreter, one that is long to interpret by code of this machine, both against what is stored.
for target in npu:ascend910b npu:neuroncore2; do
  for folder in tests/models/{recurrent,transformer,quantised,convnet} build/models/mobilenet_v2; do
    set=$folder/test_data_set_0
    [ -d $set ] || continue
    within=$([ -f $folder/max_rel ] && echo "--max-rel $(<$folder/max_rel)")  # of a fetched model
    said=$(timeout 300 $tektite run $folder/model.onnx --inputs $set --expect $set $within --target=$target 2>&1) ||
      { echo "$folder on $target: $(tail -n1 <<<"$said")"; failed=1; }
  done
done
exit $failed
