#include "ops/op.h"
#include "ops/util.h"

namespace tektite {
namespace {

/// Exponentials shifted by the maximum over the axes, and their sum.
std::pair<Value, Value> exponentials(Builder& b, Value x, const std::vector<int>& axes) {
  const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, axes)});
  return {e, b.reduce("sum", e, axes)};
}

Value softmaxOver(Builder& b, Value x, const std::vector<int>& axes) {
  const auto [e, sum] = exponentials(b, x, axes);
  return b.map("a * b", {e, b.map("1 / a", {sum})});  // one division a row
}

Value logSoftmaxOver(Builder& b, Value x, const std::vector<int>& axes) {
  const Value shifted = b.map("a - b", {x, b.reduce("max", x, axes)});
  return b.map("a - log(b)", {shifted, b.reduce("sum", b.map("exp(a)", {shifted}), axes)});
}

std::vector<int> lastAxis(const Builder& b, const OpCall& c) {
  return {axisOf(c.integer("axis", -1), b.rank(c.at(0)))};
}
/// Before version 13 the axis split a matrix's columns from its rows.
std::vector<int> axesFrom(const Builder& b, const OpCall& c) {
  const int rank = b.rank(c.at(0));
  return axisRange(axisOf(c.integer("axis", 1), rank), rank);
}

const OpDef softmax{
    "Softmax", Takes{"F"},
    [](Builder& b, const OpCall& c) -> Values { return softmaxOver(b, c.at(0), lastAxis(b, c)); },
    13};
const OpDef softmax1{"Softmax", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
                       return softmaxOver(b, c.at(0), axesFrom(b, c));
                     }};
const OpDef logSoftmax{"LogSoftmax", Takes{"F"},
                       [](Builder& b, const OpCall& c) -> Values {
                         return logSoftmaxOver(b, c.at(0), lastAxis(b, c));
                       },
                       13};
const OpDef logSoftmax1{"LogSoftmax", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
                          return logSoftmaxOver(b, c.at(0), axesFrom(b, c));
                        }};

/// One at the first maximum, zero elsewhere.
Value hardmaxOver(Builder& b, Value x, int axis) {
  const DType t = b.dtype(x);
  const Value index = b.map(var(coordinate(axis)), {}, b.type(x).shape);
  const Value first = b.reduce(argCombine(true, t), {x, index}, {axis})[1];
  return b.map(cast(t, eq(var(coordinate(axis)), var("$0"))), {first}, b.type(x).shape);
}
const OpDef hardmax{"Hardmax",
                    [](Builder& b, const OpCall& c) -> Values {
                      return hardmaxOver(b, c.at(0), lastAxis(b, c)[0]);
                    },
                    13};
const OpDef hardmax1{"Hardmax", [](Builder& b, const OpCall& c) -> Values {
                       const Value x = c.at(0);
                       const auto& shape = b.type(x).shape;
                       const int axis = axisOf(c.integer("axis", 1), b.rank(x));
                       const Value matrix =
                           b.reshape(x, {productOf({shape.begin(), shape.begin() + axis}),
                                         productOf({shape.begin() + axis, shape.end()})});
                       return b.reshape(hardmaxOver(b, matrix, 1), shape);
                     }};

}  // namespace
}  // namespace tektite
