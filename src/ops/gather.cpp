#include <algorithm>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

using Shape = std::vector<Expr>;

/// An index that may count from the end.
Expr fromEnd(Expr index, Expr extent) { return select(lt(index, 0), index + extent, index); }

Shape joined(std::initializer_list<Shape> parts) {
  Shape out;
  for (const Shape& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

Shape sub(const Shape& s, size_t from, size_t to) {
  return {s.begin() + static_cast<long>(from), s.begin() + static_cast<long>(to)};
}

/// One place, known: a slice. Several places of a known shape: chosen now. Else data is read by data.
const OpDef gatherOp{
    "Gather", Takes{"*1+ i"}, [](Builder& b, const OpCall& c) -> Values {
      const Value data = c.at(0), indices = c.at(1);
      const Shape shape = b.type(data).shape;
      const auto axis = static_cast<size_t>(axisOf(c.integer("axis", 0), b.rank(data)));
      const auto picked = b.rank(indices) <= 1 ? integersOf(b, indices) : std::nullopt;
      const auto known = b.known(data);
      if (picked && known && b.rank(data) == 1) {
        Shape values;
        for (const int64_t i : *picked)
          values.push_back(
              known->at(static_cast<size_t>(axisOf(i, static_cast<int>(known->size())))));
        return b.fromKnown(values, b.rank(indices) == 0, b.dtype(data));
      }
      if (picked && picked->size() == 1) {
        Shape starts(shape.size(), 0), sizes = shape;
        const int64_t i = picked->front();
        if (const auto n = asInteger(shape[axis]); n && (i < -*n || i >= *n))
          userError("index {} is out of range for extent {}", i, *n);
        starts[axis] = i < 0 ? simplified(b, shape[axis] + i) : Expr(i);
        sizes[axis] = 1;
        const Value one = b.slice(data, starts, sizes, std::vector<int64_t>(shape.size(), 1));
        return b.rank(indices) == 1 ? one : squeeze(b, one, {static_cast<int>(axis)});
      }
      const auto n = static_cast<size_t>(b.rank(indices));
      const Shape d = coordinates(static_cast<int>(shape.size() + n) - 1);
      const Expr at = indexLoad(b, 1, indices, sub(d, axis, axis + n));
      return b.gather(
          data, {indices},
          joined({sub(shape, 0, axis), b.type(indices).shape, sub(shape, axis + 1, shape.size())}),
          joined({sub(d, 0, axis), {fromEnd(at, shape[axis])}, sub(d, axis + n, d.size())}),
          imm(b.dtype(data), 0));
    }};

const OpDef gatherElements{
    "GatherElements", Takes{"*1+ i1+"}, [](Builder& b, const OpCall& c) -> Values {
      const Value data = c.at(0), indices = c.at(1);
      const auto axis = static_cast<size_t>(axisOf(c.integer("axis", 0), b.rank(data)));
      Shape index = coordinates(b.rank(data));
      index[axis] = fromEnd(indexLoad(b, 1, indices, index), b.type(data).shape.at(axis));
      return b.gather(data, {indices}, b.type(indices).shape, index, imm(b.dtype(data), 0));
    }};

/// The last axis of the indices holds a place in the axes after the batch.
const OpDef gatherNd{
    "GatherND", Takes{"*1+ i1+"}, [](Builder& b, const OpCall& c) -> Values {
      const Value data = c.at(0), indices = c.at(1);
      const Shape& shape = b.type(data).shape;
      const Shape& places = b.type(indices).shape;
      const auto batch = static_cast<size_t>(c.integer("batch_dims", 0)), outer = places.size() - 1;
      const auto depth = static_cast<size_t>(
          needStatic(places.at(places.size() - 1), "the last extent of the indices"));
      if (batch > outer || batch > shape.size())
        userError("attribute 'batch_dims' is {}, inputs are {} and {}", c.integer("batch_dims", 0),
                  toText(b.type(data)), toText(b.type(indices)));
      if (depth > shape.size() - batch)
        userError("indices have {} numbers a place, at most {} fit", depth, shape.size() - batch);
      const Shape d = coordinates(static_cast<int>(outer + shape.size() - batch - depth));
      Shape index = sub(d, 0, batch);
      for (size_t k = 0; k < depth; k++)
        index.push_back(
            fromEnd(indexLoad(b, 1, indices, joined({sub(d, 0, outer), {static_cast<int64_t>(k)}})),
                    shape[batch + k]));
      index = joined({index, sub(d, outer, d.size())});
      return b.gather(data, {indices},
                      joined({sub(places, 0, outer), sub(shape, batch + depth, shape.size())}),
                      index, imm(b.dtype(data), 0));
    }};

std::string combineOf(const OpCall& c) {
  const std::string r = c.text("reduction", "none");
  if (r == "none") return "";
  if (r == "add") return "sum";
  if (r == "mul") return "product";
  if (r == "max" || r == "min") return r;
  userError("attribute 'reduction' is '{}', expected none, add, mul, max or min", r);
}

Values scatterElements(Builder& b, const OpCall& c) {
  const Value data = c.at(0), indices = c.at(1);
  const auto axis = static_cast<size_t>(axisOf(c.integer("axis", 0), b.rank(data)));
  Shape index = coordinates(b.rank(data));
  index[axis] = fromEnd(indexLoad(b, 1, indices, index), b.type(data).shape.at(axis));
  return b.update(data, {indices}, c.at(2), index, combineOf(c));
}
const OpDef scatterElementsOp{"ScatterElements", Takes{"*1+ i1+ =1+"}, scatterElements};
const OpDef scatter{"Scatter", Takes{"*1+ i1+ =1+"}, scatterElements};

const OpDef scatterNd{
    "ScatterND", Takes{"*1+ i1+ ="}, [](Builder& b, const OpCall& c) -> Values {
      const Value data = c.at(0), indices = c.at(1), values = c.at(2);
      const Shape& shape = b.type(data).shape;
      const size_t outer = b.type(indices).shape.size() - 1;
      const auto depth =
          static_cast<size_t>(needStatic(lastExtent(b, indices), "the last extent of the indices"));
      if (depth > shape.size() || b.type(values).shape.size() != outer + shape.size() - depth)
        userError("inputs are {}, {} and {}: updates of rank {} expected", toText(b.type(data)),
                  toText(b.type(indices)), toText(b.type(values)), outer + shape.size() - depth);
      const Shape d = coordinates(b.rank(values));
      Shape index;
      for (size_t k = 0; k < depth; k++)
        index.push_back(
            fromEnd(indexLoad(b, 1, indices, joined({sub(d, 0, outer), {static_cast<int64_t>(k)}})),
                    shape.at(k)));
      return b.update(data, {indices}, values, joined({index, sub(d, outer, d.size())}),
                      combineOf(c));
    }};

/// The first `lengths[batch]` steps of each member of the batch turned round.
const OpDef reverseSequence{
    "ReverseSequence", Takes{"*2+ i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const int time = axisOf(c.integer("time_axis", 0), b.rank(x)),
                batch = axisOf(c.integer("batch_axis", 1), b.rank(x));
      Shape index = coordinates(b.rank(x));
      const Expr at = var(coordinate(time)),
                 length = indexLoad(b, 1, c.at(1), {var(coordinate(batch))});
      index[static_cast<size_t>(time)] = select(lt(at, length), length - 1 - at, at);
      return b.gather(x, {c.at(1)}, b.type(x).shape, index, imm(b.dtype(x), 0));
    }};

/// values = [off, on]; an index out of range lights nothing.
const OpDef oneHot{
    "OneHot", Takes{"n n *1"}, [](Builder& b, const OpCall& c) -> Values {
      Value indices = c.at(0);
      const int rank = b.rank(indices) + 1, axis = axisOf(c.integer("axis", -1), rank);
      const Expr depth = c.has(1) && scalarOf(b, c.at(1))
                             ? Expr(static_cast<int64_t>(*scalarOf(b, c.at(1))))
                             : onlyOf(needKnown(b, c.at(1), "the depth"));
      indices = unsqueeze(b, b.convert(indices, DType::I64), {axis});
      Shape shape = b.type(indices).shape;
      shape[static_cast<size_t>(axis)] = depth;
      const Expr i = var("$0"), lit = eq(fromEnd(i, depth), var(coordinate(axis)));
      const auto one = [&](int64_t at) { return b.reshape(b.slice(c.at(2), {at}, {1}, {1}), {}); };
      const Value hot = b.map(lit, {indices}, shape);
      return b.map("select(a, c, b)", {hot, one(0), one(1)});
    }};

}  // namespace
}  // namespace tektite
