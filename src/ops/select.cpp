#include <algorithm>
#include <limits>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Operators whose results are as large as data says: a host routine gives the largest result and a count, the rest of the definition
// goes on when the count is known.
namespace tektite {
namespace {

using Results = std::vector<Value>;

Results routine(Builder& b, std::string name, Results operands, std::vector<TensorType> results,
                std::map<std::string, std::vector<double>> numbers = {}) {
  return b.add(Node{Call{std::move(name), std::move(numbers), {}}, std::move(operands),
                    std::move(results), "", b.origin});
}

/// The first `count` along an axis.
Value firstOf(Builder& b, Value v, int axis, Expr count) {
  std::vector<Expr> starts(b.type(v).shape.size(), 0), sizes = b.type(v).shape;
  sizes.at(static_cast<size_t>(axis)) = count;
  return b.slice(v, starts, sizes, std::vector<int64_t>(sizes.size(), 1));
}

int64_t countOf(const Builder& b, Value count) {
  return needIntegers(b, count, "the number of results").at(0);
}

/// Of true elements: coordinates [rank, elements], and how many there are.
Results coordinatesOfTrue(Builder& b, Value mask) {
  const TensorType& t = b.type(mask);
  return routine(b, "places", {mask},
                 {{DType::I64, {t.rank(), productOf(t.shape)}}, {DType::I64, {1}}});
}

const OpDef nonZero{"NonZero", [](Builder& b, const OpCall& c) -> Values {
                      Value x = c.at(0);
                      if (b.rank(x) == 0) x = b.reshape(x, {1});
                      if (b.dtype(x) != DType::Bool)
                        x = b.map(cast(DType::Bool, var("$0", b.dtype(x))), {x});
                      const Results found = coordinatesOfTrue(b, x);
                      throw NeedValue{found.at(1),
                                      "the number of elements that are not 0",
                                      {found.at(0)},
                                      [](Builder& b, Value count, const Results& keep) -> Values {
                                        return firstOf(b, keep.at(0), 1, countOf(b, count));
                                      }};
                    }};

/// Slices along an axis where the condition holds; it may be shorter than the axis.
const OpDef compress{
    "Compress", Takes{"* b1"}, [](Builder& b, const OpCall& c) -> Values {
      Value x = c.at(0);
      if (!c.given("axis")) x = b.reshape(x, {productOf(b.type(x).shape)});
      const int axis = axisOf(c.integer("axis", 0), b.rank(x));
      if (b.rank(c.at(1)) != 1 || b.dtype(c.at(1)) != DType::Bool)
        userError("the condition is {}, expected a list of bool", toText(b.type(c.at(1))));
      const Results found = coordinatesOfTrue(b, c.at(1));
      throw NeedValue{
          found.at(1),
          "the number of elements that are true",
          {found.at(0), x},
          [axis](Builder& b, Value count, const Results& keep) -> Values {
            const Value places =
                b.reshape(firstOf(b, keep.at(0), 1, countOf(b, count)), {countOf(b, count)});
            std::vector<Expr> shape = b.type(keep.at(1)).shape,
                              index = coordinates(b.rank(keep.at(1)));
            const auto at = static_cast<size_t>(axis);
            shape[at] = countOf(b, count);
            index[at] = indexLoad(b, 1, places, {var(coordinate(axis))});
            return b.gather(keep.at(1), {places}, shape, index, imm(b.dtype(keep.at(1)), 0));
          }};
    }};

const OpDef unique{
    "Unique",
    [](Builder& b, const OpCall& c) -> Values {
      Value x = c.at(0);
      const bool flat = !c.given("axis");
      if (flat) x = b.reshape(x, {productOf(b.type(x).shape)});
      const int axis = axisOf(c.integer("axis", 0), b.rank(x));
      std::vector<int> order = axisRange(0, b.rank(x));
      order.erase(order.begin() + axis);
      order.insert(order.begin(), axis);
      const Value rows = b.transpose(x, order);
      const Expr n = b.type(rows).shape.at(0);
      const TensorType each{DType::I64, {n}};
      const Results found = routine(b, "unique", {rows}, {each, each, each, {DType::I64, {1}}},
                                    {{"sorted", {static_cast<double>(c.integer("sorted", 1))}}});
      throw NeedValue{
          found.at(3),
          "the number of distinct elements",
          {x, found.at(0), found.at(1), found.at(2)},
          [axis](Builder& b, Value count, const Results& keep) -> Values {
            const Expr n = countOf(b, count);
            const Value first = firstOf(b, keep.at(1), 0, n);
            std::vector<Expr> shape = b.type(keep.at(0)).shape,
                              index = coordinates(b.rank(keep.at(0)));
            shape[static_cast<size_t>(axis)] = n;
            index[static_cast<size_t>(axis)] = indexLoad(b, 1, first, {var(coordinate(axis))});
            return {b.gather(keep.at(0), {first}, shape, index, imm(b.dtype(keep.at(0)), 0)), first,
                    keep.at(2), firstOf(b, keep.at(3), 0, n)};
          }};
    },
    11};

const OpDef nonMaxSuppression{
    "NonMaxSuppression", Takes{"f3 f3 i0-1 f0-1 f0-1"},
    [](Builder& b, const OpCall& c) -> Values {
      const auto number = [&](size_t i, DType type, double otherwise) {
        return c.has(i) ? b.reshape(c.at(i), {1}) : b.splat(type, otherwise, {1});
      };
      const auto boxes = b.type(c.at(0)).shape, scores = b.type(c.at(1)).shape;
      if (boxes.size() != 3 || scores.size() != 3 || !isConstant(boxes.at(2), 4) ||
          !(boxes.at(0) == scores.at(0)) || !(boxes.at(1) == scores.at(2)))
        userError("boxes are {} and scores {}, expected [N x M x 4] and [N x C x M]",
                  toText(b.type(c.at(0))), toText(b.type(c.at(1))));
      const Value most = number(2, DType::I64, 0);
      Expr rows = scores.at(2);
      if (const auto known = integersOf(b, most))
        rows = min(rows, Expr(std::max<int64_t>(known->at(0), 0)));
      const Expr all = simplified(b, scores.at(0) * scores.at(1) * rows);
      const Results found =
          routine(b, "nms",
                  {c.at(0), c.at(1), most, number(3, DType::F32, 0),
                   number(4, DType::F32, -std::numeric_limits<double>::infinity())},
                  {{DType::I64, {all, 3}}, {DType::I64, {1}}},
                  {{"centred", {static_cast<double>(c.integer("center_point_box", 0))}}});
      throw NeedValue{found.at(1),
                      "the number of boxes",
                      {found.at(0)},
                      [](Builder& b, Value count, const Results& keep) -> Values {
                        return firstOf(b, keep.at(0), 0, countOf(b, count));
                      }};
    },
    10};

}  // namespace
}  // namespace tektite
