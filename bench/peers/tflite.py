#!/usr/bin/env python3
"""Writes an int8 ONNX model as TFLite's flatbuffer, for a compiler that reads nothing else: tflite.py MODEL.onnx OUT.tflite

Takes QLinearConv (grouped only where each channel is a group), MaxPool, a Clip behind them (it becomes the activation), and Add,
Relu and GlobalAveragePool between DequantizeLinear and QuantizeLinear; says which operator it can't. Channels come last, as that format
has them: the same maps and weights. A window's padding of stride 2 is at its end there, where ONNX's is on both sides: as many bytes.
The classes that write are the ones that ethos-u-vela has for the format."""
import importlib
import sys

import flatbuffers
import numpy as np
import onnx
from ethosu.vela.tflite.ActivationFunctionType import ActivationFunctionType as Activation
from ethosu.vela.tflite.BuiltinOperator import BuiltinOperator as Op
from ethosu.vela.tflite.BuiltinOptions import BuiltinOptions as Kind
from ethosu.vela.tflite.Padding import Padding
from ethosu.vela.tflite.TensorType import TensorType
from onnx import helper, numpy_helper

TYPES = {np.dtype("int8"): TensorType.INT8, np.dtype("int32"): TensorType.INT32}


def number(x):
    """Of a tensor of one element."""
    return float(np.asarray(x).reshape(()))


class Writer:
    """Tensors and operators of one subgraph."""

    def __init__(self):
        self.b = flatbuffers.Builder(1 << 20)
        self.tensors, self.operators, self.codes, self.buffers = [], [], [], [self.buffer(b"")]

    def table(self, name, **fields):
        module = importlib.import_module(f"ethosu.vela.tflite.{name}")
        getattr(module, name + "Start")(self.b)
        for field, value in fields.items():
            getattr(module, f"{name}Add{field}")(self.b, value)
        return getattr(module, name + "End")(self.b)

    def vector(self, values, put, size=4):
        self.b.StartVector(size, len(values), size)
        for v in reversed(values):
            put(v)
        return self.b.EndVector()

    def ints(self, values):
        return self.vector([int(v) for v in values], self.b.PrependInt32)

    def tables(self, offsets):
        return self.vector(offsets, self.b.PrependUOffsetTRelative)

    def buffer(self, data):
        if not data:
            return self.table("Buffer")
        self.b.StartVector(1, len(data), 16)
        self.b.head = self.b.head - len(data)
        self.b.Bytes[self.b.Head():self.b.Head() + len(data)] = data
        return self.table("Buffer", Data=self.b.EndVector())

    def tensor(self, name, shape, dtype, scale, zero=0, data=None):
        quantization = self.table("QuantizationParameters", Scale=self.vector([number(scale)], self.b.PrependFloat32),
                                  ZeroPoint=self.vector([int(number(zero))], self.b.PrependInt64, 8))
        if data is not None:
            self.buffers.append(self.buffer(np.ascontiguousarray(data).tobytes()))
        name, shape = self.b.CreateString(name), self.ints(shape)
        self.tensors.append(self.table("Tensor", Shape=shape, Type=TYPES[np.dtype(dtype)], Buffer=len(self.buffers) - 1 if data is not None else 0,
                                       Name=name, Quantization=quantization))
        return len(self.tensors) - 1

    def operator(self, op, inputs, output, kind, **options):
        if op not in self.codes:
            self.codes.append(op)
        made = self.table(kind, **options)
        inputs, outputs = self.ints(inputs), self.ints([output])
        self.operators.append(self.table("Operator", OpcodeIndex=self.codes.index(op), Inputs=inputs, Outputs=outputs,
                                         BuiltinOptionsType=getattr(Kind, kind), BuiltinOptions=made))

    def write(self, path, inputs, outputs):
        codes = self.tables([self.table("OperatorCode", BuiltinCode=c, DeprecatedBuiltinCode=c, Version=2) for c in self.codes])
        graph = {"Tensors": self.tables(self.tensors), "Inputs": self.ints(inputs), "Outputs": self.ints(outputs),
                 "Operators": self.tables(self.operators)}
        graphs = self.tables([self.table("SubGraph", **graph)])
        model = self.table("Model", Version=3, OperatorCodes=codes, Subgraphs=graphs, Buffers=self.tables(self.buffers))
        self.b.Finish(model, b"TFL3")
        with open(path, "wb") as f:
            f.write(self.b.Output())


def last(shape):
    """[N, C, H, W] with channels last."""
    return [shape[0], *shape[2:], shape[1]]


class Graph:
    """The nodes of a model in order, its maps as int8 tensors of the other format."""

    def __init__(self, path):
        model = onnx.shape_inference.infer_shapes(onnx.load(path))
        self.nodes, self.graph = list(model.graph.node), model.graph
        self.constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        values = [*model.graph.input, *model.graph.value_info, *model.graph.output]
        self.shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in values}
        self.readers = {}
        for n in self.nodes:
            for i in n.input:
                self.readers.setdefault(i, []).append(n)
        self.w, self.maps, self.quantized = Writer(), {}, {}

    def constant(self, name):
        return self.constants[name]

    def map(self, name, scale, zero):
        self.quantized[name] = scale, zero
        self.maps[name] = self.w.tensor(name, last(self.shapes[name]), np.int8, scale, zero)
        return self.maps[name]

    def only_reader(self, name, op):
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and readers[0].op_type == op else None

    def activated(self, name, scale, zero):
        """(what a Clip behind it gives, the activation)."""
        clip = self.only_reader(name, "Clip")
        if not clip:
            return name, Activation.NONE
        low, high = ((number(self.constant(i)) - number(zero)) * number(scale) for i in clip.input[1:3])
        if low != 0 or abs(high - 6) > number(scale):
            sys.exit(f"{clip.name}: found a clip to [{low:g}, {high:g}], expected ReLU6")
        self.nodes.remove(clip)
        return clip.output[0], Activation.RELU6

    def window(self, attributes, size):
        pads = attributes.get("pads", [0] * 4)
        stride = attributes.get("strides", [1, 1])
        if any(pads) and pads != [s // 2 for s in size] * 2:
            sys.exit(f"found pads {pads}, expected none or half of {size}")
        return {"Padding": Padding.SAME if any(pads) else Padding.VALID, "StrideH": stride[0], "StrideW": stride[1]}

    def convolution(self, node, attributes):
        x, x_scale, x_zero, w, w_scale, _, scale, zero = node.input[:8]
        weights, group = self.constant(w), attributes.get("group", 1)
        depthwise = group > 1
        if depthwise and (weights.shape[1] != 1 or group != weights.shape[0]):
            sys.exit(f"{node.name}: found {group} groups, expected 1 or as many as channels")
        out, activation = self.activated(node.output[0], self.constant(scale), self.constant(zero))
        laid = weights.transpose(1, 2, 3, 0) if depthwise else weights.transpose(0, 2, 3, 1)
        sums = number(self.constant(x_scale)) * number(self.constant(w_scale))
        inputs = [self.maps[x], self.w.tensor(w, laid.shape, np.int8, self.constant(w_scale), 0, laid)]
        bias = self.constant(node.input[8]) if len(node.input) > 8 else np.zeros(weights.shape[0], np.int32)
        inputs.append(self.w.tensor(node.name + "_bias", bias.shape, np.int32, sums, 0, bias))
        options = self.window(attributes, weights.shape[2:]) | {"FusedActivationFunction": activation, "DilationHFactor": 1, "DilationWFactor": 1}
        self.shapes[out] = self.shapes[node.output[0]]
        made = self.map(out, self.constant(scale), self.constant(zero))
        if depthwise:
            self.w.operator(Op.DEPTHWISE_CONV_2D, inputs, made, "DepthwiseConv2DOptions", DepthMultiplier=1, **options)
        else:
            self.w.operator(Op.CONV_2D, inputs, made, "Conv2DOptions", **options)

    def pool(self, op, x, out, size, attributes, scale, zero):
        self.w.operator(op, [self.maps[x]], self.map(out, scale, zero), "Pool2DOptions", FilterHeight=size[0], FilterWidth=size[1],
                        **self.window(attributes, size))

    def between(self, node):
        """An operator on reals: its int8 operands, its QuantizeLinear, the activation between."""
        operands = [self.real[i] for i in node.input]
        behind, activation = self.only_reader(node.output[0], "Relu"), Activation.NONE
        if behind:
            self.nodes.remove(behind)
            activation = Activation.RELU
        narrow = self.only_reader((behind or node).output[0], "QuantizeLinear")
        if not narrow:
            sys.exit(f"{node.name}: found reals that stay, expected a QuantizeLinear")
        self.nodes.remove(narrow)
        return operands, narrow.output[0], [self.constant(i) for i in narrow.input[1:3]], activation

    def convert(self, path):
        for i in self.graph.input:
            reader = self.readers[i.name][0]
            self.map(i.name, self.constant(reader.input[1]), self.constant(reader.input[2]))
        self.real = {}
        while self.nodes:
            node = self.nodes.pop(0)
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "QLinearConv":
                self.convolution(node, attributes)
            elif node.op_type == "MaxPool":
                x = node.input[0]
                self.pool(Op.MAX_POOL_2D, x, node.output[0], attributes["kernel_shape"], attributes, *self.quantized[x])
            elif node.op_type == "DequantizeLinear":
                self.real[node.output[0]] = node.input[0]
            elif node.op_type == "Add":
                (a, b), out, how, activation = self.between(node)
                self.w.operator(Op.ADD, [self.maps[a], self.maps[b]], self.map(out, *how), "AddOptions", FusedActivationFunction=activation)
            elif node.op_type == "GlobalAveragePool":
                (x,), out, how, _ = self.between(node)
                self.pool(Op.AVERAGE_POOL_2D, x, out, self.shapes[x][2:], {}, *how)
            else:
                sys.exit(f"{node.name}: found {node.op_type}, expected a convolution, a pool, a sum or a clip of int8")
        self.w.write(path, [self.maps[i.name] for i in self.graph.input], [self.maps[o.name] for o in self.graph.output])


if __name__ == "__main__":
    Graph(sys.argv[1]).convert(sys.argv[2])
