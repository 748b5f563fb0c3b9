#include <algorithm>
#include <unordered_set>

#include "fusion/assembly.h"
#include "fusion/explicit.h"
#include "fusion/orders.h"
#include "fusion/plan_body.h"
#include "fusion/scan.h"
#include "fusion/stack.h"
#include "fusion/streaming.h"
#include "fusion/tiles.h"
#include "fusion/traffic.h"
#include "ir/bytes.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Stages that share no value of the group: each set becomes a tile list of its own, stacked in one kernel.
std::vector<StageSet> componentsOf(StageSet set) {
  const size_t n = set.stages.size();
  findFacts(set);
  std::vector<size_t> part(n);
  std::unordered_map<std::string_view, size_t> writer;
  for (size_t s = 0; s < n; s++) {
    part[s] = s;
    for (const std::string& name : set.facts[s]->buffers) {
      const auto it = writer.find(name);
      if (it == writer.end() || part[it->second] == part[s]) continue;
      const size_t from = part[it->second], to = part[s];
      for (size_t k = 0; k <= s; k++)
        if (part[k] == from) part[k] = to;
    }
    for (const Touch& t : set.facts[s]->shape.writes)
      writer[set.facts[s]->buffers[static_cast<size_t>(t.buffer)]] = s;
  }
  std::vector<StageSet> out;
  if (std::ranges::all_of(part, [&](size_t p) { return p == part[0]; })) {
    out.push_back(std::move(set));
    return out;
  }
  std::unordered_map<size_t, size_t> number;
  std::vector<std::unordered_set<std::string_view>> used;
  for (size_t s = 0; s < n; s++) {
    const auto [it, isNew] = number.emplace(part[s], out.size());
    if (isNew) out.emplace_back().scatters = set.scatters, used.emplace_back();
    out[it->second].stages.push_back(std::move(set.stages[s]));
    out[it->second].facts.push_back(set.facts[s]);
    used[it->second].insert(set.facts[s]->buffers.begin(), set.facts[s]->buffers.end());
  }
  for (size_t i = 0; i < out.size(); i++)
    for (const PlanBuffer& b : set.buffers)
      if (used[i].count(b.name)) out[i].buffers.push_back(b);
  return out;
}

/// A list of a draft, and what it moves with those before it.
struct Planned {
  DraftList list;
  Traffic traffic;
};

/// Carries reductions along their axis, if the algebra allows it. `means`: only where a mean is carried.
std::optional<Planned> planWalk(const DraftList& whole, const Target& target, Numerics mode,
                                bool means, StageMemory& memory, int64_t& steps,
                                const Traffic& before) {
  if (means && !mayCarryMeans(whole.set)) return {};
  std::optional<Streamed> s = streamed(whole.set, whole.shape, target.hasExplicitMemory());
  if (!s || !allowed(s->rules, mode) || (means && !s->means)) return {};
  Planned out{{std::move(s->set), {}, {}}, before};
  DraftList& list = out.list;
  list.shape = shapeOf(list.set);
  findInPlace(list.set);
  setRoot(list.shape, s->root, s->rootAxes);
  list.shape.walked = static_cast<int>(s->rootAxes.size()) - 1;
  list.tiled = chooseWalk(list.shape, list.set, worksOf(list.set, memory), target);
  steps += list.tiled.steps;
  out.traffic.add(list.shape, list.set, list.tiled, target);
  return out;
}

int64_t leafBytes(const StageSet& set) {
  int64_t out = 0;
  for (const PlanBuffer& b : set.buffers)
    if (b.kind == PlanBuffer::Input || b.kind == PlanBuffer::Constant) out += bytesOf(b.type);
  return out;
}

/// Holding no more than a near memory does comes before time.
bool isSooner(const Cost& a, const Cost& b, const Target& target) {
  const auto beyond = [&](const Cost& c) {
    return std::max<int64_t>(0, c.scratchBytes - scratchLevel(target).bytes);
  };
  return beyond(a) != beyond(b) ? beyond(a) < beyond(b) : a.seconds < b.seconds;
}

ListTime timeOf(const DraftList& list, const Target& target) {
  TileList tiles;
  for (size_t i = 0; i < list.tiled.tiling.order.size(); i++)
    tiles.tiles.push_back(tileAxis(list.shape, list.tiled, i));
  return listTime(tiles, list.tiled.cost.seconds - target.launchSeconds, target);
}

StageSet stagesOf(const Graph& body, const Defs& defs, const Target& target, const Orders& orders,
                  StageMemory& memory) {
  StageSet set = formStages(body, defs, memory);
  for (PlanBuffer& b : set.buffers)
    if (const auto it = orders.find(b.value); it != orders.end() && b.kind != PlanBuffer::Scratch)
      b.order = it->second;
  if (!orders.empty()) spreadOrders(set.buffers, set.stages);
  if (target.hasExplicitMemory()) {
    narrowScratch(set);
    foldPads(set);
  }
  if (!orders.empty() || target.hasExplicitMemory()) set.facts.clear();  // stages are others
  return set;
}

}  // namespace

std::shared_ptr<const Access> sharedAccess(const Graph& g, int node) {
  auto a = accessOf(g, node);
  if (!a) return nullptr;
  if (!a->values.empty()) a->slots = slotsOf(a->values[0]);
  return std::make_shared<const Access>(std::move(*a));
}
AccessOf accessesOf(const Graph& body) {
  AccessOf access;
  for (size_t n = 0; n < body.nodes.size(); n++)
    access.push_back(sharedAccess(body, static_cast<int>(n)));
  return access;
}

Drafted draftBody(const Graph& body, const AccessOf& access, const Target& target,
                  const FusionOptions& options, PlanMemory& memory, const Orders& orders) {
  if (std::ranges::any_of(body.nodes, [](const Node& n) { return n.as<Scan>(); })) {
    PlanResult r = planScan(body, target, options, memory);
    if (!r.plan) return {{}, std::move(r.refusal), r.steps};
    Draft draft;
    draft.cost = r.plan->cost;
    draft.times = std::move(r.lists);
    draft.made = std::move(r.plan);
    return {std::move(draft), {}, r.steps};
  }
  memory.stages.trim();
  auto defs = defsOf(body, access);
  if (const Refusal* r = std::get_if<Refusal>(&defs)) return {{}, *r, 0};
  StageSet set = stagesOf(body, std::get<Defs>(defs), target, orders, memory.stages);
  Draft draft;
  draft.canonical = options.numerics == Numerics::Strict;
  for (const PlanBuffer& b : set.buffers) draft.buffers.push_back(b.name);
  auto steps = static_cast<int64_t>(body.nodes.size());
  Traffic traffic;
  for (StageSet& one : componentsOf(std::move(set))) {
    findInPlace(one);
    DraftList list{std::move(one), {}, {}};
    list.shape = shapeOf(list.set);
    const bool reorders = options.numerics != Numerics::Strict;
    list.tiled = chooseTiles(list.shape, list.set, worksOf(list.set, memory.stages), target,
                             reorders && (!target.hasExplicitMemory() || target.cores > 1));
    steps += list.tiled.steps;
    const int64_t near =
        target.hasExplicitMemory() ? target.level(target.scratch)->bytes : target.levels[1].bytes;
    const bool holdsMuch = list.tiled.cost.scratchBytes > near / 2;
    std::optional<Planned> walking;
    if (holdsMuch || leafBytes(list.set) > near)  // what is read again comes from afar
      walking = planWalk(list, target, options.numerics, !holdsMuch && !target.hasExplicitMemory(),
                         memory.stages, steps, traffic);
    if (walking && isSooner(walking->list.tiled.cost, list.tiled.cost, target)) {
      list = std::move(walking->list);
      traffic = std::move(walking->traffic);
    } else {
      traffic.add(list.shape, list.set, list.tiled, target);
    }
    draft.times.push_back(timeOf(list, target));
    addCounts(draft.cost, list.tiled.cost);
    draft.cost.seconds = list.tiled.cost.seconds;
    draft.lists.push_back(std::move(list));
  }
  if (!target.hasExplicitMemory()) traffic.settle(draft.cost, target);
  if (draft.times.size() > 1)
    draft.cost.seconds = target.launchSeconds + secondsOfStack(draft.times, draft.cost, target);
  return {std::move(draft), {}, steps};
}

std::shared_ptr<const GroupPlan> Draft::plan(const Target& target) && {
  if (made) return std::move(made);
  auto plan = std::make_shared<GroupPlan>();
  plan->canonical = canonical;
  plan->cost = cost;
  std::unordered_set<std::string> known;
  for (DraftList& list : lists) {
    GroupPlan one = assembled(std::move(list.set), list.shape, list.tiled, target,
                              static_cast<int>(plan->lists.size()));
    for (PlanBuffer& b : one.buffers)
      if (known.insert(b.name).second) plan->buffers.push_back(std::move(b));
    for (TileList& l : one.lists) plan->lists.push_back(std::move(l));
  }
  std::unordered_map<std::string_view, size_t> place;
  for (size_t i = 0; i < buffers.size(); i++) place.emplace(buffers[i], i);
  std::ranges::stable_sort(
      plan->buffers, {}, [&](const PlanBuffer& b) {  // inputs, outputs in the body's order, scratch
        const auto at = place.find(b.name);
        return std::pair(b.kind == PlanBuffer::Output    ? 1
                         : b.kind == PlanBuffer::Scratch ? 2
                                                         : 0,
                         at == place.end() ? buffers.size() : at->second);
      });
  return plan;
}

PlanResult planBody(const Graph& body, const AccessOf& access, const Target& target,
                    const FusionOptions& options, PlanMemory& memory, const Orders& orders) {
  Drafted d = draftBody(body, access, target, options, memory, orders);
  if (!d.draft) return {nullptr, std::move(d.refusal), d.steps};
  std::vector<ListTime> times = d.draft->times;
  return {std::move(*d.draft).plan(target), {}, d.steps, std::move(times)};
}

PlanResult planGroup(const Graph& body, const Target& target, const FusionOptions& options,
                     const Orders& orders) {
  PlanMemory memory;
  return planBody(body, accessesOf(body), target, options, memory, orders);
}

}  // namespace tektite
