#include <algorithm>
#include <set>

#include "fusion/explicit.h"
#include "fusion/orders.h"
#include "fusion/plan_body.h"
#include "fusion/scan.h"
#include "fusion/streaming.h"
#include "fusion/tiles.h"
#include "fusion/traffic.h"
#include "ir/bytes.h"
#include "ir/mentions.h"
#include "support/check.h"

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
      const int j = t.order[i];
      const std::string name = "t" + std::to_string(i);
      const int64_t warm = j == t.sliding ? tiled_.warm : 0;
      vars_[j] = warm ? var(name) - Expr(warm) : Expr(var(name));
      list.tiles.push_back({name, g_.stages[g_.root].extents[g_.rootAxes[j]], t.tile[j],
                            static_cast<int>(i) < t.grid, warm});
    }
    list.sync = t.sync;
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
  std::vector<int> writersOf(size_t buffer) const {
    std::vector<int> out;
    for (size_t s = 0; s < g_.stages.size(); s++)
      if (std::ranges::any_of(g_.stages[s].writes,
                              [&](const Touch& t) { return t.buffer == static_cast<int>(buffer); }))
        out.push_back(static_cast<int>(s));
    return out;
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
    for (const Span& span : tiled_.regions.buffers[b]) held.region.push_back(region(span));
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
    const bool brings = !copies_.empty() && moveOf(stage);  // straight from main memory
    const auto renamed = [&](const std::string& name) {
      if (const auto it = copies_.find(name); it != copies_.end() && !brings) return it->second;
      if (const auto it = kept_.find(name); it != kept_.end()) return it->second;
      const auto it = renamed_.find(name);
      return it == renamed_.end() ? name : it->second;
    };
    if (!kept_.empty() || !renamed_.empty() || !copies_.empty())
      stage = mapped(stage, [&](const Expr& root) {
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
        const bool output = std::ranges::any_of(set_.buffers, [&](const PlanBuffer& b) {
          return b.name == store.buffer && b.kind == PlanBuffer::Output;
        });
        if (const Expr own = output ? guardOf(s, store, inner) : Expr(); own)
          store.guard = store.guard ? logicalAnd(own, store.guard) : own;
        if (const auto it = copies_.find(store.buffer); it != copies_.end())
          store.buffer = it->second;
        if (const auto it = renamed_.find(store.buffer); it != renamed_.end())
          store.buffer = it->second;
      }
      stores.insert(stores.end(), more.begin(), more.end());
    }
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
      if (isOwn(s, a)) continue;
      const Expr at = var(stage.axes[a].var), first = vars_.at(j) * Expr(tiled_.tiling.tile[j]);
      guard =
          logicalAnd(guard, logicalAnd(le(first, at), lt(at, first + Expr(tiled_.tiling.tile[j]))));
    }
    for (const auto& [j, v] : vars_) {
      if (covered[j]) continue;
      const auto position = std::ranges::find(tiled_.tiling.order, j) - tiled_.tiling.order.begin();
      const bool combined = tiled_.tiling.sync >= 0 && position == tiled_.tiling.grid - 1 &&
                            (static_cast<int>(s) > tiled_.tiling.sync ||
                             (static_cast<int>(s) == tiled_.tiling.sync && !inner));
      if (position < tiled_.depth[s] && !combined) guard = logicalAnd(guard, eq(v, Expr(0)));
    }
    return asInteger(guard) ? Expr() : guard;
  }
};

/// Stages that share no value of the group: each set becomes a tile list of its own, stacked in one kernel.
std::vector<StageSet> componentsOf(const StageSet& set) {
  std::vector<int> part(set.stages.size());
  std::map<std::string, size_t> writer;
  for (size_t s = 0; s < set.stages.size(); s++) {
    part[s] = static_cast<int>(s);
    for (const std::string& name : buffersOf(set.stages[s])) {
      const auto it = writer.find(name);
      if (it == writer.end() || part[it->second] == part[s]) continue;
      const int from = part[it->second], to = part[s];
      for (size_t k = 0; k <= s; k++)
        if (part[k] == from) part[k] = to;
    }
    for (const auto* stores : {&set.stages[s].inner, &set.stages[s].outer})
      for (const StageStore& store : *stores) writer[store.buffer] = s;
  }
  std::vector<StageSet> out;
  std::map<int, size_t> number;
  for (size_t s = 0; s < set.stages.size(); s++) {
    const auto [it, isNew] = number.emplace(part[s], out.size());
    if (isNew) out.emplace_back().scatters = set.scatters;
    out[it->second].stages.push_back(set.stages[s]);
  }
  for (StageSet& one : out) {
    const std::set<std::string> used = buffersOf(one.stages);
    for (const PlanBuffer& b : set.buffers)
      if (used.count(b.name)) one.buffers.push_back(b);
  }
  return out;
}

/// The plan that carries reductions along their axis, if the algebra allows it.
/// `means`: only where a mean is carried.
std::optional<GroupPlan> planWalk(const StageSet& set, const Target& target, int number, bool means,
                                  int64_t& steps, Traffic& traffic) {
  std::optional<Streamed> s = streamed(set, target.hasExplicitMemory());
  if (!s || (means && !s->means)) return {};
  findInPlace(s->set);
  std::vector<StageWork> work;
  for (const Stage& stage : s->set.stages) work.push_back(workOf(stage, s->set));
  GroupShape shape = shapeOf(s->set);
  setRoot(shape, s->root, s->rootAxes);
  shape.walked = static_cast<int>(s->rootAxes.size()) - 1;
  const Tiled tiled = chooseWalk(shape, s->set, work, target);
  steps += tiled.steps;
  traffic.add(shape, s->set, tiled, target);
  return Assembly(std::move(s->set), shape, tiled, target, number).run();
}

/// Holding no more than a near memory does comes before time.
bool isSooner(const Cost& a, const Cost& b, const Target& target) {
  const auto beyond = [&](const Cost& c) {
    return std::max<int64_t>(0, c.scratchBytes - scratchLevel(target).bytes);
  };
  return beyond(a) != beyond(b) ? beyond(a) < beyond(b) : a.seconds < b.seconds;
}

int64_t leafBytes(const StageSet& set) {
  int64_t out = 0;
  for (const PlanBuffer& b : set.buffers)
    if (b.kind == PlanBuffer::Input || b.kind == PlanBuffer::Constant) out += bytesOf(b.type);
  return out;
}

/// Joins the plan of one list to those before it.
void stack(GroupPlan& all, GroupPlan one) {
  for (PlanBuffer& b : one.buffers)
    if (std::ranges::find(all.buffers, b.name, &PlanBuffer::name) == all.buffers.end())
      all.buffers.push_back(std::move(b));
  for (TileList& list : one.lists) all.lists.push_back(std::move(list));
  addCounts(all.cost, one.cost);
  all.cost.seconds = one.cost.seconds;
}

}  // namespace

AccessOf accessesOf(const Graph& body) {
  AccessOf access(body.nodes.size());
  for (size_t n = 0; n < body.nodes.size(); n++)
    if (auto a = accessOf(body, static_cast<int>(n)))
      access[n] = std::make_shared<const Access>(std::move(*a));
  return access;
}

PlanResult planBody(const Graph& body, const AccessOf& access, const Target& target,
                    const FusionOptions& options, PlanMemory& memory, const Orders& orders) {
  if (std::ranges::any_of(body.nodes, [](const Node& n) { return n.as<Scan>(); }))
    return planScan(body, target, options, memory);
  auto defs = defsOf(body, access);
  if (const Refusal* r = std::get_if<Refusal>(&defs)) return {nullptr, *r};
  StageSet set = formStages(body, std::get<Defs>(defs));
  for (PlanBuffer& b : set.buffers)
    if (const auto it = orders.find(b.value); it != orders.end() && b.kind != PlanBuffer::Scratch)
      b.order = it->second;
  if (!orders.empty()) spreadOrders(set.buffers, set.stages);
  auto plan = std::make_shared<GroupPlan>();
  if (target.hasExplicitMemory()) {
    narrowScratch(set);
    foldPads(set);
  }
  plan->canonical = options.numerics == Numerics::Strict;
  auto steps = static_cast<int64_t>(body.nodes.size());
  Traffic traffic;
  std::vector<ListTime> lists;
  for (StageSet& one : componentsOf(set)) {
    findInPlace(one);
    std::vector<StageWork> work;
    for (const Stage& s : one.stages) work.push_back(workOf(s, one));
    GroupShape shape = shapeOf(one);
    const bool reorders = options.numerics != Numerics::Strict;
    const Tiled tiled =
        chooseTiles(shape, one, work, target, reorders && !target.hasExplicitMemory());
    steps += tiled.steps;
    const int number = static_cast<int>(plan->lists.size());
    GroupPlan best = Assembly(one, shape, tiled, target, number).run();
    const int64_t near =
        target.hasExplicitMemory() ? target.level(target.scratch)->bytes : target.levels[1].bytes;
    Traffic walked = traffic;
    traffic.add(shape, one, tiled, target);
    const bool holdsMuch = best.cost.scratchBytes > near / 2;
    if (reorders && (holdsMuch || leafBytes(one) > near))  // what is read again comes from afar
      if (auto walking = planWalk(one, target, number, !holdsMuch, steps, walked);
          walking && isSooner(walking->cost, best.cost, target)) {
        best = std::move(*walking);
        traffic = std::move(walked);
      }
    lists.push_back(listTime(best.lists[0], best.cost.seconds - target.launchSeconds, target));
    stack(*plan, std::move(best));
  }
  if (!target.hasExplicitMemory()) traffic.settle(plan->cost, target);
  if (lists.size() > 1)
    plan->cost.seconds = target.launchSeconds + secondsOfStack(lists, plan->cost, target);
  std::ranges::stable_sort(
      plan->buffers, {}, [&](const PlanBuffer& b) {  // inputs, outputs in the body's order, scratch
        const auto at =
            std::ranges::find(set.buffers, b.name, &PlanBuffer::name) - set.buffers.begin();
        return std::pair(b.kind == PlanBuffer::Output    ? 1
                         : b.kind == PlanBuffer::Scratch ? 2
                                                         : 0,
                         at);
      });
  return {std::move(plan), {}, steps, std::move(lists)};
}

PlanResult planGroup(const Graph& body, const Target& target, const FusionOptions& options,
                     const Orders& orders) {
  PlanMemory memory;
  return planBody(body, accessesOf(body), target, options, memory, orders);
}

}  // namespace tektite
