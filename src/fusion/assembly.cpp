#include "fusion/assembly.h"

#include <algorithm>
#include <set>

#include "fusion/explicit.h"
#include "ir/mentions.h"

namespace tektite {
namespace {

/// Writes a tiling and its regions into the stages and buffers: what lowering reads.
class Assembly {
 public:
  Assembly(StageSet set, const GroupShape& g, const Tiled& tiled, const Target& target, int number)
      : set_(std::move(set)), g_(g), tiled_(tiled), target_(target), number_(number) {}

  /// One tile list and its buffers.
  GroupPlan run() {
    TileList list;
    const Tiling& t = tiled_.tiling;
    for (size_t i = 0; i < t.order.size(); i++) {
      TileAxis axis = tileAxis(g_, tiled_, i);
      vars_[t.order[i]] = axis.warm ? var(axis.var) - Expr(axis.warm) : Expr(var(axis.var));
      list.tiles.push_back(std::move(axis));
    }
    list.sync = t.sync;
    findWriters();
    buffers();
    for (size_t s = 0; s < set_.stages.size(); s++) stage(s);
    list.stages = std::move(set_.stages);
    std::ranges::stable_sort(list.stages, {}, [&](const Stage& s) {
      return std::pair(s.after, list.sync >= 0 ? 0 : s.depth);
    });
    plan_.lists.push_back(std::move(list));
    plan_.cost = tiled_.cost;
    return std::move(plan_);
  }

 private:
  StageSet set_;
  const GroupShape& g_;
  const Tiled& tiled_;
  const Target& target_;
  const int number_;  // of the list in its kernel
  GroupPlan plan_;
  std::map<int, Expr> vars_;  // of tile axes with several tiles
  std::map<std::string, std::string>
      kept_;  // outputs whose halo is read: the scratch that holds it
  std::map<std::string, std::string> renamed_;  // scratch that lies in another's memory
  std::vector<std::vector<int>> writers_;       // [buffer]
  std::set<std::string> outputs_;

  Region region(const Span& s) const {
    Expr base(s.base);
    for (const auto& [j, v] : vars_)
      if (s.coefficients[j]) base = base + v * Expr(s.coefficients[j]);
    return {simplify(base, {}), s.size};
  }
  /// Is the axis of a stage in one tile exactly what the tile owns?
  bool isOwn(size_t s, size_t axis) const {
    const Span& span = tiled_.regions.stages[s][axis];
    const int j = g_.follows[s][axis];
    if (j < 0 || !vars_.count(j))
      return std::ranges::all_of(span.coefficients, [](int64_t c) { return c == 0; });
    return span.base == 0 && span.size == tiled_.tiling.tile[j] &&
           span.coefficients[j] == span.size;
  }
  /// The stages that store into a buffer: one, or one for each part.
  const std::vector<int>& writersOf(size_t buffer) const { return writers_[buffer]; }
  void findWriters() {
    writers_.resize(set_.buffers.size());
    for (size_t s = 0; s < g_.stages.size(); s++)
      for (const Touch& t : g_.stages[s].writes)
        if (std::vector<int>& of = writers_[static_cast<size_t>(t.buffer)];
            of.empty() || of.back() != static_cast<int>(s))
          of.push_back(static_cast<int>(s));
    for (const PlanBuffer& b : set_.buffers)
      if (b.kind == PlanBuffer::Output) outputs_.insert(b.name);
  }

  void buffers() {
    for (size_t b = 0; b < set_.buffers.size(); b++) {
      PlanBuffer buffer = set_.buffers[b];
      if (tiled_.sharing[b] >= 0) {
        renamed_[buffer.name] = set_.buffers[tiled_.sharing[b]].name;
        continue;
      }
      bool readBack = false, again = false;  // read by another stage, written by another stage
      if (buffer.kind == PlanBuffer::Output)
        for (size_t s = 0; s < g_.stages.size(); s++)
          for (const Touch& t : g_.stages[s].reads)
            readBack |= t.buffer == static_cast<int>(b) &&
                        !std::ranges::count(writersOf(b), static_cast<int>(s));
      again = buffer.kind == PlanBuffer::Output && writersOf(b).size() > 1 && set_.scatters;
      const auto place = [&](PlanBuffer& scratch, const std::string& space) {
        scratch.space = space;
        for (int w : writersOf(b))
          scratch.depth =
              w == writersOf(b)[0] ? tiled_.depth[w] : std::min(scratch.depth, tiled_.depth[w]);
        for (const Span& span : tiled_.regions.buffers[b]) scratch.region.push_back(region(span));
      };
      if (buffer.kind == PlanBuffer::Scratch) place(buffer, tiled_.space[b]);
      if (!tiled_.held.empty()) {
        hold(buffer, b);
        if (!tiled_.space[b].empty()) {
          plan_.buffers.push_back(std::move(buffer));
          continue;
        }
      }
      if (readBack) {
        bool own = true;
        for (int w : writersOf(b)) {
          const auto at = static_cast<size_t>(w);
          for (size_t a = 0; a < g_.stages[at].extents.size(); a++) own &= isOwn(at, a);
          for (bool inner :
               {true, false})  // what only one of the tiles stores, the others can't read
            for (const StageStore& store : inner ? set_.stages[at].inner : set_.stages[at].outer)
              own &= store.buffer != buffer.name || !guardOf(at, store, inner);
        }
        buffer.feedsMoreStages = own;
        if (!own) {
          PlanBuffer halo = buffer;
          halo.kind = PlanBuffer::Scratch;
          halo.name = buffer.name + "_here";
          place(halo, tiled_.held.empty() ? "l2" : target_.scratch);
          kept_[buffer.name] = halo.name;
          plan_.buffers.push_back(buffer);
          extra_.push_back(std::move(halo));
          continue;
        }
      }
      buffer.feedsMoreStages |= again;
      plan_.buffers.push_back(std::move(buffer));
    }
    std::ranges::stable_sort(plan_.buffers, {}, [](const PlanBuffer& b) {
      return b.kind == PlanBuffer::Output ? 1 : b.kind == PlanBuffer::Scratch ? 2 : 0;
    });
    plan_.buffers.insert(plan_.buffers.end(), extra_.begin(), extra_.end());
  }
  std::vector<PlanBuffer> extra_;
  /// Explicit memories: scratch where it lies, and for other buffers a copy that the tile works on.
  void hold(PlanBuffer& buffer, size_t b) {
    if (tiled_.space[b].empty()) return;
    PlanBuffer copy = buffer;
    PlanBuffer& held = buffer.kind == PlanBuffer::Scratch ? buffer : copy;
    held.kind = PlanBuffer::Scratch;
    held.space = tiled_.space[b];
    held.depth = tiled_.held[b];
    held.order.clear();
    held.region.clear();
    for (size_t d = 0; d < g_.buffers[b].size(); d++)
      held.region.push_back(region(clipped(tiled_.regions.buffers[b][d], g_.buffers[b][d])));
    held.ring = tiled_.regions.ring[b];
    if (held.ring >= 0)
      held.newest = region(
          newest(tiled_.regions.buffers[b][static_cast<size_t>(held.ring)], tiled_.tiling.sliding));
    if (&held == &buffer) return;
    held.copyOf = buffer.name;
    held.name =
        fmt::format("{}_{}{}", buffer.name, held.space, number_ ? std::to_string(number_) : "");
    copies_[buffer.name] = held.name;
    extra_.push_back(std::move(held));
  }
  std::map<std::string, std::string> copies_;

  void stage(size_t s) {
    Stage& stage = set_.stages[s];
    stage.depth = tiled_.depth[s];
    for (size_t a = 0; a < stage.axes.size(); a++) {
      stage.axes[a].region = region(tiled_.regions.stages[s][a]);
    }
    const bool brings = !copies_.empty() && moveOf(stage) &&  // straight from main memory
                        !g_.output[g_.stages[s].reads[0].buffer] &&
                        !tiled_.space[g_.stages[s].writes[0].buffer].empty();
    const auto renamed = [&](const std::string& name) {
      if (const auto it = copies_.find(name); it != copies_.end() && !brings) return it->second;
      if (const auto it = kept_.find(name); it != kept_.end()) return it->second;
      const auto it = renamed_.find(name);
      return it == renamed_.end() ? name : it->second;
    };
    if (!kept_.empty() || !renamed_.empty() || !copies_.empty())
      change(stage, [&](const Expr& root) {
        return rewrite(root, [&](const Expr& e) -> Expr {
          const Load* l = e.as<Load>();
          return l && renamed(l->buffer) != l->buffer ? load(renamed(l->buffer), e.type(), l->index)
                                                      : Expr();
        });
      });
    for (bool inner : {true, false}) {
      std::vector<StageStore>& stores = inner ? stage.inner : stage.outer;
      std::vector<StageStore> more;
      for (StageStore& store : stores) {
        if (const auto it = kept_.find(store.buffer); it != kept_.end()) {
          more.push_back(store);
          more.back().buffer = it->second;
        }
        if (const Expr own = outputs_.count(store.buffer) ? guardOf(s, store, inner) : Expr(); own)
          store.guard = store.guard ? logicalAnd(own, store.guard) : own;
        if (const auto it = copies_.find(store.buffer); it != copies_.end())
          store.buffer = it->second;
        if (const auto it = renamed_.find(store.buffer); it != renamed_.end())
          store.buffer = it->second;
      }
      stores.insert(stores.end(), more.begin(), more.end());
      // What is always stored comes first: what that computed serves what some tiles store.
      std::ranges::stable_partition(stores, [](const StageStore& store) { return !store.guard; });
    }
  }

  /// Of a tile axis among the loops.
  int placeOf(int j) const {
    const std::vector<int>& order = tiled_.tiling.order;
    return static_cast<int>(std::ranges::find(order, j) - order.begin());
  }
  /// Where the tile is not the owner of an element, another tile stores it.
  Expr guardOf(size_t s, const StageStore& store, bool inner) const {
    const Stage& stage = set_.stages[s];
    std::vector<bool> covered(g_.rootAxes.size(), false);
    Expr guard = boolean(true);
    for (size_t a = 0; a < stage.axes.size(); a++) {
      const int j = g_.follows[s][a];
      const bool indexes = mentions(store.index, stage.axes[a].var);
      if (!indexes || j < 0 || !vars_.count(j)) continue;
      covered[j] = true;
      if (isOwn(s, a) || placeOf(j) >= tiled_.depth[s]) continue;  // a loop inside: it owns all
      const Expr at = var(stage.axes[a].var), first = vars_.at(j) * Expr(tiled_.tiling.tile[j]);
      guard =
          logicalAnd(guard, logicalAnd(le(first, at), lt(at, first + Expr(tiled_.tiling.tile[j]))));
    }
    for (const auto& [j, v] : vars_) {
      if (covered[j]) continue;
      const int position = placeOf(j);
      const bool combined = tiled_.tiling.sync >= 0 && position == tiled_.tiling.grid - 1 &&
                            (static_cast<int>(s) > tiled_.tiling.sync ||
                             (static_cast<int>(s) == tiled_.tiling.sync && !inner));
      if (position < tiled_.depth[s] && !combined) guard = logicalAnd(guard, eq(v, Expr(0)));
    }
    return asInteger(guard) ? Expr() : guard;
  }
};

}  // namespace

TileAxis tileAxis(const GroupShape& g, const Tiled& tiled, size_t i) {
  const Tiling& t = tiled.tiling;
  const int j = t.order[i];
  return {"t" + std::to_string(i), g.stages[g.root].extents[g.rootAxes[j]], t.tile[j],
          static_cast<int>(i) < t.grid, j == t.sliding ? tiled.warm : 0};
}

GroupPlan assembled(StageSet set, const GroupShape& g, const Tiled& tiled, const Target& target,
                    int number) {
  return Assembly(std::move(set), g, tiled, target, number).run();
}

}  // namespace tektite
