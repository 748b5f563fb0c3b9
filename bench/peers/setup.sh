#!/usr/bin/env bash
# Makes a virtual environment for each peer under $PEERS (build/peers): setup.sh [NAME...]; ort and openvino without names, which are the
# strongest and need 1 GB together; jax, torch, iree and tvm take about 11 GB more. Runs again without harm.
set -u
PEERS=${PEERS:-$(cd "$(dirname "$0")/../.." && pwd)/build/peers}
mkdir -p "$PEERS"

declare -A packages=(
  [ort]="onnxruntime onnx numpy"
  [openvino]="openvino onnx numpy"
  [jax]="jax jaxlib onnx numpy"
  [iree]="iree-base-compiler[onnx] iree-base-runtime onnx numpy"
  [tvm]="apache-tvm onnx numpy scipy psutil cloudpickle"
  [torch]="torch onnx numpy"
)

failed=0
for name in "${@:-ort openvino}"; do
  for peer in $name; do
    place=$PEERS/$peer
    if { [ -x "$place/bin/python" ] || python3 -m venv "$place"; } >"$PEERS/$peer.log" 2>&1 &&
      "$place/bin/pip" install -q ${packages[$peer]} >>"$PEERS/$peer.log" 2>&1; then
      echo "$peer: ready"
    else
      echo "$peer: failed, see $PEERS/$peer.log" >&2
      failed=1
    fi
  done
done
exit $failed
