#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Each element's rank is the number of those before it in the order wanted; the first k are written to their ranks. Equal elements
/// keep their order. Quadratic in the axis, without a sort.
const OpDef topK{
    "TopK", [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int rank = b.rank(x), axis = axisOf(c.integer("axis", -1), rank);
      const Expr k =
          c.has(1) ? needKnown(b, c.at(1), "the number of elements").at(0) : Expr(c.integer("k"));
      const auto shape = b.type(x).shape;
      const auto at = static_cast<size_t>(axis);
      // Two views with the axis twice: the element, and the one it is compared with on a last axis.
      auto pairs = shape;
      pairs.push_back(shape[at]);
      auto other = coordinates(rank);
      other[at] = var(coordinate(rank));
      const Value mine = b.view(x, pairs, coordinates(rank)), theirs = b.view(x, pairs, other);
      const DType t = b.dtype(x);
      const Expr a = var("$0", t), o = var("$1", t),
                 earlier = lt(var(coordinate(rank)), var(coordinate(axis)));
      const Expr ahead = c.integer("largest", 1) ? lt(a, o) : lt(o, a);
      const Expr before = apply(Op::Or, {ahead, logicalAnd(eq(a, o), earlier)});
      const Value ranks = squeeze(
          b, b.reduce("sum", b.map(cast(DType::I64, before), {mine, theirs}), {rank}), {rank});
      auto result = shape, index = coordinates(rank);
      result[at] = k;
      index[at] = indexLoad(b, 1, ranks, index);
      const Value places = b.map(var(coordinate(axis)), {}, shape);
      return {b.update(b.splat(t, 0, result), {ranks}, x, index, ""),
              b.update(b.splat(DType::I64, 0, result), {ranks}, places, index, "")};
    }};

}  // namespace
}  // namespace tektite
