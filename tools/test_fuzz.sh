#!/usr/bin/env bash
# Builds the readers of models and texts with Clang's libFuzzer and AddressSanitizer in build/fuzz and gives each some seconds: test_fuzz.sh [SECONDS].
# What it finds is left in build/fuzz/found. Exits 77 (skipped) where there is no libFuzzer.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-15}
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
  clang++-19 -fsanitize=fuzzer -x c++ - -o /dev/null 2>/dev/null || { echo "skipped: Clang 19 with libFuzzer was not found"; exit 77; }
declare -A seeds=([importer]='tests/models/*/*.onnx' [graphs]='tests/graph/*.tk tests/graph/language/*.tk' [kernels]='tests/kernel/*.k tests/kernel/*/*.tk tests/kernel/*.tk'
  [expressions]='tests/fuzz/expressions/*' [targets]='tests/fuzz/targets/*')
cmake -G Ninja -B build/fuzz -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=clang++-19 -DTEKTITE_FUZZERS=ON >build/fuzz_configure.log
cmake --build build/fuzz -j "$(nproc)" --target fuzz_importer fuzz_graphs fuzz_kernels fuzz_expressions fuzz_targets
mkdir -p build/fuzz/found
for reader in "${!seeds[@]}"; do
  corpus=build/fuzz/corpus/$reader
  mkdir -p "$corpus"
  number=0
  for file in ${seeds[$reader]}; do
    [ -f "$file" ] && cp "$file" "$corpus/seed$((number++))"
  done
  echo "== $reader, from $number files"
  build/fuzz/tests/fuzz_$reader -max_total_time="$seconds" -rss_limit_mb=4096 -timeout=25 -artifact_prefix=build/fuzz/found/$reader- "$corpus" 2>&1 | grep -vE "Uses:|dictionary|^#|NEW|REDUCE"
done
