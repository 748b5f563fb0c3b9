#include "schedule/choose.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "fusion/stages.h"
#include "ir/bytes.h"
#include "schedule/ahead.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kApartElements =
    4096;  // 64 MB sum of squares on one Zen 4 core: 16.4 GB/s side by side, 21.5 apart

}  // namespace

int elementBytes(const GroupPlan& plan, const Stage& stage) {
  int widest = 1;
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores)
      widest = std::max(widest, bytes(plan.buffer(s.buffer).type.dtype));
  for (const Accumulator& a : stage.accumulators)
    for (DType t : a.combine.types) widest = std::max(widest, bytes(t));
  const auto look = [&](const Expr& e) {
    visit(e, [&](const Expr& x) {
      if (isFloat(x.type())) widest = std::max(widest, bytes(x.type()));
    });
  };
  for (const StageStore& s : stage.inner) look(s.value);
  for (const StageStore& s : stage.outer) look(s.value);
  for (const Accumulator& a : stage.accumulators)
    for (const Expr& e : a.values) look(e);
  return widest;
}

int64_t smallestExtent(const StageAxis& axis, const TileList& list) {
  for (const TileAxis& t : list.tiles) {
    const auto vars = freeVars(axis.region.base);
    if (std::find(vars.begin(), vars.end(), t.var) == vars.end()) continue;
    const int64_t rest =
        t.extent - (t.count() - 1) * t.tile;  // of the last tile, in elements of the tile's axis
    return std::max<int64_t>(1, axis.region.size * rest / std::max<int64_t>(t.tile, 1));
  }
  return std::min(axis.region.size, axis.extent);
}

double usedShare(int64_t n, int64_t step) {
  return static_cast<double>(n) / static_cast<double>((n + step - 1) / step * step);
}

bool idempotent(const Stage& stage) {
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores)
      if (!s.combine.empty()) return false;
  return true;
}

bool updates(const Stage& stage) {
  const std::vector<Expr> loads = loadsOf(stage);
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores)
      for (const Expr& e : loads)
        if (e.as<Load>()->buffer == s.buffer) return true;
  return false;
}

std::vector<int> loopOrder(const GroupPlan& plan, const Stage& stage,
                           const std::vector<StageAccess>& accesses, int vectorAxis) {
  const bool inOrder = keepsOrder(plan, stage);
  std::vector<int> order(stage.axes.size());
  std::vector<double> stride(stage.axes.size(), 0);
  for (size_t i = 0; i < order.size(); i++) {
    order[i] = static_cast<int>(i);
    for (const StageAccess& a : accesses) {
      const auto step = strideAlong(*a.buffer, a.index, stage.axes[i].var);
      const double weight = a.isStore != stage.axes[i].reduce ? 1 : 0.001;
      stride[i] = std::max(stride[i], weight * static_cast<double>(std::abs(step.value_or(1))));
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if (stage.axes[a].reduce != stage.axes[b].reduce) return !stage.axes[a].reduce;
    if (inOrder && stage.axes[a].reduce) return a < b;
    if (a == vectorAxis || b == vectorAxis) return b == vectorAxis && a != vectorAxis;
    return stride[a] > stride[b];
  });
  return order;
}

// ---- maps and reductions

namespace {

constexpr double kPair = 2.5;  // two loads and a shuffle, of a contiguous load

/// What an access costs a vector of lanes along the variable: nothing much where it is the same, a load, two and a shuffle, or a gather.
double costOfVector(const StageAccess& x, const std::string& var, int lanes) {
  const auto step = strideAlong(*x.buffer, x.index, var);
  const double apart = 0.75 * lanes;
  if (step == 0 || step == 1) return step == 0 ? 0.25 : 1;
  const bool pair = !x.isStore && nearAlong(*x.buffer, x.index, var, lanes);
  return pair ? std::min(kPair, apart) : apart;
}

}  // namespace

double costAlong(const Stage& stage, const std::vector<StageAccess>& accesses, int axis,
                 int lanes) {
  const StageAxis& a = stage.axes[axis];
  const int64_t n = std::min(a.region.size, a.extent);
  double cost = 0;
  for (const StageAccess& x : accesses) {
    cost += costOfVector(x, a.var, lanes) * (x.reduced || stage.accumulators.empty() ? 1 : 0.2);
  }
  cost = (cost + 1) / lanes / usedShare(n, lanes);
  if (a.reduce) cost += 3.0 * std::log2(lanes) / static_cast<double>(std::max<int64_t>(n, 1));
  return cost;
}

namespace {

/// Vector work of one point where blocks of lanes x lanes are transposed in registers between loads along one axis and stores along another;
/// negative: the stores don't lie along that axis, or there are too few elements for a block.
double costTurned(const TileList& list, const Stage& stage,
                  const std::vector<StageAccess>& accesses, int from, int to, int lanes) {
  if (lanes < 4 || stage.axes[from].reduce || stage.axes[to].reduce ||
      smallestExtent(stage.axes[from], list) < lanes ||
      smallestExtent(stage.axes[to], list) < lanes)
    return -1;
  double cost = 1;
  for (const StageAccess& x : accesses) {
    const std::string& along = stage.axes[x.isStore ? to : from].var;
    if (x.isStore && strideAlong(*x.buffer, x.index, along) != 1) return -1;
    cost += x.isStore ? 1 + std::log2(lanes) : costOfVector(x, along, lanes);
  }
  return cost / lanes / usedShare(smallestExtent(stage.axes[from], list), lanes) /
         usedShare(smallestExtent(stage.axes[to], list), lanes);
}

}  // namespace

StageSchedule chooseSimple(const GroupPlan& plan, const TileList& list, const Stage& stage,
                           const Target& target) {
  StageSchedule s;
  const auto accesses = accessesOf(plan, stage);
  const int widest = target.lanes(elementBytes(plan, stage));
  double best = 1e30;
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++) {
    const int64_t n = std::min(stage.axes[i].region.size, stage.axes[i].extent);
    if (n < 2 || (stage.axes[i].reduce && keepsOrder(plan, stage))) continue;
    int lanes = widest;
    while (lanes / 2 >= n && lanes > 2) lanes /= 2;
    const double cost = costAlong(stage, accesses, i, lanes);
    if (cost < best) {
      best = cost;
      s.vectorAxis = i;
      s.lanes = lanes;
    }
  }
  if (!idempotent(stage)) s = {};  // scatter: in order, one element at a time
  if (idempotent(stage) && !updates(stage) && stage.accumulators.empty()) {
    const int lanes = std::min(widest, kTurnedLanes);
    for (int from = 0; from < static_cast<int>(stage.axes.size()); from++)
      for (int to = 0; to < static_cast<int>(stage.axes.size()); to++) {
        const double cost = from == to ? -1 : costTurned(list, stage, accesses, from, to, lanes);
        if (cost < 0 || cost >= best) continue;
        best = cost;
        s.vectorAxis = from;
        s.unrollAxis = to;
        s.lanes = s.unroll = lanes;
        s.across = true;
      }
  }
  if (s.vectorAxis >= 0 && !s.across) {
    const StageAxis& a = stage.axes[s.vectorAxis];
    const int64_t vectors = std::min(a.region.size, a.extent) / s.lanes;
    int states = 0;
    for (const Accumulator& acc : stage.accumulators)
      states += static_cast<int>(acc.combine.arity());
    const int most = states == 0 ? 2 : std::max(1, target.vectorRegisters / 4 / states);
    s.vectors = 1;  // a power of two: lanes are joined by halving
    while (2 * s.vectors <= std::min<int64_t>(vectors, std::min(most, 4))) s.vectors *= 2;
  }
  if (s.vectorAxis >= 0 && stage.axes[s.vectorAxis].reduce) {
    const StageAxis& a = stage.axes[s.vectorAxis];
    s.apart = s.vectors > 1 && smallestExtent(a, list) == a.region.size &&
              a.region.size % s.panel() == 0 && a.region.size >= kApartElements;
  }
  s.order = loopOrder(plan, stage, accesses, s.vectorAxis);
  return s;
}

namespace {

/// Results that would push more useful data out of the last cache than stays for the next reader go past it.
bool streams(const GroupPlan& plan, const Stage& stage, const Target& target) {
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores) {
      const PlanBuffer& b = plan.buffer(s.buffer);
      if (b.kind == PlanBuffer::Output && !b.feedsMoreStages &&
          bytesOf(b.type) >= target.last().bytes / 2)
        return true;
    }
  return false;
}

}  // namespace

StageSchedule chooseStage(const GroupPlan& plan, const TileList& list, const Stage& stage,
                          const Target& target) {
  return stage.contraction && stage.accumulators.size() == 1
             ? chooseContraction(plan, list, stage, target)
             : chooseSimple(plan, list, stage, target);
}

Schedule chooseSchedule(const GroupPlan& plan, const Target& target, int threads,
                        Numerics numerics) {
  if (target.kind == "gpu") {
    Schedule teams = naiveSchedule(plan);
    teams.team = chooseTeam(plan, target, threads, numerics);
    return teams;
  }
  Schedule out;
  for (const TileList& list : plan.lists) {
    out.lists.emplace_back();
    for (const Stage& stage : list.stages) {
      out.lists.back().push_back(chooseStage(plan, list, stage, target));
      out.lists.back().back().stream = target.kind == "cpu" && streams(plan, stage, target);
    }
  }
  fetchAhead(plan, target, out);
  return out;
}

Schedule naiveSchedule(const GroupPlan& plan) {
  Schedule out;
  for (const TileList& list : plan.lists) {
    out.lists.emplace_back();
    for (const Stage& stage : list.stages) {
      StageSchedule s;
      for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < stage.axes.size(); i++)
          if (stage.axes[i].reduce == (pass == 1)) s.order.push_back(static_cast<int>(i));
      out.lists.back().push_back(std::move(s));
    }
  }
  return out;
}

}  // namespace tektite
