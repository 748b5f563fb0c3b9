#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kMostRanked =
    256;  // longer axes are sorted: counting compares each element with each other

/// Is `a`, at a smaller place, before `o`, and at a larger one? NaN is greater than any number; equals keep their order.
Expr isBefore(const Expr& a, const Expr& o, const Expr& earlier, bool largest) {
  Expr ahead = largest ? lt(o, a) : lt(a, o), same = eq(a, o);
  if (isFloat(a.type())) {
    const Expr aNan = apply(Op::IsNan, {a}), oNan = apply(Op::IsNan, {o});
    const Expr alone =
        largest ? logicalAnd(aNan, logicalNot(oNan)) : logicalAnd(oNan, logicalNot(aNan));
    ahead = apply(Op::Or, {ahead, alone});
    same = apply(Op::Or, {same, logicalAnd(aNan, oNan)});
  }
  return apply(Op::Or, {ahead, logicalAnd(same, earlier)});
}

/// Each element's rank is the number of those before it in the order wanted; the first k are written to their ranks. No sort, so part of a
/// kernel, but quadratic in the axis.
Values byRank(Builder& b, Value x, int axis, const Expr& k, bool largest) {
  const int rank = b.rank(x);
  const auto shape = b.type(x).shape;
  const auto at = static_cast<size_t>(axis);
  // Two views with the axis twice: the element, and the one it is compared with on a last axis.
  auto pairs = shape;
  pairs.push_back(shape[at]);
  auto other = coordinates(rank);
  other[at] = var(coordinate(rank));
  const Value mine = b.view(x, pairs, coordinates(rank)), theirs = b.view(x, pairs, other);
  const DType t = b.dtype(x);
  const Expr before = isBefore(var("$1", t), var("$0", t),
                               lt(var(coordinate(rank)), var(coordinate(axis))), largest);
  const Value ranks =
      squeeze(b, b.reduce("sum", b.map(cast(DType::I64, before), {mine, theirs}), {rank}), {rank});
  auto result = shape, index = coordinates(rank);
  result[at] = k;
  index[at] = indexLoad(b, 1, ranks, index);
  const Value places = b.map(var(coordinate(axis)), {}, shape);
  return {b.update(b.splat(t, 0, result), {ranks}, x, index, ""),
          b.update(b.splat(DType::I64, 0, result), {ranks}, places, index, "")};
}

/// A host routine that sorts.
Values bySort(Builder& b, Value x, int axis, const Expr& k, bool largest) {
  std::vector<Expr> shape = b.type(x).shape;
  shape[static_cast<size_t>(axis)] = k;
  Call call{"extremes",
            {{"axis", {static_cast<double>(axis)}}, {"largest", {largest ? 1.0 : 0.0}}}};
  return b.add({.kind = std::move(call),
                .operands = {x},
                .results = {{b.dtype(x), shape}, {DType::I64, shape}},
                .name = {},
                .origin = {}});
}

const OpDef topK{"TopK", Takes{"n1+ i0-1"}, [](Builder& b, const OpCall& c) -> Values {
                   const Value x = c.at(0);
                   const int axis = axisOf(c.integer("axis", -1), b.rank(x));
                   const Expr n = b.type(x).shape[static_cast<size_t>(axis)];
                   Expr k = c.integer("k", 0);
                   if (c.has(1)) {
                     const auto given = needKnown(b, c.at(1), "the number of elements");
                     if (given.size() != 1)
                       userError("input 1 has {} elements, expected 1", given.size());
                     k = given[0];
                   }
                   const auto most = asInteger(n), wanted = asInteger(k);
                   if (wanted && (*wanted < 0 || (most && *wanted > *most)))
                     userError("{} elements are wanted, expected 0 to {}", *wanted, toText(n));
                   const bool largest = c.integer("largest", 1) != 0;
                   return most && *most <= kMostRanked ? byRank(b, x, axis, k, largest)
                                                       : bySort(b, x, axis, k, largest);
                 }};

}  // namespace
}  // namespace tektite
