#!/usr/bin/env python3
"""Writes the ONNX models of the published tables that bench/papers meets: papers_models.py FOLDER [NAME...]."""
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F16, F32, I8, U8 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8
OPSET = 17


class Model:
    """Nodes one after the other; weights are random, from a seed that the name gives."""

    def __init__(self, name):
        self.name, self.nodes, self.weights = name, [], []
        self.random = np.random.default_rng(sum(name.encode()))

    def add(self, op, inputs, **attributes):
        out = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def normal(self, shape, dtype, fan):
        return self.weight((self.random.standard_normal(shape) / np.sqrt(fan)).astype(dtype))

    def save(self, folder, inputs, outputs):
        graph = helper.make_graph(
            self.nodes, self.name, [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(*o) for o in outputs], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, Path(folder) / f"{self.name}.onnx")


VGG = [64, 64, "pool", 128, 128, "pool", 256]
VGG16 = [64, 64, "pool", 128, 128, "pool", *[256] * 3, "pool", *[512] * 3, "pool", *[512] * 3, "pool"]


def vgg(folder, name, size, plan=VGG):
    """The first convolutions of VGG-E with their pools, float."""
    m, x, channels = Model(name), "x", 3
    for step in plan:
        if step == "pool":
            x, size_out = m.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2]), None
            continue
        w = m.normal([step, channels, 3, 3], np.float32, 9 * channels)
        b = m.weight(np.zeros(step, np.float32))
        x = m.add("Relu", [m.add("Conv", [x, w, b], pads=[1, 1, 1, 1])])
        channels = step
    pools = plan.count("pool")
    m.save(folder, [("x", F32, [1, 3, size, size])], [(x, F32, [1, channels, size >> pools, size >> pools])])


def vgg_int8(folder, name, size, plan=VGG):
    """The same in QLinearConv: bytes for maps and weights."""
    m, x, channels = Bytes(name), "x", 3
    for step in plan:
        if step == "pool":
            x = m.add("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
            continue
        x, channels = m.conv(x, channels, step, 3), step
    pools = plan.count("pool")
    m.save(folder, [("x", I8, [1, 3, size, size])], [(x, I8, [1, channels, size >> pools, size >> pools])])


class Bytes(Model):
    """A network in int8: one scale for all maps, each sum requantised."""

    def __init__(self, name):
        super().__init__(name)
        self.scale, self.zero = self.weight(np.float32(0.05)), self.weight(np.int8(0))

    def conv(self, x, channels, out, size, stride=1, group=1):
        fan = channels // group * size * size
        w = self.weight(self.random.integers(-127, 128, [out, channels // group, size, size]).astype(np.int8))
        b = self.weight(self.random.integers(-99, 100, out).astype(np.int32))
        small, pad = self.weight(np.float32(0.01 / np.sqrt(fan))), size // 2
        return self.add("QLinearConv", [x, self.scale, self.zero, w, small, self.zero, self.scale, self.zero, b],
                        pads=[pad] * 4, strides=[stride] * 2, group=group)

    def real(self, x):
        return self.add("DequantizeLinear", [x, self.scale, self.zero])

    def narrow(self, x):
        return self.add("QuantizeLinear", [x, self.scale, self.zero])

    def relu(self, x):
        return self.add("Clip", [x, self.zero, self.weight(np.int8(120))])


def mobilenet_v2(folder, name, size, plan, head, classes):
    """Inverted residuals, int8 from end to end: (expansion, channels, repeats, stride) each."""
    m = Bytes(name)
    channels = plan[0][1]
    x = m.relu(m.conv("x", 3, channels, 3, 2))
    for expansion, out, repeats, stride in plan[1:]:
        for i in range(repeats):
            step, wide = stride if i == 0 else 1, channels * expansion
            h = x if expansion == 1 else m.relu(m.conv(x, channels, wide, 1))
            h = m.conv(m.relu(m.conv(h, wide, wide, 3, step, wide)), wide, out, 1)
            if step == 1 and channels == out:
                h = m.narrow(m.add("Add", [m.real(h), m.real(x)]))
            x, channels = h, out
    x = m.relu(m.conv(x, channels, head, 1))
    x = m.narrow(m.add("GlobalAveragePool", [m.real(x)]))
    x = m.conv(x, head, classes, 1)
    m.save(folder, [("x", I8, [1, 3, size, size])], [(x, I8, [1, classes, 1, 1])])


def resnet_int8(folder, name, size, plan, classes):
    """Bottlenecks, int8 from end to end: (channels, repeats) each; all but the first begin with a stride."""
    m = Bytes(name)
    x = m.relu(m.conv("x", 3, 64, 7, 2))
    x = m.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for k, (width, repeats) in enumerate(plan):
        for i in range(repeats):
            stride = 2 if k and i == 0 else 1
            h = m.relu(m.conv(m.relu(m.conv(x, channels, width, 1)), width, width, 3, stride))
            h = m.conv(h, width, 4 * width, 1)
            if i == 0:
                x = m.conv(x, channels, 4 * width, 1, stride)
            x, channels = m.narrow(m.add("Relu", [m.add("Add", [m.real(h), m.real(x)])])), 4 * width
    x = m.narrow(m.add("GlobalAveragePool", [m.real(x)]))
    x = m.conv(x, channels, classes, 1)
    m.save(folder, [("x", I8, [1, 3, size, size])], [(x, I8, [1, classes, 1, 1])])


MOBILENET = [(0, 32, 0, 2), (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
             (6, 320, 1, 1)]


def attention(folder, name, batch, heads, rows, width):
    """softmax(q k^T / sqrt(d)) v, 16-bit."""
    m = Model(name)
    shape = [batch, heads, rows, width]
    t = m.add("Transpose", ["k"], perm=[0, 1, 3, 2])
    s = m.add("MatMul", ["q", t])
    s = m.add("Mul", [s, m.weight(np.float16(1 / np.sqrt(width)))])
    p = m.add("Softmax", [s], axis=-1)
    y = m.add("MatMul", [p, "v"])
    m.save(folder, [(n, F16, shape) for n in "qkv"], [(y, F16, shape)])


def conv_conv(folder, name, size, channels):
    """3x3 and then 1x1, 16-bit."""
    m = Model(name)
    c0, c1, c2 = channels
    w0, w1 = m.normal([c1, c0, 3, 3], np.float16, 9 * c0), m.normal([c2, c1, 1, 1], np.float16, c1)
    y = m.add("Conv", [m.add("Conv", ["x", w0], pads=[1, 1, 1, 1]), w1])
    m.save(folder, [("x", F16, [1, c0, size, size])], [(y, F16, [1, c2, size, size])])


def ffn(folder, name, rows, width, hidden):
    """Two products. Published mappings give sums and operands words of one size: so has float (with twice the bytes)."""
    m = Model(name)
    h = m.add("MatMul", ["x", m.normal([width, hidden], np.float32, width)])
    y = m.add("MatMul", [h, m.normal([hidden, width], np.float32, hidden)])
    m.save(folder, [("x", F32, [rows, width])], [(y, F32, [rows, width])])


def bias_relu_add(folder, name, rows, columns):
    """A bias, an activation and a residual: each by itself is one kernel of the published table."""
    m = Model(name)
    y = m.add("Add", [m.add("Relu", [m.add("Add", ["x", m.normal([columns], np.float32, 1)])]), "r"])
    m.save(folder, [(n, F32, [rows, columns]) for n in "xr"], [(y, F32, [rows, columns])])


def lstm(folder, name, layers, steps, hidden):
    """Stacked recurrences without biases, float."""
    m, x = Model(name), "x"
    for _ in range(layers):
        w = m.normal([1, 4 * hidden, hidden], np.float32, hidden)
        r = m.normal([1, 4 * hidden, hidden], np.float32, hidden)
        y = m.add("LSTM", [x, w, r], hidden_size=hidden)
        x = m.add("Squeeze", [y, m.weight(np.array([1], np.int64))])
    m.save(folder, [("x", F32, [steps, 1, hidden])], [(x, F32, [steps, 1, hidden])])


def encoder(folder, name, layers, rows, width, heads):
    """BERT's encoder, 16-bit."""
    m, x = Model(name), "x"
    d = width // heads
    split = m.weight(np.array([1, rows, heads, d], np.int64))
    joined = m.weight(np.array([1, rows, width], np.int64))

    def linear(v, n, k):
        return m.add("Add", [m.add("MatMul", [v, m.normal([n, k], np.float16, n)]),
                             m.weight(np.zeros(k, np.float16))])

    def norm(v):
        return m.add("LayerNormalization", [v, m.weight(np.ones(width, np.float16)),
                                            m.weight(np.zeros(width, np.float16))], axis=-1)

    for _ in range(layers):
        q, k, v = (m.add("Transpose", [m.add("Reshape", [linear(x, width, width), split])], perm=p)
                   for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        s = m.add("Mul", [m.add("MatMul", [q, k]), m.weight(np.float16(1 / np.sqrt(d)))])
        a = m.add("MatMul", [m.add("Softmax", [s], axis=-1), v])
        a = m.add("Reshape", [m.add("Transpose", [a], perm=[0, 2, 1, 3]), joined])
        x = norm(m.add("Add", [linear(a, width, width), x]))
        h = linear(x, width, 4 * width)
        e = m.add("Erf", [m.add("Mul", [h, m.weight(np.float16(0.70710678))])])
        h = m.add("Mul", [m.add("Mul", [h, m.weight(np.float16(0.5))]),
                          m.add("Add", [e, m.weight(np.float16(1))])])
        x = norm(m.add("Add", [linear(h, 4 * width, width), x]))
    m.save(folder, [("x", F16, [1, rows, width])], [(x, F16, [1, rows, width])])


MODELS = {
    "vgg5": lambda f, n: vgg(f, n, 224),
    "vgg5_int8": lambda f, n: vgg_int8(f, n, 224),
    "mobilenet_v2_int8": lambda f, n: mobilenet_v2(f, n, 224, MOBILENET, 1280, 1000),
    "vgg16_int8": lambda f, n: vgg_int8(f, n, 224, VGG16),
    "resnet50_int8": lambda f, n: resnet_int8(f, n, 224, [(64, 3), (128, 4), (256, 6), (512, 3)], 1000),
    "attention_1024": lambda f, n: attention(f, n, 64, 16, 1024, 64),
    "attention_512": lambda f, n: attention(f, n, 1, 12, 512, 64),
    "conv3_conv1": lambda f, n: conv_conv(f, n, 112, (64, 192, 128)),
    "ffn": lambda f, n: ffn(f, n, 512, 768, 3072),
    "bias_relu_add": lambda f, n: bias_relu_add(f, n, 4096, 1024),
    "bert_encoder": lambda f, n: encoder(f, n, 12, 384, 768, 12),
    "bert_layer": lambda f, n: encoder(f, n, 1, 384, 768, 12),
    "lstm_10x100": lambda f, n: lstm(f, n, 10, 100, 256),
    # Small ones of the same kinds: the simulator runs them on real values.
    "small_vgg": lambda f, n: vgg(f, n, 20, [4, 5, "pool", 6]),
    "small_vgg_int8": lambda f, n: vgg_int8(f, n, 12, [4, 5, "pool", 6]),
    "small_mobilenet_int8": lambda f, n: mobilenet_v2(
        f, n, 20, [(0, 4, 0, 2), (1, 3, 1, 1), (2, 5, 2, 2)], 8, 6),
    "small_lstm": lambda f, n: lstm(f, n, 3, 5, 8),
    "small_attention": lambda f, n: attention(f, n, 1, 2, 24, 8),
    "small_conv_conv": lambda f, n: conv_conv(f, n, 11, (3, 5, 4)),
    "small_ffn": lambda f, n: ffn(f, n, 19, 12, 33),
    "small_bert": lambda f, n: encoder(f, n, 1, 10, 16, 2),
}

if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        MODELS[name](target, name)
