#include <algorithm>
#include <set>
#include <unordered_set>

#include "fusion/orders.h"
#include "lower/block_products.h"
#include "lower/cut_chains.h"
#include "lower/keep_read.h"
#include "lower/lower.h"
#include "lower/read_through.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kMostRepeated = 16;  // times that an operand's element stands side by side

/// Applies `change` to every expression and every index of a stage.
void forEachExpr(Stage& stage, const std::function<void(Expr&)>& change) {
  const auto store = [&](StageStore& s) {
    for (Expr& e : s.index) change(e);
    change(s.value);
    if (s.guard) change(s.guard);
  };
  for (StageStore& s : stage.inner) store(s);
  for (StageStore& s : stage.outer) store(s);
  for (Accumulator& a : stage.accumulators)
    for (Expr& e : a.values) change(e);
}

// ---- axes of one element, and axes that are one in memory

void dropUnitAxes(Stage& stage, const Ranges& tiles) {
  std::unordered_map<std::string, Expr> fixed;
  std::vector<StageAxis> kept;
  for (const StageAxis& a : stage.axes) {
    const bool there = a.region.size == 1 &&
                       proves(logicalAnd(le(0, a.region.base), lt(a.region.base, a.extent)), tiles);
    if (there)
      fixed.emplace(a.var, a.region.base);  // else the region may be clipped away
    else
      kept.push_back(a);
  }
  if (fixed.empty()) return;
  stage.axes = std::move(kept);
  forEachExpr(stage, [&](Expr& e) { e = substitute(e, fixed); });
}

/// Axis variables that stand somewhere else than in an index: guards, coordinates, data-dependent indices.
std::set<std::string> varsOutsideIndices(const Stage& stage) {
  std::set<std::string> out;
  std::unordered_set<Hash>
      seen;  // a shared subexpression is walked once: nested selects share exponentially
  const std::function<void(const Expr&)> go = [&](const Expr& e) {
    if (e.as<Load>() || !seen.insert(e.hash()).second) return;
    if (const Var* v = e.as<Var>()) out.insert(v->name);
    if (const Cast* c = e.as<Cast>()) go(c->arg);
    if (const Apply* a = e.as<Apply>())
      for (const Expr& x : a->args) go(x);
  };
  const auto nested =
      [&](const std::vector<Expr>& index) {  // an index that reads data doesn't fold into an offset
        for (const Expr& e : index)
          for (const Expr& l : loadsOf(e))
            for (const Expr& i : l.as<Load>()->index)
              for (const std::string& v : freeVars(i)) out.insert(v);
      };
  const auto value = [&](const Expr& e) {
    go(e);
    for (const Expr& l : loadsOf(e)) nested(l.as<Load>()->index);
  };
  const auto store = [&](const StageStore& s) {
    value(s.value);
    if (s.guard) value(s.guard);
    nested(s.index);
  };
  for (const StageStore& s : stage.inner) store(s);
  for (const StageStore& s : stage.outer) store(s);
  for (const Accumulator& a : stage.accumulators)
    for (const Expr& e : a.values) value(e);
  return out;
}

bool wholeAxis(const StageAxis& a) {
  return isConstant(a.region.base, 0) && a.region.size >= a.extent;
}

/// How two axes become one.
enum class Joined : uint8_t { No, Yes, Repeating };

/// Is a step of `outer` always a walk over all of `inner`? Then the two are one axis of memory. Repeating: so it is where results are stored
/// side by side, while some operands lie side by side along `outer` and are the same along a short `inner` (an enlarged image): these divide,
/// which vectors can and bulk copies can't.
Joined oneInMemory(const Stage& stage, const std::vector<StageAccess>& accesses,
                   const StageAxis& outer, const StageAxis& inner) {
  if (outer.reduce != inner.reduce || !wholeAxis(inner)) return Joined::No;
  bool repeats = false, sideBySide = stage.accumulators.empty();
  for (const StageAccess& a : accesses) {
    const auto big = strideAlong(*a.buffer, a.index, outer.var),
               small = strideAlong(*a.buffer, a.index, inner.var);
    if (!big || !small) return Joined::No;
    if (*big == *small * inner.extent) {
      sideBySide &= !a.isStore || *small == 1;
      continue;
    }
    if (a.isStore || *small != 0 || *big != 1) return Joined::No;
    repeats = true;
  }
  if (!repeats) return Joined::Yes;
  const bool divides = inner.extent <= kMostRepeated && (inner.extent & (inner.extent - 1)) == 0;
  return sideBySide && divides ? Joined::Repeating : Joined::No;
}

/// Makes the buffer one-dimensional everywhere: an access is its offset.
Expr offsetOf(const PlanBuffer& b, const std::vector<Expr>& index) {
  const auto strides = memoryStrides(b);
  Expr offset = 0;
  for (size_t d = 0; d < index.size(); d++) {
    const Expr at = b.kind == PlanBuffer::Scratch ? index[d] - b.region[d].base : index[d];
    offset = offset + at * Expr(strides[d]);
  }
  return simplify(offset, {});
}

void flatten(GroupPlan& plan, const std::set<std::string>& names) {
  std::map<std::string, PlanBuffer> before;
  for (const PlanBuffer& b : plan.buffers)
    if (names.count(b.name)) before.emplace(b.name, b);
  const auto loads = [&](Expr& e) {
    e = rewrite(e, [&](const Expr& x) -> Expr {
      const Load* l = x.as<Load>();
      const auto it = l ? before.find(l->buffer) : before.end();
      return it == before.end() ? Expr()
                                : load(l->buffer, x.type(), {offsetOf(it->second, l->index)});
    });
  };
  for (TileList& list : plan.lists)
    for (Stage& stage : list.stages) {
      forEachExpr(stage, loads);
      for (auto* stores : {&stage.inner, &stage.outer})
        for (StageStore& s : *stores)
          if (const auto it = before.find(s.buffer); it != before.end())
            s.index = {offsetOf(it->second, s.index)};
    }
  for (PlanBuffer& b : plan.buffers) {
    if (!names.count(b.name)) continue;
    int64_t total = 1;
    for (int64_t n : memoryShape(b)) total *= n;
    b.type.shape = {total};
    b.order.clear();
    if (b.kind == PlanBuffer::Scratch) b.region = {{Expr(0), total}};
  }
}

struct Merge {
  size_t list, stage;
  std::string outer, inner;
  int64_t innerExtent;
};

/// Finds the axes to merge, and takes them out of the stages' lists; the accesses follow in `substituteMerged`.
std::vector<Merge> findMerges(GroupPlan& plan, const Target& target,
                              std::set<std::string>& buffers) {
  std::vector<Merge> out;
  for (size_t l = 0; l < plan.lists.size(); l++)
    for (size_t s = 0; s < plan.lists[l].stages.size(); s++) {
      Stage& stage = plan.lists[l].stages[s];
      const auto outside = varsOutsideIndices(stage);
      const auto accesses = accessesOf(plan, stage);
      std::set<std::string> repeating;  // their strides aren't those of the inner axis any more
      bool merged = false;
      for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < stage.axes.size() && !again; i++)
          for (size_t j = 0; j < stage.axes.size() && !again; j++) {
            StageAxis &outer = stage.axes[i], &inner = stage.axes[j];
            if (i == j || outside.count(outer.var) || outside.count(inner.var) ||
                repeating.count(outer.var) || repeating.count(inner.var))
              continue;
            if (outer.reduce && j != i + 1 && keepsOrder(plan, stage)) continue;
            // A chain a > b > c merges from the inside: the stride of the merged axis is that of the inner one.
            const Joined joined = oneInMemory(stage, accesses, outer, inner);
            if (joined == Joined::No || (joined == Joined::Repeating && target.kind != "cpu"))
              continue;
            if (joined == Joined::Repeating) repeating.insert(inner.var);
            out.push_back({l, s, outer.var, inner.var, inner.extent});
            StageAxis& kept =
                inner;  // the merged axis keeps the inner one's variable: its strides are right as they are
            kept.region = {outer.region.base * Expr(inner.extent),
                           outer.region.size * inner.extent};
            kept.extent *= outer.extent;
            stage.axes.erase(stage.axes.begin() + static_cast<int64_t>(i));
            merged = again = true;
          }
      }
      if (merged)
        for (const StageAccess& a : accesses) buffers.insert(a.buffer->name);
    }
  return out;
}

void mergeAxes(GroupPlan& plan, const Target& target) {
  std::set<std::string> buffers;
  const auto merges = findMerges(plan, target, buffers);
  if (merges.empty()) return;
  flatten(plan, buffers);
  // outer * (stride of inner * extent) + inner * stride, with outer now 0 and inner running on; an operand that repeats divides
  for (const Merge& m : merges) {
    const Expr whole = floorDiv(var(m.inner), Expr(m.innerExtent));
    forEachExpr(plan.lists[m.list].stages[m.stage], [&](Expr& e) {
      const Expr divided = rewrite(e, [&](const Expr& x) -> Expr {
        const Load* l = x.as<Load>();
        if (!l || !mentions(l->index, m.outer) || mentions(l->index, m.inner)) return {};
        std::vector<Expr> index;
        for (const Expr& i : l->index) index.push_back(substitute(i, {{m.outer, whole}}));
        return load(l->buffer, x.type(), std::move(index));
      });
      e = simplify(substitute(divided, {{m.outer, Expr(0)}}), {});
    });
  }
}

// ---- tiles of a near cache

/// Walks a tile by pieces whose scratch fits half of L1, all stages on one piece before the next, where every region is exactly the tile's.
/// Contractions are left alone: their register tiles want the rows.
void walkByPieces(GroupPlan& plan, TileList& list, const Target& target) {
  const Level* l1 = target.level("l1");
  if (!l1 || list.tiles.empty() || list.sync >= 0 || list.stages.size() < 2) return;
  const TileAxis tile = list.tiles.back();
  const int depth = static_cast<int>(list.tiles.size());
  const Expr start = simplify(var(tile.var) * Expr(tile.tile), {});
  const auto tiled = [&](const Region& r) { return mentions({r.base}, tile.var); };
  const auto exact = [&](const Region& r) {
    return !tiled(r) || (r.size == tile.tile && simplify(r.base, {}) == start);
  };
  int64_t bytesHeld = 0;
  for (const Stage& s : list.stages) {
    if (s.contraction || s.depth != depth) return;
    for (const StageAxis& a : s.axes)
      if (!exact(a.region)) return;
  }
  for (const PlanBuffer& b : plan.buffers) {
    if (b.kind != PlanBuffer::Scratch) continue;
    if (b.depth != depth || !std::ranges::all_of(b.region, exact)) return;
    int64_t n = bytes(b.type.dtype);
    for (const Region& r : b.region) n *= r.size;
    bytesHeld += n;
  }
  int64_t piece = tile.tile;
  while (piece % 2 == 0 && bytesHeld * piece / tile.tile > l1->bytes / 2) piece /= 2;
  if (piece == tile.tile) return;
  const auto cutToPiece = [&](Region& r) {
    if (tiled(r)) r = {r.base + var("piece") * Expr(piece), piece};
  };
  list.tiles.push_back({"piece", tile.tile, piece, false});
  for (Stage& s : list.stages) {
    s.depth++;
    for (StageAxis& a : s.axes) cutToPiece(a.region);
  }
  for (PlanBuffer& b : plan.buffers) {
    if (b.kind != PlanBuffer::Scratch) continue;
    b.depth++;
    for (Region& r : b.region) cutToPiece(r);
  }
}

// ---- the grid

/// Keeps in the grid only the tile loops that give every core enough to do: what doesn't depend on the inner ones is then made once for all of
/// them (panels of an operand once a head, not once a row block).
void narrowGrid(TileList& list, const Target& target) {
  if (list.sync >= 0 || target.kind == "gpu") return;
  int64_t tiles = 1;
  for (size_t i = 0; i + 1 < list.tiles.size() && list.tiles[i + 1].grid; i++) {
    tiles *= list.tiles[i].count();
    const int64_t rounds = (tiles + target.cores - 1) / target.cores;
    if (rounds < 4 || rounds * target.cores * 10 > tiles * 11) continue;
    for (size_t k = i + 1; k < list.tiles.size(); k++) list.tiles[k].grid = false;
    return;
  }
}

}  // namespace

GroupPlan prepare(const GroupPlan& in, const Target& target) {
  GroupPlan plan = in;
  for (TileList& list : plan.lists) keepRead(plan, list, target);
  readThrough(plan, target);
  std::vector<Stage> stages;
  for (const TileList& list : plan.lists)
    stages.insert(stages.end(), list.stages.begin(), list.stages.end());
  spreadOrders(plan.buffers, stages);
  for (TileList& list : plan.lists) {
    if (list.sync >= 0) splitPartials(plan, list, list.sync, false);
    if (plan.lists.size() == 1) walkByPieces(plan, list, target);
    blockProducts(plan, list, target);
    Ranges tiles;
    for (const TileAxis& t : list.tiles) tiles[t.var] = {0, std::max<int64_t>(t.count() - 1, 0)};
    for (Stage& stage : list.stages) dropUnitAxes(stage, tiles);
    narrowGrid(list, target);
  }
  mergeAxes(plan, target);
  return cutChains(std::move(plan), target);
}

}  // namespace tektite
