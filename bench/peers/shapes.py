"""The same kinds of work in shapes that nobody tunes for: odd extents, edges, strides, axes in the middle; shapes.py OUT_DIR [NAME...], in the
environment `ort`."""
import os, sys
import numpy as np
import onnx
from workloads import G

MADE = {}


def shape(name):
    """Registers a function that fills a G and answers its results."""
    def keep(fn):
        MADE[name] = fn
        return fn
    return keep


def gemm(name, m, k, n, then=None):
    @shape(name)
    def fill(g):
        y = g.linear(g.inp("x", m, k), m, k, n)
        return [getattr(g, then)(y) if then else y]


def product(name, b, m, k, n, turned=False):
    @shape(name)
    def fill(g):
        x, y = g.inp("x", b, m, k), g.inp("y", b, *((n, k) if turned else (k, n)))
        return [g.MatMul(x, g.Transpose(y, perm=[0, 2, 1]) if turned else y)]


def window(name, n, ci, hw, co, k, stride=1, group=1, dilation=1):
    @shape(name)
    def fill(g):
        y = g.Conv(g.inp("x", n, ci, *hw), g.w(co, ci // group, *[k] * len(hw)), g.w(co, scale=0.1), kernel_shape=[k] * len(hw),
                   strides=[stride] * len(hw), dilations=[dilation] * len(hw), pads=[k // 2 * dilation] * 2 * len(hw), group=group)
        return [g.Relu(y)]


def separable(name, c, hw, co, stride=1):
    @shape(name)
    def fill(g):
        y = g.Conv(g.inp("x", 1, c, hw, hw), g.w(c, 1, 3, 3), g.w(c, scale=0.1), kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4, group=c)
        return [g.Relu(g.Conv(g.Clip(y, g.f(0), g.f(6)), g.w(co, c, 1, 1), g.w(co, scale=0.1)))]


def attention(name, heads, s, d, t=None, masked=False):
    @shape(name)
    def fill(g):
        q, k, v = g.inp("q", 1, heads, s, d), g.inp("k", 1, heads, t or s, d), g.inp("v", 1, heads, t or s, d)
        p = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.f(d ** -0.5))
        p = g.Add(p, g.inp("mask", 1, 1, s, t or s)) if masked else p
        return [g.MatMul(g.Softmax(p, axis=-1), v)]


def one(name, extents, op, *more, **attributes):
    @shape(name)
    def fill(g):
        return [getattr(g, op)(g.inp("x", *extents), *[m(g) if callable(m) else g.const(m) if m is not None else "" for m in more], **attributes)]


def chain(name, rows, width, layers, then):
    @shape(name)
    def fill(g):
        x = g.inp("x", rows, width)
        for _ in range(layers):
            x = getattr(g, then)(g.linear(x, rows, width, width))
        return [x]


gemm("gemm_1000", 1000, 1000, 1000, "Relu")
gemm("gemm_7x2048x2048", 7, 2048, 2048)
gemm("gemm_3000x64x48", 3000, 64, 48, "Sigmoid")
gemm("gemm_64x4096x96", 64, 4096, 96)
gemm("gemm_197x384x1536", 197, 384, 1536)
gemm("gemv_4096x1111", 1, 4096, 1111)
product("product_24x100x64x100_turned", 24, 100, 64, 100, True)
product("product_5x333x77x211", 5, 333, 77, 211)
window("conv3_96_27", 1, 96, (27, 27), 96, 3)
window("conv5_stride2_57", 1, 32, (57, 57), 64, 5, 2)
window("conv7_stride2_224", 1, 3, (224, 224), 64, 7, 2)
window("conv1_256_1000_7", 1, 256, (7, 7), 1000, 1)
window("conv3_batch4_36", 4, 24, (36, 36), 40, 3)
window("conv3_dilated_40", 1, 64, (40, 40), 64, 3, dilation=2)
window("conv3_groups32_28", 1, 128, (28, 28), 128, 3, group=32)
window("depthwise3_144_56", 1, 144, (56, 56), 144, 3, group=144)
window("depthwise5_stride2_57", 1, 96, (57, 57), 96, 5, 2, 96)
window("depthwise7_384_14", 1, 384, (14, 14), 384, 7, group=384)
window("conv9_line_3000", 1, 40, (3000,), 64, 9)
window("conv3_cube_30", 1, 16, (12, 30, 30), 24, 3)
separable("separable_96_56", 96, 56, 24)
separable("separable_200_15", 200, 15, 333)
separable("separable_stride2_112", 32, 112, 64, 2)
attention("attention_8x197x64", 8, 197, 64)
attention("attention_4x700x48_masked", 4, 700, 48, masked=True)
attention("attention_16x1x2000x64", 16, 1, 64, 2000)
attention("attention_2x4096x32", 2, 4096, 32)
attention("attention_12x49x32", 12, 49, 32)
one("softmax_4000x1023", (4000, 1023), "Softmax", axis=-1)
one("softmax_axis1", (8, 21, 300, 200), "Softmax", axis=1)
one("logsoftmax_50x32000", (50, 32000), "LogSoftmax", axis=-1)
one("layernorm_3000x777", (3000, 777), "LayerNormalization", lambda g: g.w(777), lambda g: g.w(777), axis=-1)
one("layernorm_200000x20", (200000, 20), "LayerNormalization", lambda g: g.w(20), lambda g: g.w(20), axis=-1)
one("mean_of_middle_axis", (64, 1000, 300), "ReduceMean", axes=[1], keepdims=0)
one("sum_of_outer_axis", (300, 50000), "ReduceSum", np.array([0]), keepdims=0)
one("maxpool3_stride2_100", (1, 64, 100, 100), "MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
one("averagepool3_40", (1, 64, 40, 40), "AveragePool", kernel_shape=[3, 3], pads=[1] * 4)
for mode, by, how in (("linear", 2, "half_pixel"), ("linear", 4, "half_pixel"), ("cubic", 2, "half_pixel"), ("nearest", 2, "asymmetric")):
    one(f"resize_{mode}{by}", (1, 48, 50, 50), "Resize", None, np.array([1, 1, by, by], np.float32), mode=mode, coordinate_transformation_mode=how,
        **({"nearest_mode": "floor"} if mode == "nearest" else {}))
chain("mlp20_32x96", 32, 96, 20, "Relu")
chain("mlp12_1x300", 1, 300, 12, "Tanh")


@shape("groupnorm_silu")
def _(g):
    x = g.Reshape(g.inp("x", 4, 96, 80, 80), g.const(np.array([4, 12, -1])))
    y = g.InstanceNormalization(x, g.const(np.ones(12, np.float32)), g.const(np.zeros(12, np.float32)))
    y = g.Reshape(y, g.const(np.array([4, 96, 80, 80])))
    y = g.Add(g.Mul(y, g.w(96, 1, 1)), g.w(96, 1, 1))
    return [g.Mul(y, g.Sigmoid(y))]


@shape("chain_broadcast")
def _(g):
    x = g.inp("x", 2000, 3000)
    z = g.Mul(g.Tanh(g.Add(x, g.inp("y", 3000))), g.Sigmoid(x))
    z = g.Div(x, g.Sqrt(g.Add(g.Exp(g.Neg(g.Abs(z))), g.f(1))))
    return [g.Softplus(g.Erf(z))]


@shape("swiglu_333x512x1365")
def _(g):
    x = g.inp("x", 333, 512)
    a = g.linear(x, 333, 512, 1365, bias=False)
    a = g.Mul(g.Mul(a, g.Sigmoid(a)), g.linear(x, 333, 512, 1365, bias=False))
    return [g.linear(a, 333, 1365, 512, bias=False)]


@shape("transposed_convolution_60")
def _(g):
    return [g.Relu(g.ConvTranspose(g.inp("x", 1, 48, 60, 60), g.w(48, 24, 4, 4), kernel_shape=[4, 4], strides=[2, 2], pads=[1] * 4))]


@shape("transpose_add_relu")
def _(g):
    return [g.Relu(g.Add(g.Transpose(g.inp("x", 4, 1024, 768), perm=[0, 2, 1]), g.w(768, 1)))]


@shape("slices_concat")
def _(g):
    x = g.inp("x", 50, 128, 64)
    at = [g.const(np.array([v])) for v in (3, 60, 2)]
    y = g.Concat(x, g.Slice(x, *at), axis=2)
    return [g.Mul(y, y)]


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    os.makedirs(folder, exist_ok=True)
    for name, fill in MADE.items():
        if names and name not in names:
            continue
        g = G(name)
        results = fill(g)
        extents = onnx.shape_inference.infer_shapes(onnx.helper.make_model(
            onnx.helper.make_graph(g.nodes, name, g.ins, [onnx.helper.make_empty_tensor_value_info(r) for r in results], g.inits),
            opset_imports=[onnx.helper.make_opsetid("", 17)])).graph.output
        for r, o in zip(results, extents):
            g.out(r, *[d.dim_value for d in o.type.tensor_type.shape.dim])
        print(g.save(folder))


if __name__ == "__main__":
    main()
