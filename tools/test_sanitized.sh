#!/usr/bin/env bash
# Builds with the address and undefined-behaviour sanitizers in build/asan and runs the fast tests there.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake -G Ninja -B build/asan -DCMAKE_BUILD_TYPE=Release -DTEKTITE_SANITIZE=ON
cmake --build build/asan -j "$(nproc)"
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/tests/leaks.supp:print_suppressions=0
cd build/asan
ctest -L fast -j "$(nproc)" --output-on-failure --no-tests=error
