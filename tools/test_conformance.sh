#!/usr/bin/env bash
# ONNX's backend tests in tests/conformance/scope.txt, held to tests/conformance/expected.txt: test_conformance.sh BUILD.
# Exits 77 (skipped) where the tests could not be made.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1 data=build/conformance
[ -f $data/made-of ] || { echo "skipped: there is no $data (./test makes it)"; exit 77; }
exec "$build/tests/tektite_conformance" $data tests/conformance/scope.txt tests/conformance/expected.txt
