#!/usr/bin/env bash
# full.sh: what takes too long for ./test. Every operator case, a thousand random graphs and every model in build/models on the OpenCL device;
# the kernels of all models through nvcc for sm_80 and sm_90. One line each; fails where one fails. OpenCL programs are kept in build/opencl.
set -uo pipefail
cd "$(dirname "$0")/.."
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$PWD/build/opencl}
mkdir -p "$POCL_CACHE_DIR"
tests=build/tests/tektite_tests tektite=build/tektite failed=0

check() {  # NAME CMD...: ok or the end of what it says
  local name=$1 out start=$SECONDS
  shift
  if out=$("$@" 2>&1); then
    echo "ok      $name ($((SECONDS - start)) s)"
  else
    echo "FAILED  $name: $(tail -n 3 <<<"$out" | tr '\n' ' ')"
    failed=1
  fi
}

check "every case of tests/ops, opencl" env TEKTITE_OPENCL_CASES=1 $tests --gtest_brief=1 --gtest_filter=OpenClDevice.Operators*
check "1000 random graphs, opencl" env TEKTITE_FUZZ=1000 $tests --gtest_brief=1 --gtest_filter=OpenClDevice.RandomGraphs*
for model in tests/models/*/model.onnx build/models/*/model.onnx; do
  [ -f "$model" ] || continue
  name=$(basename "$(dirname "$model")")
  check "$name, opencl" $tektite verify "$model" --target=opencl
  for arch in sm_80 sm_90; do
    check "$name, cuda $arch: no spills" bash -c "set -o pipefail; $tektite explain $model --target=cuda --arch=$arch --json |
      python3 -c 'import json, sys; d = json.load(sys.stdin); d = d if isinstance(d, list) else [d]
k = [k for p in d for k in p[\"kernels\"]]; bad = [x[\"name\"] for x in k if x.get(\"spill_bytes\")]; print(bad); sys.exit(bool(bad))'"
  done
done
exit $failed
