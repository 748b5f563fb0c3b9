#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

Value plusEpsilon(Builder& b, std::string_view form, Value v, double epsilon) {
  return b.map(fmt::format(fmt::runtime(form), number(epsilon)), {v});
}

/// (x - mean) / sqrt(variance + epsilon) over the axes, in the accumulator's type.
struct Normal {
  Value y, mean, inverse;
};
Normal normalized(Builder& b, Value x, const std::vector<int>& axes, double epsilon) {
  const Value mean = meanOver(b, x, axes), centred = b.map("a - b", {x, mean});
  const Value variance = meanOver(b, b.map("a * a", {centred}), axes);
  const Value inverse = plusEpsilon(b, "1 / sqrt(a + {})", variance, epsilon);
  return {b.map("a * b", {centred, inverse}), mean, inverse};
}

/// By the batch's own statistics, which are folded into the stored ones.
Values batchNormTraining(Builder& b, const OpCall& c) {
  const Value x = c.at(0);
  const int rank = b.rank(x);
  std::vector<int> axes = axisRange(0, rank);
  axes.erase(axes.begin() + 1);
  const Value wide = b.convert(x, accumulatorOf(b.dtype(x)));
  const Normal n = normalized(b, wide, axes, c.real("epsilon", 1e-5));
  const Value variance = meanOver(b, b.map("(a - b) * (a - b)", {wide, n.mean}), axes);
  const Value y = b.map("a * b + c", {b.convert(n.y, b.dtype(x)), alongAxis(b, c.at(1), 1, rank),
                                      alongAxis(b, c.at(2), 1, rank)});
  const std::string momentum = number(c.real("momentum", 0.9));
  const auto running = [&](Value stored, Value own) {
    const Value flat = b.convert(b.reshape(own, b.type(stored).shape), b.dtype(stored));
    return b.map(fmt::format("a * {} + b * (1 - {})", momentum, momentum), {stored, flat});
  };
  return {y, running(c.at(3), n.mean), running(c.at(4), variance)};
}

/// By stored statistics: one multiplication and one addition a channel, whose factors are constants where the parameters are.
const OpDef batchNorm{
    "BatchNormalization", Takes{"f2+ f1 f1 f1 f1"}, [](Builder& b, const OpCall& c) -> Values {
      if (c.integer("training_mode", 0)) return batchNormTraining(b, c);
      const Value x = c.at(0);
      const DType t = accumulatorOf(b.dtype(x));
      const auto parameter = [&](size_t i) { return b.convert(c.at(i), t); };
      const Value deviation = plusEpsilon(b, "sqrt(a + {})", parameter(4), c.real("epsilon", 1e-5));
      const Value scale = b.map("a / b", {parameter(1), deviation});
      const Value shift = b.map("a - b * c", {parameter(2), parameter(3), scale});
      const int rank = b.rank(x);
      const Value y = b.map("a * b + c", {b.convert(x, t), alongAxis(b, scale, 1, rank),
                                          alongAxis(b, shift, 1, rank)});
      return b.convert(y, b.dtype(x));
    }};

const OpDef layerNorm{
    "LayerNormalization", Takes{"f1+ f f"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const DType t = b.dtype(x), wide = accumulatorOf(t);
      const std::vector<int> axes = axisRange(axisOf(c.integer("axis", -1), b.rank(x)), b.rank(x));
      const Normal n = normalized(b, b.convert(x, wide), axes, c.real("epsilon", 1e-5));
      Value y = b.map("a * b", {b.convert(n.y, t), c.at(1)});
      if (c.has(2)) y = b.map("a + b", {y, c.at(2)});
      return {y, n.mean, n.inverse};
    }};

const OpDef rmsNorm{
    "RMSNormalization", Takes{"f1+ f"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const DType t = b.dtype(x);
      const std::vector<int> axes = axisRange(axisOf(c.integer("axis", -1), b.rank(x)), b.rank(x));
      const Value wide = b.convert(x, accumulatorOf(t));
      const Value root = plusEpsilon(b, "sqrt(a + {})", meanOver(b, b.map("a * a", {wide}), axes),
                                     c.real("epsilon", 1e-5));
      return b.map("a * b", {b.convert(b.map("a / b", {wide, root}), t), c.at(1)});
    }};

const OpDef instanceNorm{
    "InstanceNormalization", Takes{"f3+ f1 f1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int rank = b.rank(x);
      const Normal n = normalized(b, b.convert(x, accumulatorOf(b.dtype(x))), axisRange(2, rank),
                                  c.real("epsilon", 1e-5));
      return b.map("a * b + c", {b.convert(n.y, b.dtype(x)), alongAxis(b, c.at(1), 1, rank),
                                 alongAxis(b, c.at(2), 1, rank)});
    }};

/// Scale and bias a channel; a group before version 21.
const OpDef groupNorm{
    "GroupNormalization", Takes{"f3+ f1 f1"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const auto shape = b.type(x).shape;
      const int64_t groups = c.integer("num_groups"),
                    channels = needStatic(shape.at(1), "the number of channels");
      if (groups < 1 || channels % groups) userError("{} channels in {} groups", channels, groups);
      std::vector<Expr> split = {shape.at(0), groups, channels / groups};
      split.insert(split.end(), shape.begin() + 2, shape.end());
      const Value in = b.convert(b.reshape(x, split), accumulatorOf(b.dtype(x)));
      const int rank = b.rank(in);
      const Value y =
          b.convert(normalized(b, in, axisRange(2, rank), c.real("epsilon", 1e-5)).y, b.dtype(x));
      const auto affine = [&](Value v, Value scale, Value bias, int of) {
        return b.map("a * b + c", {v, alongAxis(b, scale, 1, of), alongAxis(b, bias, 1, of)});
      };
      if (c.opset < 21) return b.reshape(affine(y, c.at(1), c.at(2), rank), shape);
      return affine(b.reshape(y, shape), c.at(1), c.at(2), b.rank(x));
    },
    18};

const OpDef meanVariance{
    "MeanVarianceNormalization", Takes{"F1+"}, [](Builder& b, const OpCall& c) -> Values {
      const std::vector<int> axes =
          axesOf(c.integers("axes", std::vector<int64_t>{0, 2, 3}), b.rank(c.at(0)));
      const Value x = c.at(0), mean = meanOver(b, x, axes), centred = b.map("a - b", {x, mean});
      return b.map("a / (sqrt(b) + 1e-9)", {centred, meanOver(b, b.map("a * a", {centred}), axes)});
    }};

const OpDef lpNorm{
    "LpNormalization", Takes{"F1+"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int axis = axisOf(c.integer("axis", -1), b.rank(x));
      const int64_t p = c.integer("p", 2);
      if (p != 1 && p != 2) userError("attribute 'p' is {}, expected 1 or 2", p);
      const Value sum = b.reduce("sum", b.map(p == 1 ? "abs(a)" : "a * a", {x}), {axis});
      return b.map("select(b == 0, 0, a / b)", {x, p == 1 ? sum : b.map("sqrt(a)", {sum})});
    }};

/// Across channels: x / (bias + alpha / size * sum of squares of the channels around)^beta
const OpDef lrn{
    "LRN", Takes{"F2+"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int rank = b.rank(x);
      const int64_t size = c.integer("size");
      std::vector<int> last = axisRange(0, rank);
      last.erase(last.begin() + 1);
      last.push_back(1);
      std::vector<int> back = axisRange(0, rank);
      back.pop_back();
      back.insert(back.begin() + 1, rank - 1);
      const Value squares = b.transpose(b.map("a * a", {x}), last);
      const Value in = b.windows(squares, {size}, {1}, {1}, {(size - 1) / 2},
                                 {b.type(x).shape.at(1)}, imm(b.dtype(x), 0));
      const Value sum = b.transpose(squeeze(b, b.reduce("sum", in, {rank}), {rank}), back);
      return b.map(fmt::format("a / pow({} + {} / {} * b, {})", number(c.real("bias", 1)),
                               number(c.real("alpha", 1e-4)), size, number(c.real("beta", 0.75))),
                   {x, sum});
    }};

}  // namespace
}  // namespace tektite
