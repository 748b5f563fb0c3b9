#!/usr/bin/env python3
"""Computes what tests/ops/*.test expects: after each `numpy "..."` line it writes the `expect` line anew. Needs NumPy.

After a line `onnxruntime` it writes what onnxruntime gives for the operator, for those that have no formula of their own but its.

The expression sees the case's inputs by name, np, math, erf of arrays, conv2d(x, w, stride, pad, dilation, groups) and
recurrent(kind, x, w, r, ...): an RNN, GRU or LSTM step by step."""
import math, pathlib, re, sys
import numpy as np

TYPES = {"bool": np.bool_, "i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16, "i32": np.int32, "u32": np.uint32,
         "i64": np.int64, "u64": np.uint64, "f16": np.float16, "f32": np.float32, "f64": np.float64}
NAMES = {np.dtype(v): k for k, v in TYPES.items()}
erf = np.vectorize(math.erf, otypes=[float])


def conv2d(x, w, stride, pad, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    (n, _, *size), (outs, ins, *kernel) = x.shape, w.shape
    h, v = ((e - (k - 1) * dilation - 1) // stride + 1 for e, k in zip(size, kernel))
    y = np.zeros((n, outs, h, v))
    for o, c, i, j in np.ndindex(*w.shape):
        rows, columns = (slice(k * dilation, k * dilation + stride * (e - 1) + 1, stride) for k, e in ((i, h), (j, v)))
        y[:, o] += x[:, o // (outs // groups) * ins + c, rows, columns].astype(float) * w[o, c, i, j]
    return y


ACTIVATIONS = {"Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Tanh": np.tanh, "Relu": lambda v: np.maximum(v, 0),
               "Softsign": lambda v: v / (1 + np.abs(v)), "HardSigmoid": lambda v: np.clip(0.2 * v + 0.5, 0, 1)}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(kind, x, w, r, b=None, lens=None, h0=None, c0=None, p=None, direction="forward", act=None, clip=None, coupled=False,
              before=False, layout=0):
    if layout:
        x, h0, c0 = (v if v is None else v.swapaxes(0, 1) for v in (x, h0, c0))
    (steps, batch, _), dirs, hidden = x.shape, w.shape[0], r.shape[2]
    gates, act = w.shape[1] // hidden, act or DEFAULTS[kind] * dirs
    b = np.zeros((dirs, 2 * gates * hidden)) if b is None else b
    p = np.zeros((dirs, 3 * hidden)) if p is None else p
    y, hs, cs = np.zeros((steps, dirs, batch, hidden)), np.zeros((dirs, batch, hidden)), np.zeros((dirs, batch, hidden))
    hs, cs = hs if h0 is None else h0.astype(float), cs if c0 is None else c0.astype(float)
    for d in range(dirs):
        f, g, k = ([lambda v, a=a: ACTIVATIONS[a](v if clip is None else np.clip(v, -clip, clip)) for a in act[d * len(DEFAULTS[kind]):]] * 3)[:3]
        pi, po, pf = np.split(p[d].astype(float), 3)
        for n in range(batch):
            h, c, last = hs[d, n], cs[d, n], steps if lens is None else lens[n]
            for t in range(last)[::-1 if direction == "reverse" or d == 1 else 1]:
                a = [wi @ x[t, n] + bi for wi, bi in zip(np.split(w[d].astype(float), gates), np.split(b[d].astype(float), 2 * gates))]
                ri, rb = np.split(r[d].astype(float), gates), np.split(b[d].astype(float), 2 * gates)[gates:]
                s = [v @ h + e for v, e in zip(ri, rb)]
                if kind == "RNN":
                    h = f(a[0] + s[0])
                elif kind == "GRU":
                    z, reset = f(a[0] + s[0]), f(a[1] + s[1])
                    h = (1 - z) * g(a[2] + (reset * s[2] if before else ri[2] @ (reset * h) + rb[2])) + z * h
                else:
                    i = f(a[0] + s[0] + pi * c)
                    forget = 1 - i if coupled else f(a[2] + s[2] + pf * c)
                    c = forget * c + i * g(a[3] + s[3])
                    h = f(a[1] + s[1] + po * c) * k(c)
                y[t, d, n] = h
            hs[d, n], cs[d, n] = h, c
    if layout:
        y, hs, cs = y.transpose(2, 0, 1, 3), hs.swapaxes(0, 1), cs.swapaxes(0, 1)
    return (y, hs, cs) if kind == "LSTM" else (y, hs)


def uniform(low, high, seed, n):
    mask = (1 << 64) - 1
    out = []
    for i in range(n):
        z = ((seed << 32) + i * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(low + (high - low) * ((z ^ (z >> 31)) >> 40) / 2.0**24)
    return out


def tensor(text):
    kind, dims, data = re.fullmatch(r"(\w+?)(?:\[([\dx]*)\])?\s*=\s*(.*)", text).groups()
    shape = [int(d) for d in dims.split("x") if d] if dims is not None else []
    drawn = re.match(r"uniform\(([^,]+),([^)]+)\) seed (\d+)", data)
    if drawn:
        values = uniform(float(drawn[1]), float(drawn[2]), int(drawn[3]), int(np.prod(shape)))
    else:
        values = [float(v) if kind[0] == "f" else int(v) for v in data.strip("[]").replace(",", " ").split()]
    if kind[0] != "f":
        values = [int(v) for v in values]
    return np.array(values, TYPES[kind]).reshape(shape)


def number(v):
    return str(int(v)) if not isinstance(v, np.floating) else re.sub(r"\.0$", "", repr(float(f"{float(v):.9g}")))


def expected(value):
    value = np.asarray(value)
    shape = "[" + "x".join(map(str, value.shape)) + "]" if value.shape else ""
    return f"expect {NAMES[value.dtype]}{shape} = [" + ", ".join(number(v) for v in value.flatten()) + "]"


def attribute(text):
    if text[0] == '"':
        return text[1:-1]
    one = lambda v: v[1:-1] if v[0] == '"' else float(v) if re.search("[.ein]", v) else int(v)
    if kind := re.match(r"(\w+)\[", text):
        import onnx
        return onnx.numpy_helper.from_array(np.array(attribute(text[kind.end() - 1:]), TYPES[kind[1]]))
    return [one(v) for v in re.split(r"[,\s]+", text[1:-1].strip())] if text[0] == "[" else one(text)


def by_onnxruntime(op, inputs):
    import onnx, onnxruntime
    words = re.findall(r'(\w+)=("[^"]*"|\w*\[[^\]]*\]|\S+)', op)
    settings = {k: attribute(v) for k, v in words}
    outputs, opset = settings.pop("outputs", 1), settings.pop("opset", 21)
    domain, _, name = op.split()[1].rpartition(".")
    node = onnx.helper.make_node(name, [i[0] for i in inputs], [f"y{i}" for i in range(outputs)], domain=domain, **settings)
    given = [i for i in inputs if i[0]]
    info = lambda n, v: onnx.helper.make_tensor_value_info(n, onnx.helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
    graph = onnx.helper.make_graph([node], "g", [info(n, v) for n, v, c in given if not c],
                                   [onnx.ValueInfoProto(name=o) for o in node.output],
                                   [onnx.numpy_helper.from_array(v, n) for n, v, c in given if c])
    sets = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("com.microsoft", 1), onnx.helper.make_opsetid("ai.onnx.ml", 5 if name == "TreeEnsemble" else 3)]
    model = onnx.helper.make_model(graph, opset_imports=sets, ir_version=10)
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), plain, providers=["CPUExecutionProvider"])
    return session.run(None, {n: v for n, v, c in given if not c})


def fill(path):
    lines, out, names = path.read_text().splitlines(), [], {}
    drop = False
    for line in lines:
        word = line.split(" ", 1)[0]
        if drop and word == "expect":
            continue
        drop = False
        out.append(line)
        if word == "op":
            op, inputs = line, []
        elif line == "input none":
            inputs.append(("", None, False))
        elif word == "onnxruntime":
            try:
                out += [expected(v) for v in by_onnxruntime(op, inputs)]
            except Exception as e:
                sys.exit(f"{path}: {op}: {e}")
            drop = True
        if word == "case":
            names = {"np": np, "erf": erf, "math": math, "conv2d": conv2d, "recurrent": recurrent}
        elif word == "input" and line != "input none":
            name, rest = re.match(r"input (?:const )?(\w+):\s*(.*)", line).groups()
            names[name] = tensor(rest)
            inputs.append((name, names[name], line.startswith("input const")))
        elif word == "numpy":
            with np.errstate(all="ignore"):
                value = eval(re.match(r'numpy "(.*)"$', line)[1], names)
            wide = [v for v in names.values() if isinstance(v, np.ndarray)]
            for v in value if isinstance(value, tuple) else (value,):
                v = np.asarray(v)
                if v.dtype == np.float64 and not any(w.dtype == np.float64 for w in wide):
                    v = v.astype(np.float32)
                out.append(expected(v))
            drop = True
    path.write_text("\n".join(out) + "\n")


for p in map(pathlib.Path, sys.argv[1:]) if sys.argv[1:] else sorted((pathlib.Path(__file__).parent.parent / "tests/ops").glob("*.test")):
    fill(p)
