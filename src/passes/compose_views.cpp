#include <algorithm>

#include "ir/conjuncts.h"
#include "ir/dims.h"
#include "passes/coordinates.h"
#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

const View* viewOf(const Node& n) {
  if (const Gather* g = n.as<Gather>()) return g;
  return n.as<View>();
}

Expr conjunction(const std::vector<Expr>& list) {
  Expr out;
  for (const Expr& e : list) out = out ? logicalAnd(out, e) : e;
  return out;
}

void addRange(std::vector<Expr>& to, const Expr& index, const Expr& extent) {
  to.push_back(le(Expr(0), index));
  to.push_back(lt(index, extent));
}

/// One chain at a time: the last view, as it is drawn up over what stands before it.
class Chain {
 public:
  Chain(const Graph& g, Node last)
      : g_(g), at_(std::move(last)), known_(at_.results[0], g.ranges()) {}

  Node run() {
    tidy();
    while (throughView() || throughConcat()) tidy();
    return std::move(at_);
  }

 private:
  View& view() {
    if (Gather* g = std::get_if<Gather>(&at_.kind)) return *g;
    return std::get<View>(at_.kind);
  }
  const TensorType& source() const { return g_.type(at_.operands[0]); }
  bool reads(const Expr& index, const Expr& extent) const {
    return inRange(index, extent, at_.results[0].shape, g_.ranges());
  }
  bool inside(const View& v, const TensorType& t) const {
    for (int a = 0; a < t.rank(); ++a)
      if (!reads(v.index[a], t.shape[a])) return false;
    return true;
  }

  /// Normal forms; conjuncts that the index's range implies go, and guard and fill where nothing is left of them.
  void tidy() {
    View& v = view();
    const std::vector<Expr> guards = conjuncts(v.guard);
    std::vector<Expr> assumed = known_.below;
    assumed.insert(assumed.end(), guards.begin(), guards.end());
    Facts guarded(known_.ranges, assumed);
    for (Expr& e : v.index) e = guarded.simplify(e);
    if (!v.fill) return;
    if (v.guard) {
      std::vector<Expr> within = known_.below;
      for (int a = 0; a < source().rank(); ++a) addRange(within, v.index[a], source().shape[a]);
      Facts reading(known_.ranges, within);
      std::vector<Expr> left;
      for (const Expr& e : guards)
        if (!reading.proves(e)) left.push_back(e);
      v.guard =
          left.empty() ? Expr() : Facts(known_.ranges, known_.below).simplify(conjunction(left));
      if (isConstant(v.guard, 1)) v.guard = {};
    }
    if (!v.guard && at_.as<View>() && inside(v, source())) v.fill = {};
  }

  /// The view of a view as one.
  bool throughView() {
    const Node& before = g_.node(at_.operands[0]);
    const View* inner = viewOf(before);
    View& outer = view();
    if (!inner || (before.as<Gather>() && (at_.as<Gather>() || outer.fill))) return false;
    const TensorType &mid = before.results[0], &from = g_.type(before.operands[0]);

    std::unordered_map<std::string, Expr> at;
    for (int a = 0; a < mid.rank(); ++a) at[coordinate(a)] = outer.index[a];
    View both;
    for (const Expr& e : inner->index) both.index.push_back(substitute(e, at));
    const Expr innerGuard = inner->guard ? substitute(inner->guard, at) : Expr();

    std::vector<Expr> guards = conjuncts(outer.guard);
    std::vector<Expr> reached = known_.below;  // under what the outer view reads the inner one
    reached.insert(reached.end(), guards.begin(), guards.end());
    for (int a = 0; a < mid.rank(); ++a) addRange(reached, outer.index[a], mid.shape[a]);
    Facts facts(known_.ranges, reached);
    const bool innerHolds = !inner->fill || alwaysReads(both, innerGuard, from, facts);
    if (outer.fill && !innerHolds && !(outer.fill == inner->fill)) return false;

    if (outer.fill) addUncovered(guards, *inner, mid, from);
    if (innerGuard && !(innerHolds && outer.fill)) guards.push_back(innerGuard);
    both.guard = conjunction(guards);
    both.fill = outer.fill ? outer.fill : inner->fill;
    if (!outer.fill)  // the outer view's ranges hold everywhere
      for (Expr& e : both.index) e = facts.simplify(e);
    if (!both.fill && !inside(both, from)) return false;
    if (!loadsInside(both, before)) return false;
    adopt(before, std::move(both));
    return true;
  }

  static bool alwaysReads(const View& v, const Expr& guard, const TensorType& from, Facts& facts) {
    std::vector<Expr> checks = conjuncts(guard);
    for (int a = 0; a < from.rank(); ++a) addRange(checks, v.index[a], from.shape[a]);
    return std::all_of(checks.begin(), checks.end(),
                       [&](const Expr& e) { return facts.proves(e); });
  }

  /// The ranges that the outer view checks become guards, but where the inner view's own check is the same or nothing can fail.
  void addUncovered(std::vector<Expr>& guards, const View& inner, const TensorType& mid,
                    const TensorType& from) {
    const View& outer = view();
    for (int a = 0; a < mid.rank(); ++a) {
      const Expr d = var(coordinate(a));
      bool covered = reads(outer.index[a], mid.shape[a]);
      for (int b = 0; b < from.rank() && !covered; ++b)
        covered = inner.index[b] == d && sameDim(from.shape[b], mid.shape[a]);
      if (!covered) addRange(guards, outer.index[a], mid.shape[a]);
    }
  }

  /// Index operands are read at coordinates that are provably in range.
  bool loadsInside(const View& v, const Node& before) const {
    const bool inner = before.as<Gather>();
    const auto inside = [&](const Expr& e) {
      for (const Expr& x : loadsOf(e)) {
        const Load& l = *x.as<Load>();
        const int operand = std::stoi(l.buffer.substr(1));
        const TensorType& t = g_.type(inner ? before.operands[operand] : at_.operands[operand]);
        for (int a = 0; a < t.rank(); ++a)
          if (!reads(l.index[a], t.shape[a])) return false;
      }
      return true;
    };
    return std::all_of(v.index.begin(), v.index.end(), inside) && (!v.guard || inside(v.guard));
  }

  void adopt(const Node& before, View both) {
    const bool gathers = at_.as<Gather>() || before.as<Gather>();
    std::vector<Value> operands = before.operands;
    operands.insert(operands.end(), at_.operands.begin() + 1, at_.operands.end());
    at_.operands = std::move(operands);
    if (gathers)
      at_.kind = Gather{std::move(both)};
    else
      at_.kind = std::move(both);
  }

  /// A view that reads only one part of a concatenation reads that part.
  bool throughConcat() {
    const Node& before = g_.node(at_.operands[0]);
    const Concat* c = before.as<Concat>();
    View& v = view();
    if (!c || v.fill || at_.as<Gather>()) return false;
    Facts facts(known_.ranges, known_.below);
    Expr start = 0;
    for (Value part : before.operands) {
      const Expr end = facts.simplify(start + g_.type(part).shape[c->axis]);
      if (facts.proves(le(start, v.index[c->axis])) && facts.proves(lt(v.index[c->axis], end))) {
        View moved = v;
        moved.index[c->axis] = facts.simplify(v.index[c->axis] - start);
        if (!inside(moved, g_.type(part))) return false;
        at_.operands = {part};
        at_.kind = std::move(moved);
        return true;
      }
      start = end;
    }
    return false;
  }

  const Graph& g_;
  Node at_;
  Coordinates known_;
};

bool isIdentity(const View& v, const TensorType& from, const TensorType& to) {
  if (v.fill || !sameShape(from.shape, to.shape)) return false;
  for (int a = 0; a < from.rank(); ++a)
    if (!(v.index[a] == var(coordinate(a))) &&
        !(isConstant(from.shape[a], 1) && isConstant(v.index[a], 0)))
      return false;
  return true;
}

std::vector<Value> composed(Graph& out, Node n) {
  if (!viewOf(n)) return keep(out, std::move(n));
  n = Chain(out, std::move(n)).run();
  const View& v = *viewOf(n);
  const TensorType& from = out.type(n.operands[0]);
  if (isIdentity(v, from, n.results[0])) return {n.operands[0]};
  const Const* c = out.node(n.operands[0]).as<Const>();
  if (isConstant(v.guard, 0)) {
    n.kind = Const{nullptr, v.fill};
    n.operands.clear();
  } else if (c && c->splat && (!v.fill || v.fill == c->splat)) {
    n.kind = Const{nullptr, c->splat};
    n.operands.clear();
  }
  return keep(out, std::move(n));
}

/// Makes one view of a chain of views: indices substituted, guards conjoined where the fills agree or one guard is implied. Views
/// without effect vanish, guards and fills that nothing needs are dropped. Leaves: a chain whose fills differ and whose inner guard
/// isn't implied; two gathers in a row.
Graph composeViews(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return composed(out, withinNested(std::move(n), in, composeViews));
  });
}

const Pass pass{"compose-views", "make one view of a chain of views", composeViews};

}  // namespace
}  // namespace tektite
