#!/usr/bin/env python3
"""Checks two rules over src/ and prints file:line for what breaks them.

1. A folder includes only itself and what stands above it in FOLDERS.
2. No ONNX operator is named, as an identifier or a string, outside ops/ and onnx/. A name is free where it, or all of its
   words, are also kinds of nodes, statements or expressions, scalar ops, or (in identifiers) plain words of a compiler.
"""
import pathlib, re, sys

SRC = pathlib.Path(__file__).resolve().parent.parent / "src"

FOLDERS = """support ir ops onnx passes fusion schedule lower emit backends runtime fuzz tune api cli python""".split()

OPERATORS = """
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin ArrayFeatureExtractor Asin Asinh Atan Atanh Attention AveragePool
BatchNormalization Bernoulli Binarizer BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow
Cast CastLike CastMap CategoryMapper CausalConvWithState Ceil Celu CenterCropPad Clip Col2Im Compress Concat
ConcatFromSequence Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv
DepthToSpace DequantizeLinear Det DictVectorizer Div Dropout DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand
EyeLike FeatureVectorizer Flatten Floor GRU Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalLpPool
GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization HammingWindow HannWindow HardSigmoid HardSwish
Hardmax Identity If ImageDecoder Imputer InstanceNormalization IsInf IsNaN LRN LSTM LabelEncoder LayerNormalization
LeakyRelu Less LessOrEqual LinearAttention LinearClassifier LinearRegressor Log LogSoftmax Loop LpNormalization
LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min
Mish Mod Mul Multinomial Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Normalizer Not OneHot
OneHotEncoder Optional OptionalGetElement OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul
QuantizeLinear RMSNormalization RNN RandomNormal RandomNormalLike RandomUniform RandomUniformLike Range Reciprocal
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
RegexFullMatch Relu Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round STFT SVMClassifier SVMRegressor
Scaler Scan Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase
SequenceInsert SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax
SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze StringConcat
StringNormalizer StringSplit Sub Sum SwiGLU Swish Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK
Transpose TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor Trilu Unique Unsqueeze Upsample Where Xor
ZipMap
""".split()

KINDS = """input const map reduce contract view gather concat update scan if loop call group
block for alloc store copy sync intrin imm var load cast apply""".split()
PLAIN = """identity constant shape size range expand tile split slice pad where equal less greater sum mean clip unique
compress optional argmax argmin transpose reshape flatten squeeze unsqueeze reciprocal bit shift bitwise scatter swap
resize normalizer momentum gradient scaler multinomial""".split()


def words(name):
    """LayerNorm, layer_norm -> layer, norm"""
    return [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", name)]


def kinds_and_scalars():
    rows = re.findall(r'^SCALAR_OP\((\w+), *"(\w+)"', (SRC / "ir/scalar_ops.def").read_text(), re.M)
    return {*KINDS, *(w for row in rows for name in row for w in [name.lower(), *words(name)])}


def distinct(free):
    """joined words -> operator, for each that is not free; LayerNormalization is LayerNorm as well"""
    spelled = [(n, n) for n in OPERATORS] + [(n.removesuffix("alization"), n) for n in OPERATORS if n.endswith("alization")]
    return {"".join(words(s)): n for s, n in spelled
            if "".join(words(s)) not in free and not free.issuperset(words(s))}


def named(line, operators, in_strings):
    """The operators that a line names: by words side by side in an identifier, or by a whole string"""
    for identifier in re.findall(r"[A-Za-z_]\w*", line):
        parts = words(identifier)
        runs = ["".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)]
        yield from (operators[run] for run in runs if run in operators)
    for string in re.findall(r'"(\w+)"', line):
        if string in in_strings:
            yield string


def code(text):
    """The text without its comments, line by line"""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/',
                  lambda m: m[0] if m[0][0] == '"' else "\n" * m[0].count("\n"), text, flags=re.S)
    return enumerate(text.split("\n"), 1)


def main():
    free = kinds_and_scalars()
    operators, in_strings = distinct({*free, *PLAIN}), {*distinct(free).values()}
    wrong = 0
    for path in sorted(p for p in SRC.rglob("*") if p.suffix in (".h", ".cpp", ".def", ".inc")):
        folder = path.relative_to(SRC).parts[0]
        if folder not in FOLDERS:
            print(f"{path}:1: folder {folder} is not in the list of tools/layers.py")
            wrong += 1
            continue
        for number, line in code(path.read_text()):
            said = []
            include = re.match(r'\s*#\s*include\s+"([^"/]+)/', line)
            if include:
                below = FOLDERS.index(include[1]) if include[1] in FOLDERS else FOLDERS.index("api")  # include/tektite/
                if below > FOLDERS.index(folder):
                    said = [f"{folder}/ includes {include[1]}/, which stands below it"]
            elif folder not in ("ops", "onnx", "api", "cli") and not re.match(r"\s*#\s*include", line):
                said = [f"operator {op} is named in {folder}/" for op in sorted({*named(line, operators, in_strings)})]
            for what in said:
                print(f"src/{path.relative_to(SRC)}:{number}: {what}")
            wrong += len(said)
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
