#include "ops/attention_parts.h"
#include "ops/microsoft.h"
#include "ops/product.h"
#include "ops/quantized.h"
#include "ops/util.h"
#include "support/check.h"

// Operators on integers, of onnxruntime's quantiser: each is the operator on the numbers that they stand for, rounded once.
namespace tektite {
namespace {

/// The number an integer stands for. Parameters of one number, or one for each index along an axis.
Value real(Builder& b, Value x, Value scale, Value zero) {
  return b.map("a * b", {b.convert(centred(b, x, zero), DType::F32), scale});
}
Value scalar(Builder& b, Value v) { return v ? b.reshape(v, {}) : v; }

/// Operands i, i + 1, i + 2: integers, their scale, their zero point.
Value realOf(Builder& b, const OpCall& c, size_t i) {
  return real(b, c.at(i), scalar(b, c.at(i + 1)), scalar(b, c.optional(i + 2)));
}
/// Rounded by operands i (scale) and i + 1 (zero point).
Value roundedBy(Builder& b, const OpCall& c, Value y, size_t i, DType type) {
  const Value zero = c.has(i + 1) ? scalar(b, c.at(i + 1)) : b.splat(type, 0);
  return rounded(b, y, scalar(b, c.at(i)), zero, type);
}

OpFunction binary(const char* text) {
  return [text](Builder& b, const OpCall& c) -> Values {
    const Value y = b.map(text, {realOf(b, c, 0), realOf(b, c, 3)});
    return roundedBy(b, c, y, 6, b.dtype(c.at(0)));
  };
}
const OpDef add{"QLinearAdd", binary("a + b"), 1, kMicrosoft};
const OpDef multiply{"QLinearMul", binary("a * b"), 1, kMicrosoft};

/// An operator of one operand, of ONNX's own domain, between rounding.
OpFunction unary(const char* op, int opset) {
  return [op, opset](Builder& b, const OpCall& c) -> Values {
    const Value y = built(b, op, {realOf(b, c, 0)}, c.attributes, opset);
    return roundedBy(b, c, y, 3, b.dtype(c.at(0)));
  };
}
const OpDef sigmoid{"QLinearSigmoid", unary("Sigmoid", 13), 1, kMicrosoft};
const OpDef leakyRelu{"QLinearLeakyRelu", unary("LeakyRelu", 16), 1, kMicrosoft};
const OpDef mean{"QLinearReduceMean", unary("ReduceMean", 13), 1, kMicrosoft};
const OpDef softmax{"QLinearSoftmax",
                    [](Builder& b, const OpCall& c) -> Values {
                      const auto opset = static_cast<int>(c.integer("opset", 13));
                      return unary("Softmax", opset)(b, c);
                    },
                    1, kMicrosoft};

/// Pools whose channels may come last.
Values pooled(Builder& b, const OpCall& c, const char* op,
              const std::function<Values(Builder&, const OpCall&)>& run) {
  if (!c.integer("channels_last", 0)) return run(b, c);
  const int rank = b.rank(c.at(0));
  std::vector<int> first = {0, rank - 1}, last = {0};
  for (int i = 1; i < rank - 1; i++) first.push_back(i);
  for (int i = 2; i < rank; i++) last.push_back(i);
  last.push_back(1);
  OpCall call = c;
  call.op = op;
  call.in.at(0) = b.transpose(c.at(0), first);
  return b.transpose(run(b, call).at(0), last);
}
const OpDef averagePool{"QLinearAveragePool",
                        [](Builder& b, const OpCall& c) -> Values {
                          return pooled(b, c, "AveragePool", unary("AveragePool", 11));
                        },
                        1, kMicrosoft};
const OpDef globalPool{"QLinearGlobalAveragePool",
                       [](Builder& b, const OpCall& c) -> Values {
                         return pooled(b, c, "GlobalAveragePool", unary("GlobalAveragePool", 1));
                       },
                       1, kMicrosoft};
const OpDef nhwcMaxPool{"NhwcMaxPool",
                        [](Builder& b, const OpCall& c) -> Values {
                          OpCall call = c;
                          call.attributes["channels_last"] = int64_t{1};
                          return pooled(b, call, "MaxPool",
                                        [](Builder& b, const OpCall& c) -> Values {
                                          return built(b, "MaxPool", c.in, c.attributes, 12);
                                        });
                        },
                        1, kMicrosoft};
const OpDef convolutionHere{"QLinearConv",
                            [](Builder& b, const OpCall& c) -> Values {
                              return pooled(
                                  b, c, "QLinearConv", [](Builder& b, const OpCall& c) -> Values {
                                    return built(b, "QLinearConv", c.in, c.attributes, 10);
                                  });
                            },
                            1, kMicrosoft};

/// Operands: scale and zero point of the result, then integers, scale, zero point of each part.
const OpDef concat{"QLinearConcat",
                   [](Builder& b, const OpCall& c) -> Values {
                     std::vector<Value> parts;
                     for (size_t i = 2; i + 2 < c.in.size(); i += 3)
                       parts.push_back(roundedBy(b, c, realOf(b, c, i), 0, b.dtype(c.at(i))));
                     if (parts.empty()) userError("nothing to join");
                     return b.concat(parts, axisOf(c.integer("axis"), b.rank(parts.at(0))));
                   },
                   1, kMicrosoft};
const OpDef where{"QLinearWhere",
                  [](Builder& b, const OpCall& c) -> Values {
                    const Value y =
                        b.map("select(a, b, c)", {c.at(0), realOf(b, c, 1), realOf(b, c, 4)});
                    return roundedBy(b, c, y, 7, b.dtype(c.at(1)));
                  },
                  1, kMicrosoft};

/// A scale or zero point of each column.
Value ofColumns(Builder& b, Value v) {
  return v && b.rank(v) == 1 && isConstant(b.type(v).shape.at(0), 1) ? b.reshape(v, {}) : v;
}

/// An i32 sum as the number it stands for.
Value scaled(Builder& b, Value sum, Value x, Value w) {
  return b.map("a * (b * c)", {b.convert(sum, DType::F32), scalar(b, x), ofColumns(b, w)});
}

const OpDef dynamicMatMul{"DynamicQuantizeMatMul",
                          [](Builder& b, const OpCall& c) -> Values {
                            // inputs: real numbers, integers, their scale, zero point, bias
                            const Quantized q = quantizedToRange(b, c.at(0));
                            const Value sum = product(
                                b, centred(b, q.values, q.zero),
                                centred(b, c.at(1), ofColumns(b, c.optional(3))), DType::I32);
                            const Value y = scaled(b, sum, q.scale, c.at(2));
                            return c.has(4) ? b.map("a + b", {y, c.at(4)}) : y;
                          },
                          1, kMicrosoft};

const OpDef toFloat{"MatMulIntegerToFloat",
                    [](Builder& b, const OpCall& c) -> Values {
                      // inputs: a, b, scale of a, scale of b, zero of a, zero of b, bias
                      const Value sum =
                          product(b, centred(b, c.at(0), scalar(b, c.optional(4))),
                                  centred(b, c.at(1), ofColumns(b, c.optional(5))), DType::I32);
                      const Value y = scaled(b, sum, c.at(2), c.at(3));
                      return c.has(6) ? b.map("a + b", {y, c.at(6)}) : y;
                    },
                    1, kMicrosoft};

/// alpha * a * b + c; c is an integer of the product's own scale. Without a scale of its own the result is real.
const OpDef gemm{"QGemm",
                 [](Builder& b, const OpCall& c) -> Values {
                   // inputs: a, scale, zero, b, scale, zero, c, result's scale, result's zero
                   const std::string spec =
                       fmt::format("{},{}->xy", c.integer("transA", 0) ? "zx" : "xz",
                                   c.integer("transB", 0) ? "yz" : "zy");
                   Value zero = ofColumns(b, c.at(5));
                   if (b.rank(zero) == 1 && c.integer("transB", 0)) zero = unsqueeze(b, zero, {1});
                   Value sum = b.contract(spec, centred(b, c.at(0), scalar(b, c.at(2))),
                                          centred(b, c.at(3), zero), DType::I32);
                   if (c.has(6)) sum = b.map("a + b", {sum, c.at(6)});
                   Value y = scaled(b, sum, c.at(1), c.at(4));
                   if (const double alpha = c.real("alpha", 1); alpha != 1)
                     y = b.map(fmt::format("a * {}", number(alpha)), {y});
                   return c.has(7) ? roundedBy(b, c, y, 7, b.dtype(c.at(0))) : y;
                 },
                 1, kMicrosoft};

const OpDef attention{
    "QAttention",
    [](Builder& b, const OpCall& c) -> Values {
      // inputs: x, weight, bias, scale of x, scale of the weight, mask, zero of x, zero of the weight, past
      const Value sum = product(b, centred(b, c.at(0), scalar(b, c.optional(6))),
                                centred(b, c.at(1), ofColumns(b, c.optional(7))), DType::I32);
      const Value all = b.map("a + b", {scaled(b, sum, c.at(3), c.at(4)), c.at(2)});
      const int64_t heads = c.integer("num_heads"),
                    size = needStatic(b.type(all).shape.at(2), "the weight's width") / 3;
      AttentionParts p;
      p.q = headsFirst(b, part(b, all, 2, 0, size), heads);
      p.k = headsFirst(b, part(b, all, 2, size, size), heads);
      p.v = headsFirst(b, part(b, all, 2, 2 * size, size), heads);
      Expr keys = b.type(p.k).shape.at(2);
      if (c.has(8)) {
        p.pastKeys = squeeze(b, part(b, c.at(8), 0, 0, 1), {0});
        p.pastValues = squeeze(b, part(b, c.at(8), 0, 1, 1), {0});
        keys = simplified(b, keys + b.type(p.pastKeys).shape.at(2));
      }
      p.mask = paddingMask(b, c, c.optional(5), keys);
      const auto out = attend(b, c, p);
      return {out.at(0), b.concat({unsqueeze(b, out.at(1), {0}), unsqueeze(b, out.at(2), {0})}, 0)};
    },
    1, kMicrosoft};

OpFunction same(const char* op) {
  return
      [op](Builder& b, const OpCall& c) -> Values { return built(b, op, c.in, c.attributes, 21); };
}
const OpDef quantize{"QuantizeLinear", same("QuantizeLinear"), 1, kMicrosoft};
const OpDef dequantize{"DequantizeLinear", same("DequantizeLinear"), 1, kMicrosoft};

}  // namespace
}  // namespace tektite
