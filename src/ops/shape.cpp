#include <algorithm>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

using Shape = std::vector<Expr>;

const OpDef shapeOp{"Shape", [](Builder& b, const OpCall& c) -> Values {
                      const auto& shape = b.type(c.at(0)).shape;
                      const auto rank = static_cast<int64_t>(shape.size());
                      const auto bound = [&](const char* name, int64_t otherwise) {
                        const int64_t v = c.integer(name, otherwise);
                        return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank);
                      };
                      const int64_t start = bound("start", 0),
                                    end = std::max(start, bound("end", rank));
                      return b.fromKnown({shape.begin() + start, shape.begin() + end}, false);
                    }};

const OpDef sizeOp{"Size", [](Builder& b, const OpCall& c) -> Values {
                     return b.fromKnown({productOf(b.type(c.at(0)).shape)}, true);
                   }};

/// 0 copies a dim, -1 stands for what is left.
const OpDef reshape{
    "Reshape", [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const Shape from = b.type(x).shape;
      Shape to;
      if (c.has(1))
        to = needKnown(b, c.at(1), "the shape");
      else
        for (const int64_t d : c.integers("shape")) to.push_back(d);  // before version 5
      int open = -1;
      for (size_t i = 0; i < to.size(); i++) {
        if (isConstant(to[i], 0) && !c.integer("allowzero", 0)) {
          if (i >= from.size())
            userError("the shape copies axis {} of a tensor of rank {}", i, from.size());
          to[i] = from[i];
        } else if (isConstant(to[i], -1)) {
          if (open >= 0) userError("the shape has two dims of -1");
          open = static_cast<int>(i);
        }
      }
      if (open >= 0) {
        Shape rest = to;
        rest.erase(rest.begin() + open);
        const auto left = divideFactors(from, rest);
        const Expr total = productOf(from), part = productOf(rest);
        if (!left && asInteger(total) && asInteger(part))
          userError("{} elements don't fill rows of {}", *asInteger(total), *asInteger(part));
        to[static_cast<size_t>(open)] = left ? *left : simplified(b, floorDiv(total, part));
      }
      return b.reshape(x, to);
    }};

const OpDef flatten{"Flatten", [](Builder& b, const OpCall& c) -> Values {
                      const Value x = c.at(0);
                      const Shape s = b.type(x).shape;
                      const int64_t axis = c.integer("axis", 1), rank = b.rank(x);
                      if (axis < -rank || axis > rank)
                        userError("axis {} is out of range for rank {}", axis, rank);
                      const auto at = s.begin() + (axis < 0 ? axis + rank : axis);
                      return b.reshape(x, {productOf({s.begin(), at}), productOf({at, s.end()})});
                    }};

const OpDef transpose{"Transpose", [](Builder& b, const OpCall& c) -> Values {
                        std::vector<int64_t> order;
                        for (int i = b.rank(c.at(0)); i-- > 0;) order.push_back(i);
                        order = c.integers("perm", order);
                        if (static_cast<int>(order.size()) != b.rank(c.at(0)))
                          userError("attribute 'perm' has {} axes, expected {}", order.size(),
                                    b.rank(c.at(0)));
                        axesOf(order, b.rank(c.at(0)));
                        std::vector<int> permutation;
                        for (const int64_t a : order)
                          permutation.push_back(axisOf(a, b.rank(c.at(0))));
                        return b.transpose(c.at(0), permutation);
                      }};

const OpDef squeezeOp{
    "Squeeze", [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      if (const auto axes = inputOrAttribute(b, c, 1, "axes"))
        return squeeze(b, x, axesOf(*axes, b.rank(x)));
      std::vector<int> ones;
      for (int i = 0; i < b.rank(x); i++)
        if (needStatic(b.type(x).shape.at(static_cast<size_t>(i)), "an extent") == 1)
          ones.push_back(i);
      return squeeze(b, x, ones);
    }};

const OpDef unsqueezeOp{
    "Unsqueeze", [](Builder& b, const OpCall& c) -> Values {
      const auto axes = inputOrAttribute(b, c, 1, "axes");
      if (!axes) userError("attribute 'axes' is missing");
      return unsqueeze(b, c.at(0), axesOf(*axes, b.rank(c.at(0)) + static_cast<int>(axes->size())));
    }};

const OpDef expand{"Expand", Takes{"* i1"}, [](Builder& b, const OpCall& c) -> Values {
                     const Value x = c.at(0);
                     return b.broadcast(
                         x, broadcastShapes(b.type(x).shape, needKnown(b, c.at(1), "the shape")));
                   }};

const OpDef tile{"Tile", [](Builder& b, const OpCall& c) -> Values {
                   const Value x = c.at(0);
                   const Shape repeats = needKnown(b, c.at(1), "the number of repeats");
                   Shape shape = b.type(x).shape, index = coordinates(b.rank(x));
                   if (repeats.size() != shape.size())
                     userError("{} repeats for rank {}", repeats.size(), shape.size());
                   for (size_t i = 0; i < shape.size(); i++) {
                     if (isConstant(repeats[i], 1)) continue;
                     index[i] = isConstant(shape[i], 1) ? Expr(0) : floorMod(index[i], shape[i]);
                     shape[i] = simplified(b, shape[i] * repeats[i]);
                   }
                   return b.view(x, shape, index);
                 }};

const OpDef concat{
    "Concat", [](Builder& b, const OpCall& c) -> Values {
      for (size_t i = 0; i < c.in.size(); i++) c.at(i);
      return b.concat(
          c.in, axisOf(c.opset < 4 ? c.integer("axis", 1) : c.integer("axis"), b.rank(c.at(0))));
    }};

Value sliceAlong(Builder& b, Value x, int axis, Expr start, Expr size, int64_t step = 1) {
  Shape starts(b.type(x).shape.size(), 0), sizes = b.type(x).shape;
  std::vector<int64_t> steps(sizes.size(), 1);
  const auto at = static_cast<size_t>(axis);
  starts[at] = start;
  sizes[at] = size;
  steps[at] = step;
  return b.slice(x, starts, sizes, steps);
}

const OpDef split{"Split", [](Builder& b, const OpCall& c) -> Values {
                    const Value x = c.at(0);
                    const int axis = axisOf(c.integer("axis", 0), b.rank(x));
                    const Expr extent = b.type(x).shape.at(static_cast<size_t>(axis));
                    auto sizes = inputOrAttribute(b, c, 1, "split");
                    if (!sizes) {
                      const int64_t n = c.integer("num_outputs", c.outputs),
                                    total = needStatic(extent, "the extent of the split axis");
                      constexpr int64_t kMost = 1 << 16;
                      if (n < 1 || n > kMost)
                        userError("{} parts are wanted, expected 1 to {}", n, kMost);
                      const int64_t size = (total + n - 1) / n;
                      sizes.emplace();
                      for (int64_t i = 0; i < n; i++)
                        sizes->push_back(std::max<int64_t>(0, std::min(size, total - i * size)));
                    }
                    std::vector<Value> parts;
                    int64_t start = 0;
                    for (const int64_t size : *sizes) {
                      parts.push_back(sliceAlong(b, x, axis, start, size));
                      start += size;
                    }
                    if (const auto n = asInteger(extent); n && *n != start)
                      userError("the parts have {} elements, the axis {}", start, *n);
                    return parts;
                  }};

/// A table cut to a named dim (`positions[:sequence]`) bounds the dim: it is the table's length at most. Without that the slice
/// would have min(sequence, length) elements, which fit nothing else of the model.
void boundDim(Builder& b, const Expr& end, const Expr& extent) {
  const auto length = asInteger(extent);
  const Linear sum = linearOf(end);
  if (!length || sum.terms.size() != 1 || sum.terms.at(0).second != 1 ||
      !sum.terms.at(0).first.as<Var>())
    return;
  const auto dim = b.graph.dims.find(sum.terms.at(0).first.as<Var>()->name);
  if (dim != b.graph.dims.end())
    dim->second.high =
        std::max(dim->second.low, std::min(dim->second.high, *length - sum.constant));
}

/// numpy's bounds: negative ones count from the end, all are clamped.
void sliceAxis(Builder& b, Expr extent, Expr start, Expr end, int64_t step, Expr& first,
               Expr& size) {
  if (step > 0) boundDim(b, end, extent);
  const Ranges ranges = b.graph.ranges();
  const auto bound = [&](Expr e, Expr low, Expr high) {
    const auto n = asInteger(e);
    if (n && *n > INT32_MAX && step > 0) return high;
    if (n && *n < -INT32_MAX) return low;
    const Expr from = n                              ? (*n < 0 ? e + extent : e)
                      : boundsOf(e, ranges).low >= 0 ? e
                                                     : select(lt(e, 0), e + extent, e);
    return simplify(min(max(from, low), high), ranges);
  };
  const Expr low = step > 0 ? Expr(0) : Expr(-1), high = step > 0 ? extent : extent - 1;
  first = bound(start, step > 0 ? low : Expr(0), high);
  if (step < 0 && asInteger(start) && *asInteger(start) > INT32_MAX) first = simplify(high, ranges);
  const Expr last = bound(end, low, high);
  const Expr length = step > 0 ? last - first : first - last;
  const int64_t by = step > 0 ? step : -step;
  size = simplify(max(floorDiv(length + (by - 1), by), 0), ranges);
}

/// Bounds are data: only the size of the result has to be known, from where it is read stays open.
[[noreturn]] void sliceFrom(Builder& b, const OpCall& c) {
  const Value x = c.at(0);
  const Value starts = b.convert(c.at(1), DType::I64), ends = b.convert(c.at(2), DType::I64);
  const int64_t count = needStatic(b.type(starts).shape.at(0), "the number of starts");
  std::vector<int64_t> axes, steps(static_cast<size_t>(count), 1), low, high, turn, by, extents;
  for (int64_t i = 0; i < count; i++) axes.push_back(i);
  if (c.has(3)) axes = needIntegers(b, c.at(3), "input 3 ('axes')");
  if (c.has(4)) steps = needIntegers(b, c.at(4), "input 4 ('steps')");
  if (axes.size() != static_cast<size_t>(count) || steps.size() != axes.size())
    userError("starts, axes and steps differ in number");
  for (size_t i = 0; i < axes.size(); i++) {
    axes[i] = axisOf(axes[i], b.rank(x));
    if (steps[i] == 0) userError("a step is 0");
    extents.push_back(needStatic(b.type(x).shape.at(static_cast<size_t>(axes[i])), "an extent"));
    low.push_back(steps[i] > 0 ? 0 : -1);
    high.push_back(steps[i] > 0 ? extents[i] : extents[i] - 1);
    turn.push_back(steps[i] > 0 ? 1 : -1);
    by.push_back(std::abs(steps[i]));
  }
  const auto bound = [&](Value v, const std::vector<int64_t>& least) {
    return b.map("min(max(select(a < 0, a + b, a), c), d)",
                 {v, b.integers(extents), b.integers(least), b.integers(high)});
  };
  const Value first = bound(starts, std::vector<int64_t>(axes.size(), 0));
  const Value sizes = b.map("max((a - b) * c + d - 1, 0) // d",
                            {bound(ends, low), first, b.integers(turn), b.integers(by)});
  throw NeedValue{
      sizes,
      "the size of the slice",
      {x, first},
      [axes, steps](Builder& b, Value sizes, const std::vector<Value>& keep) -> Values {
        const auto size = needIntegers(b, sizes, "the size of the slice");
        Shape shape = b.type(keep.at(0)).shape, index = coordinates(b.rank(keep.at(0)));
        for (size_t i = 0; i < axes.size(); i++) {
          const auto at = static_cast<size_t>(axes[i]);
          shape[at] = size[i];
          index[at] =
              indexLoad(b, 1, keep.at(1), {static_cast<int64_t>(i)}) + index[at] * Expr(steps[i]);
        }
        return b.gather(keep.at(0), {keep.at(1)}, shape, index, imm(b.dtype(keep.at(0)), 0));
      }};
}

const OpDef slice{
    "Slice", Takes{"* i1 i1 i1 i1"}, [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const auto open = [&](size_t i) { return c.has(i) && isData(b, c.at(i)); };
      if (open(1) || open(2)) sliceFrom(b, c);
      const auto list = [&](size_t input, const char* name) -> std::optional<Shape> {
        if (c.has(input))
          return needKnown(b, c.at(input), fmt::format("input {} ('{}')", input, name));
        if (!c.given(name)) return std::nullopt;
        const auto integers = c.integers(name);
        return Shape(integers.begin(), integers.end());
      };
      const auto starts = list(1, "starts"), ends = list(2, "ends"), axes = list(3, "axes"),
                 steps = list(4, "steps");
      if (!starts || !ends || starts->size() != ends->size())
        userError("starts and ends differ in number");
      Shape first(b.type(x).shape.size(), 0), sizes = b.type(x).shape;
      std::vector<int64_t> by(sizes.size(), 1);
      for (size_t i = 0; i < starts->size(); i++) {
        const auto at = static_cast<size_t>(
            axisOf(axes ? needStatic(axes->at(i), "an axis") : static_cast<int64_t>(i), b.rank(x)));
        by[at] = steps ? needStatic(steps->at(i), "a step") : 1;
        if (by[at] == 0) userError("a step is 0");
        sliceAxis(b, b.type(x).shape.at(at), (*starts)[i], (*ends)[i], by[at], first[at],
                  sizes[at]);
      }
      return b.slice(x, first, sizes, by);
    }};

/// Modes other than constant read the tensor at a mirrored, clamped or wrapped place.
Value padAround(Builder& b, Value x, const std::vector<int64_t>& before,
                const std::vector<int64_t>& after, const std::string& mode) {
  Shape shape = b.type(x).shape, index = coordinates(b.rank(x));
  for (size_t i = 0; i < shape.size(); i++) {
    if (before[i] == 0 && after[i] == 0) continue;
    const Expr n = shape[i], at = index[i] - before[i];
    shape[i] = simplified(b, n + (before[i] + after[i]));
    if (mode == "edge") {
      index[i] = min(max(at, 0), n - 1);
    } else if (mode == "wrap") {
      index[i] = floorMod(at, n);
    } else if (mode == "reflect") {  // a wave of period 2 (n - 1)
      const Expr period = max((n - 1) * 2, 1), phase = floorMod(at, period);
      index[i] = min(phase, (n - 1) * 2 - phase);
    } else {
      userError("attribute 'mode' is '{}', expected constant, edge, reflect or wrap", mode);
    }
  }
  return b.view(x, shape, index);
}

const OpDef pad{
    "Pad", [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const auto rank = static_cast<size_t>(b.rank(x));
      const auto pads = inputOrAttribute(b, c, 1, c.given("paddings") ? "paddings" : "pads");
      std::vector<int> axes = axisRange(0, b.rank(x));
      if (c.has(3)) {
        axes.clear();
        for (const int64_t a : needIntegers(b, c.at(3), "input 3 ('axes')"))
          axes.push_back(axisOf(a, b.rank(x)));
      }
      if (!pads || pads->size() != 2 * axes.size())
        userError("{} pads, expected {}", pads ? pads->size() : 0, 2 * axes.size());
      std::vector<int64_t> before(rank, 0), after(rank, 0);
      for (size_t i = 0; i < axes.size(); i++) {
        before[static_cast<size_t>(axes[i])] = (*pads)[i];
        after[static_cast<size_t>(axes[i])] = (*pads)[axes.size() + i];
      }
      const std::string mode = c.text("mode", "constant");
      if (mode != "constant") return padAround(b, x, before, after, mode);
      const DType t = b.dtype(x);
      if (c.has(2) && !scalarOf(b, c.at(2))) {  // computed: chosen where the place lies outside
        const Value inside =
            b.pad(b.splat(DType::Bool, 1, b.type(x).shape), before, after, boolean(false));
        return b.map("select(a, b, c)",
                     {inside, b.pad(x, before, after, imm(t, 0)), b.reshape(c.at(2), {})});
      }
      return b.pad(x, before, after, imm(t, c.has(2) ? *scalarOf(b, c.at(2)) : c.real("value", 0)));
    }};

/// [n, c, h, w] cut into blocks: which factor of the channels comes first is the mode.
const OpDef depthToSpace{
    "DepthToSpace", Takes{"*4"}, [](Builder& b, const OpCall& c) -> Values {
      const Shape s = b.type(c.at(0)).shape;
      const int64_t k = c.integer("blocksize");
      const std::string mode = c.text("mode", "DCR");
      if (mode != "DCR" && mode != "CRD")
        userError("attribute 'mode' is '{}', expected DCR or CRD", mode);
      if (s.size() != 4 || k < 1)
        userError("rank {} and block size {}, expected 4 and at least 1", s.size(), k);
      const Expr depth = simplified(b, floorDiv(s.at(1), k * k));
      const Shape split = mode == "DCR" ? Shape{s.at(0), k, k, depth, s.at(2), s.at(3)}
                                        : Shape{s.at(0), depth, k, k, s.at(2), s.at(3)};
      const std::vector<int> order =
          mode == "DCR" ? std::vector<int>{0, 3, 4, 1, 5, 2} : std::vector<int>{0, 1, 4, 2, 5, 3};
      return b.reshape(b.transpose(b.reshape(c.at(0), split), order),
                       {s.at(0), depth, s.at(2) * k, s.at(3) * k});
    }};

const OpDef spaceToDepth{
    "SpaceToDepth", Takes{"*4"}, [](Builder& b, const OpCall& c) -> Values {
      const Shape s = b.type(c.at(0)).shape;
      const int64_t k = c.integer("blocksize");
      if (s.size() != 4 || k < 1)
        userError("rank {} and block size {}, expected 4 and at least 1", s.size(), k);
      const Expr h = simplified(b, floorDiv(s.at(2), k)), w = simplified(b, floorDiv(s.at(3), k));
      const std::string mode = c.text("mode", "DCR");
      if (mode != "DCR" && mode != "CRD")
        userError("attribute 'mode' is '{}', expected DCR or CRD", mode);
      const std::vector<int> order =
          mode == "DCR" ? std::vector<int>{0, 3, 5, 1, 2, 4} : std::vector<int>{0, 1, 3, 5, 2, 4};
      const Value blocks = b.reshape(c.at(0), {s.at(0), s.at(1), h, k, w, k});
      return b.reshape(b.transpose(blocks, order), {s.at(0), s.at(1) * (k * k), h, w});
    }};

const OpDef centerCropPad{
    "CenterCropPad", Takes{"*1+ i1"}, [](Builder& b, const OpCall& c) -> Values {
      Value x = c.at(0);
      const auto rank = b.rank(x);
      const auto target = needIntegers(b, c.at(1), "the shape");
      std::vector<int64_t> axes;
      for (int i = 0; i < rank; i++) axes.push_back(i);
      axes = c.integers("axes", axes);
      if (target.size() != axes.size())
        userError("{} extents are wanted of {} axes", target.size(), axes.size());
      for (size_t i = 0; i < axes.size(); i++) {
        const int axis = axisOf(axes[i], rank);
        const auto at = static_cast<size_t>(axis);
        const int64_t have = needStatic(b.type(x).shape.at(at), "an extent"), want = target[i];
        if (want < 0) userError("an extent of {} is wanted", want);
        if (have > want) x = sliceAlong(b, x, axis, (have - want) / 2, want);
        if (have >= want) continue;
        std::vector<int64_t> before(static_cast<size_t>(rank), 0), after = before;
        before[at] = (want - have) / 2;
        after[at] = want - have - before[at];
        x = b.pad(x, before, after, imm(b.dtype(x), 0));
      }
      return x;
    }};

}  // namespace
}  // namespace tektite
