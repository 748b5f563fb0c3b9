#include <algorithm>
#include <cmath>

#include "passes/coordinates.h"
#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

bool isZero(const Expr& fill) {
  const Imm* i = fill.as<Imm>();
  return i && i->real == 0 && i->integer == 0;
}

/// Is zero times whatever it holds zero? Of floats only constants tell.
bool allFinite(const Graph& g, Value v) {
  const DType type = g.type(v).dtype;
  if (!isFloat(type)) return true;
  const Const* c = g.node(v).as<Const>();
  if (c && c->splat) return std::isfinite(c->splat.as<Imm>()->real);
  if (!c || type != DType::F32 || !c->data->data) return false;
  const float* data = static_cast<const float*>(c->data->data);
  return std::all_of(data, data + c->data->bytes / sizeof(float),
                     [](float x) { return std::isfinite(x); });
}

/// A sum of products one operand of which is a window over a border of zeros.
class Windows {
 public:
  Windows(Graph& g, Node sum, size_t operand) : g_(g), sum_(std::move(sum)), operand_(operand) {}

  Node run() {
    for (size_t axis = 0; axis < labels().size(); ++axis) {
      const char label = labels()[axis];
      if (contract().output.find(label) != std::string::npos ||
          std::ranges::count(labels(), label) > 1)
        continue;
      int64_t from = 0, to = type().extent(static_cast<int>(axis));
      while (from + 1 < to && onlyZeros(axis, from)) ++from;
      while (from + 1 < to && onlyZeros(axis, to - 1)) --to;
      if (to - from < type().extent(static_cast<int>(axis)) && othersAreFinite())
        keepOnly(label, from, to);
    }
    return std::move(sum_);
  }

 private:
  const Contract& contract() const { return *sum_.as<Contract>(); }
  const std::string& labels() const { return contract().inputs[operand_]; }
  const TensorType& type() const { return g_.type(sum_.operands[operand_]); }

  /// Does this place of the axis lie in the border, wherever the window stands?
  bool onlyZeros(size_t axis, int64_t place) const {
    const Node& n = g_.node(sum_.operands[operand_]);
    const View& view = *n.as<View>();
    Coordinates known(n.results[0], g_.ranges());
    known.ranges[coordinate(static_cast<int>(axis))] = {place, place};
    if (view.guard && boundsOf(view.guard, known.ranges).high == 0) return true;
    const TensorType& source = g_.type(n.operands[0]);
    for (int a = 0; a < source.rank(); ++a) {
      const Interval at = boundsOf(view.index[a], known.ranges);
      if (at.high < 0 || at.low >= boundsOf(source.shape[a], g_.ranges()).high) return true;
    }
    return false;
  }

  bool othersAreFinite() const {
    for (size_t o = 0; o < sum_.operands.size(); ++o)
      if (o != operand_ && !allFinite(g_, sum_.operands[o])) return false;
    return true;
  }

  void keepOnly(char label, int64_t from, int64_t to) {
    for (size_t o = 0; o < sum_.operands.size(); ++o) {
      const size_t axis = contract().inputs[o].find(label);
      if (axis == std::string::npos) continue;
      const TensorType whole = g_.type(sum_.operands[o]);
      Node part;
      part.results = {whole};
      part.results[0].shape[axis] = to - from;
      part.origin = sum_.origin;
      if (o == operand_) {
        part = windowFrom(axis, from, std::move(part));
      } else {
        View view;
        for (int a = 0; a < whole.rank(); ++a) view.index.push_back(var(coordinate(a)));
        view.index[axis] = view.index[axis] + Expr(from);
        part.kind = std::move(view);
        part.operands = {sum_.operands[o]};
      }
      sum_.operands[o] = g_.add(std::move(part));
    }
  }

  Node windowFrom(size_t axis, int64_t from, Node part) const {
    const Node& n = g_.node(sum_.operands[operand_]);
    const std::string d = coordinate(static_cast<int>(axis));
    View view = *n.as<View>();
    for (Expr& e : view.index) e = substitute(e, {{d, var(d) + Expr(from)}});
    if (view.guard) view.guard = substitute(view.guard, {{d, var(d) + Expr(from)}});
    part.kind = std::move(view);
    part.operands = n.operands;
    return part;
  }

  Graph& g_;
  Node sum_;
  size_t operand_;
};

/// A convolution whose dilation reaches far beyond its input adds up zeros from the border: taps that meet nothing else are no taps.
/// Needs: what they are multiplied by is finite (constants that are looked at, integers), since zero times an infinity is none.
/// Leaves: one tap of a window that lies in the border altogether, and taps between others.
Graph trimPadding(const Graph& in) {
  const Graph trimmed = rebuild(in, [&](Graph& out, Node n) {
    n = withinNested(std::move(n), in, trimPadding);
    for (size_t o = 0; n.as<Contract>() && o < n.operands.size(); ++o) {
      const View* view = out.node(n.operands[o]).as<View>();
      if (view && view->fill && isZero(view->fill) && out.type(n.operands[o]).isStatic())
        n = Windows(out, std::move(n), o).run();
    }
    return keep(out, std::move(n));
  });
  return rebuild(trimmed, keep);  // without the windows that were replaced
}

const Pass pass{"trim-padding", "sum over no taps of a window that meet only its border",
                trimPadding};

}  // namespace
}  // namespace tektite
