#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

using Reduction = Value (*)(Builder&, Value, const std::vector<int>&);

/// What all of them share: axes by attribute or input, none meaning all (or nothing at all), and dropped axes.
Values reduceOp(Builder& b, const OpCall& c, Reduction reduction, const char* pointwise = "a") {
  const Value x = c.at(0);
  const auto axes = inputOrAttribute(b, c, 1, "axes");
  const bool none = !axes || axes->empty();
  if (none && c.integer("noop_with_empty_axes", 0)) return b.map(pointwise, {x});
  const std::vector<int> over = none ? axisRange(0, b.rank(x)) : axesOf(*axes, b.rank(x));
  const Value y = over.empty() ? b.map(pointwise, {x}) : reduction(b, x, over);
  return c.integer("keepdims", 1) ? y : squeeze(b, y, over);
}

Value sumOver(Builder& b, Value x, const std::vector<int>& axes) {
  return b.reduce("sum", x, axes);
}
Value logSumExp(Builder& b, Value x, const std::vector<int>& axes) {
  // The shift is 0 where the maximum is infinite, so that inf - inf doesn't arise.
  const Value shift = b.map("select(isinf(a), 0, a)", {b.reduce("max", x, axes)});
  const Value sum = b.reduce("sum", b.map("exp(a - b)", {x, shift}), axes);
  return b.map("log(a) + b", {sum, shift});
}

const OpDef sum{"ReduceSum", Takes{"N i"},
                [](Builder& b, const OpCall& c) { return reduceOp(b, c, sumOver); }};
const OpDef mean{"ReduceMean", Takes{"N i"},
                 [](Builder& b, const OpCall& c) { return reduceOp(b, c, meanOver); }};
const OpDef prod{"ReduceProd", Takes{"N i"}, [](Builder& b, const OpCall& c) {
                   return reduceOp(b, c, [](Builder& b, Value x, const std::vector<int>& axes) {
                     return b.reduce("product", x, axes);
                   });
                 }};
const OpDef maximum{"ReduceMax", [](Builder& b, const OpCall& c) {
                      return reduceOp(b, c, [](Builder& b, Value x, const std::vector<int>& axes) {
                        return b.reduce(b.dtype(x) == DType::Bool ? "any" : "max", x, axes);
                      });
                    }};
const OpDef minimum{"ReduceMin", [](Builder& b, const OpCall& c) {
                      return reduceOp(b, c, [](Builder& b, Value x, const std::vector<int>& axes) {
                        return b.reduce(b.dtype(x) == DType::Bool ? "all" : "min", x, axes);
                      });
                    }};
const OpDef l1{"ReduceL1", Takes{"N i"}, [](Builder& b, const OpCall& c) {
                 return reduceOp(
                     b, c,
                     [](Builder& b, Value x, const std::vector<int>& axes) {
                       return b.reduce("sum", b.map("abs(a)", {x}), axes);
                     },
                     "abs(a)");
               }};
const OpDef sumSquare{"ReduceSumSquare", Takes{"N i"}, [](Builder& b, const OpCall& c) {
                        return reduceOp(
                            b, c,
                            [](Builder& b, Value x, const std::vector<int>& axes) {
                              return b.reduce("sum", b.map("a * a", {x}), axes);
                            },
                            "a * a");
                      }};
const OpDef l2{"ReduceL2", Takes{"N i"}, [](Builder& b, const OpCall& c) {
                 return reduceOp(
                     b, c,
                     [](Builder& b, Value x, const std::vector<int>& axes) {
                       const Value sum = b.reduce("sum", b.map("a * a", {x}), axes);
                       if (isFloat(b.dtype(x))) return b.map("sqrt(a)", {sum});
                       return b.convert(b.map("sqrt(a)", {b.convert(sum, DType::F64)}), b.dtype(x));
                     },
                     "abs(a)");
               }};
const OpDef logSum{"ReduceLogSum", Takes{"N i"}, [](Builder& b, const OpCall& c) {
                     return reduceOp(
                         b, c,
                         [](Builder& b, Value x, const std::vector<int>& axes) {
                           return b.map("log(a)", {sumOver(b, x, axes)});
                         },
                         "log(a)");
                   }};
const OpDef logSumExpOp{"ReduceLogSumExp", Takes{"N i"},
                        [](Builder& b, const OpCall& c) { return reduceOp(b, c, logSumExp); }};

/// The first extreme's index; `select_last_index`: the last one's, by the index counted from the end.
Values argExtreme(Builder& b, const OpCall& c, bool largest) {
  const Value x = c.at(0);
  const int axis = axisOf(c.integer("axis", 0), b.rank(x));
  const bool last = c.integer("select_last_index", 0);
  const Expr from = b.type(x).shape.at(static_cast<size_t>(axis)) - 1, at = var(coordinate(axis));
  const Value index = b.map(last ? from - at : at, {}, b.type(x).shape);
  Value found = b.reduce(argCombine(largest, b.dtype(x)), {x, index}, {axis})[1];
  if (last) found = b.map(from - var("$0"), {found});
  return c.integer("keepdims", 1) ? found : squeeze(b, found, {axis});
}
const OpDef argMax{"ArgMax", [](Builder& b, const OpCall& c) { return argExtreme(b, c, true); }};
const OpDef argMin{"ArgMin", [](Builder& b, const OpCall& c) { return argExtreme(b, c, false); }};

Value globalPool(Builder& b, const OpCall& c, Reduction reduction) {
  return reduction(b, c.at(0), axisRange(2, b.rank(c.at(0))));
}
const OpDef globalAverage{
    "GlobalAveragePool", Takes{"F3+"},
    [](Builder& b, const OpCall& c) -> Values { return globalPool(b, c, meanOver); }};
const OpDef globalMax{"GlobalMaxPool", Takes{"f3+"}, [](Builder& b, const OpCall& c) -> Values {
                        return globalPool(b, c,
                                          [](Builder& b, Value x, const std::vector<int>& axes) {
                                            return b.reduce("max", x, axes);
                                          });
                      }};
const OpDef globalLp{"GlobalLpPool", Takes{"F3+"}, [](Builder& b, const OpCall& c) -> Values {
                       const std::string p = number(static_cast<double>(c.integer("p", 2)));
                       const Value powers = b.map(fmt::format("pow(abs(a), {})", p), {c.at(0)});
                       return b.map(fmt::format("pow(a, 1 / {})", p),
                                    {b.reduce("sum", powers, axisRange(2, b.rank(c.at(0))))});
                     }};

}  // namespace
}  // namespace tektite
