#!/usr/bin/env python3
"""Makes the small models of this folder, with inputs and what onnxruntime (nothing optimised) gives: make.py [NAME...]"""
import pathlib, sys
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T, helper as h, numpy_helper as nh

HERE = pathlib.Path(__file__).parent


class G:
    def __init__(self, name, seed):
        self.name, self.rng = name, np.random.default_rng(seed)
        self.nodes, self.inits, self.ins, self.outs, self.feeds, self.functions = [], [], [], [], {}, []
        self.count = 0

    def inp(self, name, value, dims=None):
        value = np.asarray(value)
        self.ins.append(h.make_tensor_value_info(name, h.np_dtype_to_tensor_dtype(value.dtype), dims or value.shape))
        self.feeds[name] = value
        return name

    def c(self, value):
        name = f"c{len(self.inits)}"
        self.inits.append(nh.from_array(np.asarray(value), name))
        return name

    def w(self, *shape, scale=0.3):
        return self.c((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def x(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def out(self, *names, kind=T.FLOAT):
        self.outs += [h.make_tensor_value_info(n, kind, None) for n in names]

    def __getattr__(self, op):
        def add(*ins, outputs=1, domain=None, **attrs):
            outs, name = [f"t{self.count}_{i}" for i in range(outputs)], f"{op.lower()}_{self.count}"
            self.count += 1
            self.nodes.append(h.make_node(op, list(ins), outs, name=name, domain=domain, **attrs))
            return outs[0] if outputs == 1 else outs
        return add

    def save(self, opset=17, extra=()):
        graph = h.make_graph(self.nodes, self.name, self.ins, self.outs, self.inits)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), *extra], ir_version=8, functions=self.functions)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        results = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"]).run(None, self.feeds)
        data = HERE / self.name / "test_data_set_0"
        data.mkdir(parents=True, exist_ok=True)
        (HERE / self.name / "model.onnx").write_bytes(model.SerializeToString())
        for i, (name, value) in enumerate(self.feeds.items()):
            (data / f"input_{i}.pb").write_bytes(nh.from_array(value, name).SerializeToString())
        for i, (info, value) in enumerate(zip(self.outs, results)):
            (data / f"output_{i}.pb").write_bytes(nh.from_array(value, info.name).SerializeToString())


def transformer(g):
    """Embedding, attention with a mask, layer norms and GELU from primitives; batch and sequence are named dims."""
    d, heads, n, s = 16, 2, 2, 5
    ids = g.inp("ids", g.rng.integers(0, 20, (n, s)), ["batch", "sequence"])
    mask = g.inp("mask", np.array([[1] * 5, [1, 1, 1, 0, 0]]), ["batch", "sequence"])

    def norm(x):
        c = g.Sub(x, g.ReduceMean(x, axes=[-1]))
        v = g.ReduceMean(g.Pow(c, g.c(np.float32(2))), axes=[-1])
        return g.Add(g.Mul(g.Div(c, g.Sqrt(g.Add(v, g.c(np.float32(1e-5))))), g.w(d, scale=1)), g.w(d))

    def split(x):
        shape = g.Shape(x)
        one = lambda i: g.Unsqueeze(g.Gather(shape, g.c(np.int64(i))), g.c(np.array([0])))
        to = g.Concat(one(0), one(1), g.c(np.array([heads])), g.c(np.array([d // heads])), axis=0)
        return g.Transpose(g.Reshape(x, to), perm=[0, 2, 1, 3])

    position = g.Slice(g.w(8, d), g.c(np.array([0])), g.Unsqueeze(g.Gather(g.Shape(ids), g.c(np.int64(1))), g.c(np.array([0]))), g.c(np.array([0])))
    x = norm(g.Add(g.Gather(g.w(20, d), ids), position))
    closed = g.Mul(g.Sub(g.c(np.float32(1)), g.Cast(g.Unsqueeze(mask, g.c(np.array([1, 2]))), to=T.FLOAT)), g.c(np.float32(-1e4)))
    q, k, v = (split(g.Add(g.MatMul(x, g.w(d, d)), g.w(d))) for _ in range(3))
    scores = g.Add(g.Div(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.c(np.float32(np.sqrt(d // heads)))), closed)
    y = g.Transpose(g.MatMul(g.Softmax(scores, axis=-1), v), perm=[0, 2, 1, 3])
    x = norm(g.Add(x, g.MatMul(g.Reshape(y, g.c(np.array([0, 0, d]))), g.w(d, d))))
    f = g.Add(g.MatMul(x, g.w(d, 4 * d)), g.w(4 * d))
    f = g.Mul(g.Mul(f, g.Add(g.Erf(g.Div(f, g.c(np.float32(np.sqrt(2))))), g.c(np.float32(1)))), g.c(np.float32(0.5)))
    g.out(norm(g.Add(x, g.MatMul(f, g.w(4 * d, d)))))
    g.save()


def convnet(g):
    """Convolution, batch norm, residual, pools, a depthwise and a grouped convolution, squeeze and excite."""
    def bn(x, c):
        return g.BatchNormalization(x, g.w(c, scale=1), g.w(c), g.w(c), g.c(g.rng.uniform(0.5, 2, c).astype(np.float32)))

    x = g.inp("image", g.x(1, 3, 12, 12))
    x = g.MaxPool(g.Relu(bn(g.Conv(x, g.w(8, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1]), 8)), kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])
    y = g.Clip(bn(g.Conv(x, g.w(8, 1, 3, 3), group=8, pads=[1, 1, 1, 1]), 8), g.c(np.float32(0)), g.c(np.float32(6)))
    e = g.Sigmoid(g.Conv(g.GlobalAveragePool(y), g.w(8, 8, 1, 1), g.w(8)))
    x = g.Relu(g.Add(x, bn(g.Conv(g.Mul(y, e), g.w(8, 8, 1, 1)), 8)))
    x = g.AveragePool(g.Conv(x, g.w(12, 4, 3, 3), g.w(12), group=2, dilations=[2, 2], pads=[2, 2, 2, 2]), kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    g.out(g.Softmax(g.Gemm(g.Flatten(g.GlobalAveragePool(x)), g.w(5, 12), g.w(5), transB=1)))
    g.save()


def unet(g):
    """Down, up (resize and transposed convolution), skip by concatenation, cropped and padded edges."""
    x = g.inp("image", g.x(1, 2, 8, 8))
    a = g.LeakyRelu(g.Conv(x, g.w(4, 2, 3, 3), g.w(4), pads=[1, 1, 1, 1]), alpha=0.1)
    b = g.Elu(g.Conv(g.MaxPool(a, kernel_shape=[2, 2], strides=[2, 2]), g.w(6, 4, 3, 3), pads=[1, 1, 1, 1]))
    up = g.Resize(b, "", g.c(np.array([1, 1, 2, 2], np.float32)), mode="linear", coordinate_transformation_mode="half_pixel")
    tr = g.ConvTranspose(b, g.w(6, 3, 2, 2), g.w(3), strides=[2, 2])
    near = g.Resize(b, "", "", g.c(np.array([1, 6, 8, 8])), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    y = g.Concat(a, up, tr, near, axis=1)
    y = g.Pad(y, g.c(np.array([0, 0, 1, 1, 0, 0, 1, 1])), mode="reflect")
    y = g.Conv(y, g.w(2, 19, 3, 3), g.w(2))
    y = g.Slice(y, g.c(np.array([1, 2])), g.c(np.array([-1, 8])), g.c(np.array([2, 3])))
    g.out(g.InstanceNormalization(y, g.w(2, scale=1), g.w(2)))
    g.save()


def recurrent(g):
    """A bidirectional LSTM over rows of different lengths, a GRU, a plain RNN."""
    steps, batch, n, hidden = 6, 2, 3, 4
    x = g.inp("x", g.x(steps, batch, n))
    lengths = g.c(np.array([6, 4], np.int32))
    y, last, _ = g.LSTM(x, g.w(2, 4 * hidden, n), g.w(2, 4 * hidden, hidden), g.w(2, 8 * hidden), lengths, outputs=3, hidden_size=hidden, direction="bidirectional")
    y = g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.c(np.array([0, 0, -1])))
    z, _ = g.GRU(y, g.w(1, 3 * hidden, 2 * hidden), g.w(1, 3 * hidden, hidden), g.w(1, 6 * hidden), outputs=2, hidden_size=hidden, linear_before_reset=1)
    z = g.Squeeze(z, g.c(np.array([1])))
    r, _ = g.RNN(z, g.w(1, hidden, hidden), g.w(1, hidden, hidden), g.w(1, 2 * hidden), outputs=2, hidden_size=hidden, direction="reverse")
    g.out(r, last)
    g.save()


def control(g):
    """A branch on data, a loop with a state, a scan, and a local function called twice."""
    f = h.make_function("mine", "Scaled", ["a", "s"], ["r"], [h.make_node("Mul", ["a", "s"], ["m"]), h.make_node("Tanh", ["m"], ["r"])], [h.make_opsetid("", 17)])
    g.functions.append(f)
    x = g.inp("x", g.x(3, 4))
    flag = g.inp("flag", np.array(True))
    x = g.Scaled(g.Scaled(x, g.c(np.float32(2)), domain="mine"), g.c(np.float32(0.5)), domain="mine")
    info = lambda name, kind=T.FLOAT, shape=None: h.make_tensor_value_info(name, kind, shape)
    branch = lambda op: h.make_graph([h.make_node(op, [x], ["b_" + op])], op, [], [info("b_" + op, shape=[3, 4])])
    y = g.If(flag, then_branch=branch("Exp"), else_branch=branch("Neg"))
    body = h.make_graph([h.make_node("Identity", ["on"], ["on2"]), h.make_node("Cast", ["i"], ["fi"], to=T.FLOAT), h.make_node("Add", ["s", "fi"], ["s1"]),
                         h.make_node("Mul", ["s1", x], ["s2"]), h.make_node("ReduceSum", ["s2"], ["total"], keepdims=0)], "body",
                        [info("i", T.INT64, []), info("on", T.BOOL, []), info("s", shape=[3, 4])], [info("on2", T.BOOL, []), info("s2", shape=[3, 4]), info("total", shape=[])])
    z, totals = g.Loop(g.c(np.int64(4)), g.c(np.array(True)), y, body=body, outputs=2)
    step = h.make_graph([h.make_node("Add", ["h", "row"], ["h1"]), h.make_node("Sigmoid", ["h1"], ["h2"]), h.make_node("Identity", ["h2"], ["o"])], "step",
                        [info("h", shape=[4]), info("row", shape=[4])], [info("h2", shape=[4]), info("o", shape=[4])])
    last, rows = g.Scan(g.c(np.zeros(4, np.float32)), z, body=step, num_scan_inputs=1, outputs=2)
    g.out(z, totals, last, rows)
    g.save(extra=[h.make_opsetid("mine", 1)])


def quantised(g):
    """An integer convolution by QDQ, and a product in integers."""
    x = g.inp("x", g.x(1, 2, 6, 6))
    q = g.QuantizeLinear(x, g.c(np.float32(0.02)), g.c(np.uint8(128)))
    w = g.c(g.rng.integers(-100, 100, (4, 2, 3, 3)).astype(np.int8))
    wd = g.DequantizeLinear(w, g.c(g.rng.uniform(0.001, 0.01, 4).astype(np.float32)), g.c(np.zeros(4, np.int8)), axis=0)
    y = g.Relu(g.Conv(g.DequantizeLinear(q, g.c(np.float32(0.02)), g.c(np.uint8(128))), wd, g.w(4), pads=[1, 1, 1, 1]))
    m = g.Reshape(q, g.c(np.array([12, 6])))
    z = g.MatMulInteger(m, g.c(g.rng.integers(-100, 100, (6, 3)).astype(np.int8)), g.c(np.uint8(128)), g.c(np.int8(3)))
    g.out(y)
    g.out(z, kind=T.INT32)
    g.save()


def info(name, kind=T.FLOAT, shape=None):
    return h.make_tensor_value_info(name, kind, shape)


def inner(g, name, build, ins, outs):
    """A graph attribute whose nodes `build` adds, as its node names."""
    around, g.nodes = g.nodes, []
    results = build()
    nodes, g.nodes = g.nodes + [h.make_node("Identity", [r], [o.name]) for r, o in zip(results, outs)], around
    return h.make_graph(nodes, name, ins, outs)


def decode(g):
    """A search that appends to its state until it meets an end: steps, shapes and a branch in each step depend on data; and loops of no step."""
    d, table = 6, g.w(9, 6, scale=1)
    start = g.inp("start", np.array([[3, 1]]), [1, "length"])
    most = g.inp("most", np.array(7))
    bias = g.w(9, scale=1)

    def step():
        hidden = g.ReduceMean(g.Gather(table, "tokens"), axes=[1], keepdims=0)
        even = g.Equal(g.Mod("i", g.c(np.int64(2))), g.c(np.int64(0)))
        wide = lambda: [g.Concat(hidden, g.Tanh(hidden), axis=1)]
        narrow = lambda: [g.Mul(hidden, g.c(np.float32(2)))]
        mixed = g.If(even, then_branch=inner(g, "wide", wide, [], [info("wide_out")]), else_branch=inner(g, "narrow", narrow, [], [info("narrow_out")]))
        width = g.Gather(g.Shape(mixed), g.c(np.array([1])))
        part = g.Slice(g.c(g.rng.standard_normal((2 * d, 9)).astype(np.float32)), g.c(np.array([0])), width, g.c(np.array([0])))
        logits = g.Add(g.MatMul(mixed, part), "b")
        token = g.ArgMax(logits, axis=1, keepdims=1)
        on = g.Not(g.Squeeze(g.Equal(token, g.c(np.int64(8)))))
        return [on, "b", g.Concat("tokens", token, axis=1), g.ReduceMax(logits, axes=[1], keepdims=0)]

    body = inner(g, "step", step, [info("i", T.INT64, []), info("on", T.BOOL, []), info("b", shape=[9]), info("tokens", T.INT64)],
                 [info("on2", T.BOOL), info("b2", shape=[9]), info("tokens2", T.INT64), info("best", shape=[1])])
    handed, tokens, best = g.Loop(most, "", bias, start, body=body, outputs=3)  # a state that stays what it was
    none = inner(g, "none", lambda: [g.Not("n_on"), g.Mul("n_s", g.c(np.float32(3)))], [info("n_i", T.INT64, []), info("n_on", T.BOOL, []), info("n_s", shape=[2])],
                 [info("n_on2", T.BOOL), info("n_s2", shape=[2])])
    kept = g.Loop(g.c(np.int64(5)), g.Less(most, g.c(np.int64(0))), g.c(np.array([1, 2], np.float32)), body=none)
    g.out(tokens, kind=T.INT64)
    g.out(best, g.Softmax(g.Squeeze(best, g.c(np.array([1]))), axis=0), kept, g.Neg(handed))
    g.save()


def picking(g):
    """Results as large as data says, and shapes, axes and amounts that are computed."""
    x = g.inp("x", g.x(3, 8))
    kinds = g.inp("kinds", g.rng.integers(0, 4, 10))
    places = g.NonZero(g.Greater(x, g.c(np.float32(0.3))))
    picked = g.GatherND(x, g.Transpose(places, perm=[1, 0]))
    n = g.Gather(g.Shape(places), g.c(np.array([1])))
    distinct, first, inverse, counts = g.Unique(kinds, outputs=4, sorted=1)
    some = g.Compress(g.Exp(x), g.Greater(g.ReduceSum(x, g.c(np.array([0])), keepdims=0), g.c(np.float32(0))), axis=1)
    k = g.Min(g.ReduceMax(counts, keepdims=1), n)
    largest, at = g.TopK(picked, k, outputs=2)
    least = g.ReduceMin(distinct, keepdims=1)
    rest = g.Slice(x, g.Add(least, g.c(np.array([1]))), g.c(np.array([7])), g.c(np.array([1])))
    square = g.Reshape(g.Tile(largest, g.Concat(k, axis=0)), g.Concat(k, k, axis=0), allowzero=1)
    ramp = g.Range(g.c(np.int64(0)), g.Squeeze(n), g.c(np.int64(2)))
    padded = g.Pad(picked, g.Concat(least, k, axis=0))
    once = g.Softmax(g.MatMul(square, square), axis=-1)
    g.out(picked, some, largest, rest, once, padded)
    g.out(distinct, inverse, counts, at, ramp, kind=T.INT64)
    g.save()


def boxes(g):
    """Boxes that survive each other, read again; and a branch whose result has another shape in each case."""
    corner, size = g.rng.uniform(0, 8, (1, 12, 2)), g.rng.uniform(2, 5, (1, 12, 2))
    found = g.inp("found", np.concatenate([corner, corner + size], -1).astype(np.float32))
    scores = g.inp("scores", g.rng.uniform(0, 1, (1, 2, 12)).astype(np.float32))
    kept = g.NonMaxSuppression(found, scores, g.c(np.array([5])), g.c(np.array([0.3], np.float32)), g.c(np.array([0.2], np.float32)))
    rows = g.Gather(kept, g.c(np.int64(2)), axis=1)
    read = g.Gather(g.Squeeze(found, g.c(np.array([0]))), rows)
    many = g.Greater(g.Gather(g.Shape(kept), g.c(np.int64(0))), g.c(np.int64(3)))
    high = g.Greater(g.ReduceMax(read, keepdims=0), g.c(np.float32(100)))
    area = g.If(g.And(many, g.Not(high)), then_branch=inner(g, "each", lambda: [g.ReduceProd(read, axes=[1], keepdims=1)], [], [info("each_out")]),
                else_branch=inner(g, "all", lambda: [g.ReduceSum(read, keepdims=0)], [], [info("all_out")]))
    g.out(read, g.Sqrt(area))
    g.out(kept, kind=T.INT64)
    g.save()


def fenced(g):
    """Nodes whose metadata asks fusion to keep them apart, and to join others."""
    def asks(key, value):
        entry = g.nodes[-1].metadata_props.add()
        entry.key, entry.value = key, value

    x = g.inp("x", g.x(4, 64))
    a = g.Exp(x)
    b = g.Mul(g.Tanh(a), x)
    asks("tektite.cut", "exp_0, tanh_1")
    c = g.Add(b, x)
    asks("tektite.fuse", "mul_2")
    asks("other.tool", "whatever")
    g.out(g.Relu(c))
    asks("tektite.cut", "*")
    g.save()


ALL = [transformer, convnet, unet, recurrent, control, quantised, decode, picking, boxes, fenced]

for i, fn in enumerate(ALL):
    if len(sys.argv) == 1 or fn.__name__ in sys.argv[1:]:
        fn(G(fn.__name__, i))
