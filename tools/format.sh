#!/usr/bin/env bash
# Formats the C++ sources; with --check it changes nothing and fails where something would change.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run -Werror)
find src include tests -name '*.h' -o -name '*.cpp' | xargs clang-format-19 "${mode[@]}"
