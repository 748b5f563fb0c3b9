#include "schedule/ahead.h"

#include <algorithm>
#include <set>

#include "fusion/stages.h"
#include "ir/bytes.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

constexpr double kWaitShows = 1.0 / 64;  // of the time

/// Does the place that the stage reads move with the tile? An index that reads has bounds, which a prefetch lacks: then it doesn't.
bool moves(const Stage& stage, const Load& l, const std::string& tile) {
  if (std::ranges::any_of(l.index, [](const Expr& e) { return !loadsOf(e).empty(); })) return false;
  return mentions(l.index, tile) || std::ranges::any_of(stage.axes, [&](const StageAxis& axis) {
           return mentions(l.index, axis.var) && mentions({axis.region.base}, tile);
         });
}

/// The stage's axes, those first along which the access moves most; nothing where it doesn't move by a fixed step along one of them.
std::vector<const StageAxis*> byStride(const PlanBuffer& b, const std::vector<Expr>& index,
                                       const Stage& stage) {
  std::vector<std::pair<int64_t, const StageAxis*>> axes;
  for (const StageAxis& a : stage.axes) {
    const int64_t step = strideAlong(b, index, a.var).value_or(0);
    if (step <= 0) return {};
    axes.emplace_back(step, &a);
  }
  std::ranges::stable_sort(axes, [](const auto& x, const auto& y) { return x.first > y.first; });
  std::vector<const StageAxis*> out;
  for (const auto& [step, axis] : axes) out.push_back(axis);
  return out;
}

/// The element that stage `by` would read if it walked over what `reader` reads there; null where it doesn't walk over just that.
Expr walkedBy(const GroupPlan& plan, const Stage& by, const Stage& reader, const Expr& element) {
  const Load& l = *element.as<Load>();
  const StageStore* store = !by.inner.empty()   ? &by.inner[0]
                            : !by.outer.empty() ? &by.outer[0]
                                                : nullptr;
  if (!store) return {};
  const auto from = byStride(plan.buffer(l.buffer), l.index, reader),
             to = byStride(plan.buffer(store->buffer), store->index, by);
  if (from.empty() || from.size() != to.size()) return {};
  std::unordered_map<std::string, Expr> names;
  for (size_t i = 0; i < from.size(); i++) {
    if (from[i]->extent != to[i]->extent || from[i]->region != to[i]->region) return {};
    names.emplace(from[i]->var, var(to[i]->var));
  }
  return substitute(element, names);
}

/// Loads that lie side by side along the lanes of a nest that has room for prefetches.
bool fits(const GroupPlan& plan, const Stage& stage, const StageSchedule& s, const Expr& element) {
  const Load& l = *element.as<Load>();
  return !stage.contraction && s.vectorAxis >= 0 && !s.apart && !s.across &&
         strideAlong(plan.buffer(l.buffer), l.index, stage.axes[s.vectorAxis].var) == 1;
}

/// Arithmetic of a point, of what takes most: stored values and sums share.
double arithmetic(const Stage& stage) {
  double most = 0;
  for (const StageStore& s : stage.inner) most = std::max(most, slotsOf(s.value));
  for (const Accumulator& a : stage.accumulators)
    for (const Expr& e : a.values) most = std::max(most, slotsOf(e));
  for (const StageStore& s : stage.outer)
    if (stage.accumulators.empty()) most = std::max(most, slotsOf(s.value));
  return most;
}

bool inTile(const TileList& list, const Stage& stage) {
  return stage.depth == static_cast<int>(list.tiles.size()) && !stage.after;
}

/// Which of the stages behind `reader` fetches what that will read in the next tile: the one with the most arithmetic, under which memory
/// has time, the last of equals. The element there is null where none can.
std::pair<size_t, Expr> bestPlace(const GroupPlan& plan, const TileList& list,
                                  const std::vector<StageSchedule>& schedule, size_t reader,
                                  const Expr& element) {
  std::pair<size_t, Expr> best = {0, {}};
  double most = -1;
  for (size_t k = reader + 1; k < list.stages.size(); k++) {
    const Stage& stage = list.stages[k];
    if (!inTile(list, stage) || arithmetic(stage) < most) continue;
    const Expr there = walkedBy(plan, stage, list.stages[reader], element);
    if (!there || !fits(plan, stage, schedule[k], there)) continue;
    most = arithmetic(stage);
    best = {k, there};
  }
  return best;
}

/// The constant of a product whose panels are worth fetching ahead: the first block of rows that meets a panel waits for it, the others
/// find it in the near cache; where rows are few, that wait shows. Empty where there is none.
std::string panelsAhead(const GroupPlan& plan, const Stage& stage, const StageSchedule& s,
                        const Target& target) {
  if (!stage.contraction || s.vectorAxis < 0) return {};
  const Level* l3 = target.level("l3");
  const Level& far = l3 ? *l3 : target.levels.back();
  const double wait = target.vectorBytes * target.hertz / far.bytesPerSecond;  // for a vector
  const StageAxis& lanes = stage.axes[static_cast<size_t>(s.vectorAxis)];
  for (const Expr& e : loadsOf(stage)) {
    const Load& l = *e.as<Load>();
    const PlanBuffer& b = plan.buffer(l.buffer);
    if (b.kind != PlanBuffer::Constant || !std::ranges::count(s.packed, b.name) ||
        b.name == s.dotRow || !mentions(l.index, lanes.var) ||
        bytesOf(b.type) <= target.level("l1")->bytes)
      continue;
    double rows = 1;
    for (const StageAxis& a : stage.axes)
      if (!a.reduce && !mentions(l.index, a.var)) rows *= static_cast<double>(sizeOf(a));
    if (wait * target.fmaPerCycle >= kWaitShows * rows) return b.name;
  }
  return {};
}

}  // namespace

void fetchAhead(const GroupPlan& plan, const Target& target, Schedule& schedule) {
  const Level *near = target.level("l2"), *nearest = target.level("l1");
  if (!near || target.kind != "cpu") return;
  for (size_t l = 0; l < plan.lists.size(); l++) {
    const TileList& list = plan.lists[l];
    for (size_t k = 0; k < list.stages.size() && nearest; k++) {
      StageSchedule& s = schedule.lists[l][k];
      s.fetched = panelsAhead(plan, list.stages[k], s, target);
    }
    if (list.tiles.empty()) continue;
    const std::string& tile = list.tiles.back().var;
    std::set<std::string> seen;
    for (size_t k = 0; k < list.stages.size(); k++) {
      const Stage& reader = list.stages[k];
      if (!inTile(list, reader)) continue;
      std::set<std::string> mine;
      for (const Expr& e : loadsOf(reader)) {
        const Load& element = *e.as<Load>();
        const PlanBuffer& b = plan.buffer(element.buffer);
        if (b.kind != PlanBuffer::Input || bytesOf(b.type) <= near->bytes || seen.count(b.name) ||
            touchedBytes(reader, element.index, bytes(b.type.dtype)) > near->bytes / 8 ||
            !moves(reader, element, tile))
          continue;
        mine.insert(b.name);
        const auto [by, there] = bestPlace(plan, list, schedule.lists[l], k, e);
        const bool crowded = nearest && crowdsSets(b, element.index, reader, nearest->bytes);
        if (there) schedule.lists[l][by].ahead.push_back({there, tile, crowded ? near->name : ""});
      }
      seen.insert(mine.begin(), mine.end());
    }
  }
}

}  // namespace tektite
