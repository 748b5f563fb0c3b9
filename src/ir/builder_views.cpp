#include <algorithm>

#include "ir/builder.h"
#include "ir/dims.h"
#include "support/check.h"

namespace tektite {
namespace {

Expr d(size_t axis) { return var(coordinate(static_cast<int>(axis))); }

/// Runs of axes of both sides with provably equal products, as small as can be.
struct AxisGroup {
  std::vector<int> from, to;
};

class Reshape {
 public:
  Reshape(const TensorType& from, const std::vector<Expr>& to, const Ranges& dims)
      : from_(from.shape), to_(to), dims_(dims) {
    if (!sameDim(product(from_), product(to_)))
      userError("reshape of {} to {}: {} elements, expected {}", toText(from),
                toText(TensorType{from.dtype, to}).substr(name(from.dtype).size()),
                toText(product(to_)), toText(product(from_)));
  }

  std::vector<Expr> index() {
    std::vector<Expr> out(from_.size(), Expr(0));
    for (const AxisGroup& g : groups()) {
      if (g.from.size() == 1 && g.to.size() == 1) {
        out[g.from[0]] = d(g.to[0]);
        continue;
      }
      Expr flat = 0, stride = 1;  // the position within the group
      for (size_t k = g.to.size(); k-- > 0;) {
        flat = d(g.to[k]) * stride + flat;
        stride = stride * to_[g.to[k]];
      }
      stride = 1;
      for (size_t k = g.from.size(); k-- > 0;) {
        const Expr& extent = from_[g.from[k]];
        Expr e = floorDiv(flat, stride);
        if (k > 0) e = floorMod(e, extent);
        out[g.from[k]] = e;
        stride = normalDim(stride * extent);
      }
    }
    Ranges all = dims_;
    for (size_t i = 0; i < to_.size(); i++)
      if (const auto n = asInteger(to_[i]))
        all[coordinate(static_cast<int>(i))] = {0, std::max<int64_t>(*n - 1, 0)};
      else
        all[coordinate(static_cast<int>(i))] = {
            0, std::max<int64_t>(boundsOf(to_[i], dims_).high - 1, 0)};
    for (Expr& e : out)
      if (!e.as<Var>()) e = simplify(e, all);
    return out;
  }

 private:
  std::vector<AxisGroup> groups() const {
    std::vector<AxisGroup> out;
    size_t i = 0, j = 0;
    const size_t n = from_.size(), m = to_.size();
    while (i < n || j < m) {
      if (i < n && isConstant(from_[i], 1)) {
        i++;
        continue;
      }
      if (j < m && isConstant(to_[j], 1)) {
        j++;
        continue;
      }
      AxisGroup g;
      Expr a = 1, b = 1;
      const auto takeFrom = [&] {
        a = normalDim(a * from_[i]);
        g.from.push_back(static_cast<int>(i++));
      };
      const auto takeTo = [&] {
        b = normalDim(b * to_[j]);
        g.to.push_back(static_cast<int>(j++));
      };
      if (i < n) takeFrom();
      if (j < m) takeTo();
      while (!sameDim(a, b) && (i < n || j < m)) {
        const bool grow = j == m || (i < n && smaller(a, b));
        grow ? takeFrom() : takeTo();
      }
      out.push_back(std::move(g));
    }
    return out;
  }
  /// Which side to extend: the one whose product divides the other's, else the smaller one.
  static bool smaller(const Expr& a, const Expr& b) {
    if (exactQuotient(b, a)) return true;
    if (exactQuotient(a, b)) return false;
    const auto x = asInteger(a), y = asInteger(b);
    return x && y ? *x < *y : x.has_value();
  }

  const std::vector<Expr>& from_;
  const std::vector<Expr>& to_;
  const Ranges& dims_;
};

}  // namespace

Value Builder::transpose(Value v, const std::vector<int>& permutation) {
  const TensorType& t = type(v);
  std::vector<Expr> shape, index(t.rank());
  if (static_cast<int>(permutation.size()) != t.rank())
    userError("transpose: {} axes for {}", permutation.size(), toText(t));
  for (size_t i = 0; i < permutation.size(); i++) {
    const int from = permutation[i];
    if (from < 0 || from >= t.rank() || index[from])
      userError("transpose: [{}] is no permutation", fmt::join(permutation, ", "));
    shape.push_back(t.shape[from]);
    index[from] = isConstant(t.shape[from], 1) ? Expr(0) : d(i);
  }
  for (size_t i = 0; i < index.size(); i++)
    if (permutation[i] == static_cast<int>(i) && isConstant(t.shape[i], 1)) index[i] = d(i);
  return view(v, std::move(shape), std::move(index));
}

Value Builder::reshape(Value v, std::vector<Expr> shape) {
  const TensorType t = type(v);
  for (Expr& e : shape) e = normalDim(e);
  if (sameShape(t.shape, shape)) return v;
  const Ranges dims = graph.ranges();
  Reshape way(t, shape, dims);
  const Node& n = graph.node(v);
  if (const Const* c = n.as<Const>(); c && n.results.size() == 1) {
    const std::string name = n.name;
    const Value out = append(Const(*c), {}, {t.dtype, std::move(shape)});
    graph.nodes[out.node].name = name;
    return out;
  }
  return makeView(v, {}, shape, View{way.index(), {}, {}});
}

Value Builder::broadcast(Value v, std::vector<Expr> shape) {
  const TensorType t = type(v);
  shape = broadcastShapes(shape, t.shape);
  if (sameShape(t.shape, shape)) return v;
  if (const Const* c = graph.node(v).as<Const>(); c && c->splat)
    return append(Const(*c), {}, {t.dtype, std::move(shape)});
  std::vector<Expr> index;
  const size_t shift = shape.size() - t.shape.size();
  for (size_t i = 0; i < t.shape.size(); i++)
    index.push_back(isConstant(t.shape[i], 1) && !isConstant(shape[i + shift], 1) ? Expr(0)
                                                                                  : d(i + shift));
  return view(v, std::move(shape), std::move(index));
}

Value Builder::slice(Value v, const std::vector<Expr>& starts, const std::vector<Expr>& sizes,
                     const std::vector<int64_t>& steps) {
  const int rank = this->rank(v);
  if (static_cast<int>(starts.size()) != rank || static_cast<int>(sizes.size()) != rank ||
      static_cast<int>(steps.size()) != rank)
    userError("slice: {} starts, {} sizes and {} steps for {}", starts.size(), sizes.size(),
              steps.size(), toText(type(v)));
  std::vector<Expr> index;
  for (int i = 0; i < rank; i++) index.push_back(d(i) * Expr(steps[i]) + starts[i]);
  return view(v, sizes, std::move(index));
}

Value Builder::pad(Value v, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
                   Expr fill) {
  const TensorType t = type(v);
  if (static_cast<int>(before.size()) != t.rank() || static_cast<int>(after.size()) != t.rank())
    userError("pad: {} and {} numbers for {}", before.size(), after.size(), toText(t));
  std::vector<Expr> shape, index;
  for (int i = 0; i < t.rank(); i++) {
    shape.push_back(t.shape[i] + Expr(before[i]) + Expr(after[i]));
    if (const auto n = asInteger(shape.back()); n && *n < 0)
      userError("pad: axis {} of {} by {} and {}", i, toText(t), before[i], after[i]);
    index.push_back(d(i) - Expr(before[i]));
  }
  return view(v, std::move(shape), std::move(index), std::move(fill));
}

Value Builder::windows(Value v, const std::vector<int64_t>& kernel,
                       const std::vector<int64_t>& strides, const std::vector<int64_t>& dilations,
                       const std::vector<int64_t>& before, const std::vector<Expr>& outExtents,
                       Expr fill) {
  const TensorType t = type(v);
  const size_t spatial = kernel.size(), lead = t.shape.size() - spatial;
  if (kernel.size() > t.shape.size() || strides.size() != spatial || dilations.size() != spatial ||
      before.size() != spatial || outExtents.size() != spatial)
    userError("windows of {} axes for {}", spatial, toText(t));
  std::vector<Expr> shape(t.shape.begin(), t.shape.begin() + static_cast<long>(lead)), index;
  for (size_t i = 0; i < lead; i++) index.push_back(d(i));
  shape.insert(shape.end(), outExtents.begin(), outExtents.end());
  for (size_t i = 0; i < spatial; i++) {
    shape.emplace_back(kernel[i]);
    index.push_back(d(lead + i) * Expr(strides[i]) + d(lead + spatial + i) * Expr(dilations[i]) -
                    Expr(before[i]));
  }
  return view(v, std::move(shape), std::move(index), std::move(fill));
}

}  // namespace tektite
