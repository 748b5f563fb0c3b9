"""What a model has to do at least, as JSON: {path: {flops, read, written, exps}}; work.py MODEL... in the environment `ort`.

A file's own word (`flops` in its metadata) goes before what its products and convolutions are counted as. read: inputs and weights, written:
outputs, in bytes, each once. exps: elements of exponentials and what is built on one. Without static shapes: null."""
import json, os, sys
import numpy as np
import onnx

EXPONENTIAL = {"Exp", "Tanh", "Sigmoid", "Erf", "Softmax", "LogSoftmax", "Gelu", "Softplus", "Elu", "Mish", "Swish"}


def work(path):
    m = onnx.load(path, load_external_data=False)
    g = onnx.shape_inference.infer_shapes(m).graph
    shape = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in [*g.value_info, *g.input, *g.output]}
    shape.update({t.name: list(t.dims) for t in g.initializer})
    kind = {v.name: v.type.tensor_type.elem_type for v in [*g.input, *g.output]}
    kind.update({t.name: t.data_type for t in g.initializer})
    size = lambda n: int(np.prod(shape.get(n, [0])))
    held = lambda n: size(n) * onnx.helper.tensor_dtype_to_np_dtype(kind[n]).itemsize
    weights = {t.name for t in g.initializer}
    inputs, outputs = [v.name for v in g.input if v.name not in weights], [v.name for v in g.output]
    if any(0 in shape[n] for n in inputs + outputs):
        return None
    flops = exps = 0
    for n in g.node:
        if n.op_type == "Conv":
            flops += 2 * size(n.output[0]) * int(np.prod(shape[n.input[1]][1:]))
        elif n.op_type == "ConvTranspose":
            flops += 2 * size(n.input[0]) * int(np.prod(shape[n.input[1]][1:]))
        elif n.op_type in ("MatMul", "Gemm"):
            turned = any(a.name == "transA" and a.i for a in n.attribute)
            flops += 2 * size(n.output[0]) * (shape.get(n.input[0]) or [0])[0 if turned else -1]
        elif n.op_type in ("LSTM", "GRU", "RNN"):
            x = shape.get(n.input[0]) or [0, 0]
            flops += 2 * x[0] * x[1] * (size(n.input[1]) + size(n.input[2]))
        elif n.op_type in EXPONENTIAL:
            exps += size(n.output[0])
    told = {p.key: p.value for p in m.metadata_props}
    used = {i for n in g.node for i in n.input}
    return {"flops": float(told.get("flops", flops)), "exps": exps, "written": sum(map(held, outputs)),
            "read": sum(held(n) for n in inputs + [w for w in weights if w in used])}


def main():
    out = {}
    for path in sys.argv[1:]:
        try:
            out[path] = work(path)
        except Exception as e:  # noqa: BLE001
            print(f"{os.path.basename(path)}: {e}", file=sys.stderr)
            out[path] = None
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
