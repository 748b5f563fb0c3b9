#include "ops/op.h"
#include "ops/product.h"
#include "ops/quantized.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {

Value rounded(Builder& b, Value x, Value scale, Value zero, DType to) {
  const DType t = b.dtype(x), work = accumulatorOf(t);
  const Value q = b.map("round(a / b) + c",
                        {b.convert(x, work), b.convert(scale, work), b.convert(zero, work)});
  const double low = static_cast<double>(*asInteger(lowestOf(to))),
               high = static_cast<double>(*asInteger(highestOf(to)));
  return b.convert(b.map(fmt::format("min(max(a, {}), {})", number(low), number(high)), {q}), to);
}

Value centred(Builder& b, Value x, Value zero) {
  return zero ? b.map("a - b", {b.convert(x, DType::I32), b.convert(zero, DType::I32)})
              : b.convert(x, DType::I32);
}

Quantized quantizedToRange(Builder& b, Value x) {
  const std::vector<int> all = axisRange(0, b.rank(x));
  const Value low = b.map("min(a, 0)", {b.reshape(b.reduce("min", x, all), {})}),
              high = b.map("max(a, 0)", {b.reshape(b.reduce("max", x, all), {})});
  const Value scale = b.map("(b - a) / 255", {low, high});
  const Value zero =
      b.convert(b.map("min(max(round((0 - a) / b), 0), 255)", {low, scale}), DType::U8);
  return {rounded(b, x, scale, zero, DType::U8), scale, zero};
}

namespace {

/// A scale or zero point of x: one number, one along the axis, or one a block of it.
Value spread(Builder& b, Value parameter, Value x, int64_t axis, int64_t block) {
  const int rank = b.rank(parameter);
  if (rank == 0 ||
      (b.type(parameter).isStatic() && b.type(parameter).elements() == 1 && block == 0))
    return b.reshape(parameter, {});
  const int at = axisOf(axis, b.rank(x));
  if (rank == 1 && block == 0) return alongAxis(b, parameter, at, b.rank(x));
  if (block < 1) userError("the scale has rank {}, and no block size is given", rank);
  if (rank != b.rank(x))
    userError("blocks of {} with parameters {}", toText(b.type(x)), toText(b.type(parameter)));
  auto index = coordinates(rank);
  index[static_cast<size_t>(at)] = floorDiv(index[static_cast<size_t>(at)], block);
  return b.view(parameter, b.type(x).shape, index);
}

const OpDef quantize{
    "QuantizeLinear", Takes{"n f *"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
      const int64_t asked = c.integer("output_dtype", 0);
      const DType to = c.has(2) ? b.dtype(c.at(2)) : asked ? dtypeOfNumber(asked) : DType::U8;
      if (!isInteger(to)) userError("numbers are to become {}, expected integers", name(to));
      const Value in = isFloat(b.dtype(x)) ? x : b.convert(x, DType::F32),
                  scale = spread(b, c.at(1), x, axis, block);
      const Value zero = c.has(2) ? spread(b, c.at(2), x, axis, block) : b.splat(to, 0);
      return rounded(b, in, scale, zero, to);
    }};

const OpDef dequantize{"DequantizeLinear", [](Builder& b, const OpCall& c) -> Values {
                         const Value x = c.at(0);
                         const int64_t axis = c.integer("axis", 1),
                                       block = c.integer("block_size", 0);
                         const DType t = b.dtype(c.at(1));
                         const Value scale = spread(b, c.at(1), x, axis, block);
                         if (!c.has(2)) return b.map("a * b", {b.convert(x, t), scale});
                         const Value shifted = b.map(
                             "a - b", {b.convert(x, DType::I32),
                                       b.convert(spread(b, c.at(2), x, axis, block), DType::I32)});
                         return b.map("a * b", {b.convert(shifted, t), scale});
                       }};

const OpDef dynamicQuantize{"DynamicQuantizeLinear", Takes{"f"},
                            [](Builder& b, const OpCall& c) -> Values {
                              const Quantized q = quantizedToRange(b, c.at(0));
                              return {q.values, q.scale, q.zero};
                            }};

/// A zero point a row or column of a matrix: [n] as [n, 1] or left to broadcast.
Value perRow(Builder& b, Value zero) {
  return zero && b.rank(zero) == 1 ? unsqueeze(b, zero, {1}) : zero;
}

const OpDef matMulInteger{"MatMulInteger", Takes{"i1+ i1+ i i"},
                          [](Builder& b, const OpCall& c) -> Values {
                            return product(b, centred(b, c.at(0), perRow(b, c.optional(2))),
                                           centred(b, c.at(1), c.optional(3)), DType::I32);
                          }};

Value requantized(Builder& b, Value sum, Value x, Value w, Value y, Value zero) {
  const Value scale = b.map("a * b", {b.convert(x, DType::F32), b.convert(w, DType::F32)});
  const Value real = b.map("a * b", {b.convert(sum, DType::F32), scale});
  return rounded(b, real, b.convert(y, DType::F32), zero, b.dtype(zero));
}

const OpDef qLinearMatMul{"QLinearMatMul", Takes{"i1+ f i i1+ f i f i"},
                          [](Builder& b, const OpCall& c) -> Values {
                            const Value sum = product(b, centred(b, c.at(0), perRow(b, c.at(2))),
                                                      centred(b, c.at(3), c.at(5)), DType::I32);
                            return requantized(b, sum, perRow(b, c.at(1)), c.at(4),
                                               perRow(b, c.at(6)), perRow(b, c.at(7)));
                          }};

std::vector<int64_t> kernelOf(const Builder& b, Value w) {
  std::vector<int64_t> kernel;
  for (int i = 2; i < b.rank(w); i++)
    kernel.push_back(needStatic(b.type(w).shape.at(static_cast<size_t>(i)), "the weight's kernel"));
  return kernel;
}
Value perChannel(Builder& b, Value v, int rank, int axis) {
  return v && b.rank(v) == 1 && !(b.type(v).isStatic() && b.type(v).elements() == 1)
             ? alongAxis(b, v, axis, rank)
         : v ? b.reshape(v, {})
             : v;
}

/// Padding is the input's zero point: nothing, once that is subtracted.
Value convolutionOf(Builder& b, const OpCall& c, Value x, Value w) {
  return convolution(b, x, w, windowsOf(b, c, x, kernelOf(b, w)), c.integer("group", 1), DType::I32,
                     immInteger(DType::I32, 0));
}

const OpDef convInteger{
    "ConvInteger", Takes{"i3+ i3+ i i"}, [](Builder& b, const OpCall& c) -> Values {
      return convolutionOf(b, c,
                           centred(b, c.at(0), perChannel(b, c.optional(2), b.rank(c.at(0)), 1)),
                           centred(b, c.at(1), perChannel(b, c.optional(3), b.rank(c.at(1)), 0)));
    }};

const OpDef qLinearConv{
    "QLinearConv", Takes{"i3+ f i i3+ f i f i i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), w = c.at(3);
      const int rank = b.rank(x);
      Value sum = convolutionOf(b, c, centred(b, x, perChannel(b, c.at(2), rank, 1)),
                                centred(b, w, perChannel(b, c.at(5), rank, 0)));
      if (c.has(8)) sum = b.map("a + b", {sum, alongAxis(b, c.at(8), 1, rank)});
      return requantized(b, sum, perChannel(b, c.at(1), rank, 1), perChannel(b, c.at(4), rank, 1),
                         perChannel(b, c.at(6), rank, 1), perChannel(b, c.at(7), rank, 1));
    }};

}  // namespace
}  // namespace tektite
