#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "fusion/stages.h"
#include "ir/bytes.h"
#include "schedule/choose.h"
#include "schedule/dot.h"
#include "schedule/layout.h"
#include "schedule/panels.h"
#include "schedule/register_tile.h"
#include "schedule/schedule.h"
#include "schedule/slide.h"
#include "schedule/tile_loads.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kNextRows =
    2;  // steps of so many rows of an operand are still neighbours in memory
constexpr int64_t kRound =
    64;  // multiplications of vectors in a round of the loop (Golden Cove, 1024 steps: 8x32 79 -> 87 % of the peak, 6x64 81 -> 89)
constexpr int64_t kMostSteps =
    4;  // where beside the sums there is room for a step's vectors, the broadcast and some of the next step's
constexpr double kPageSlots = 16;     // of a line from beyond L2 that no prefetcher expects
constexpr double kNearPageSlots = 3;  // of one in L2
constexpr int64_t kFarStep = 1024;    // bytes

/// How many multiplications each element of an operand feeds.
double multiplicationsOf(const Stage& stage, const std::vector<Expr>& index) {
  double n = 1;
  for (const StageAxis& a : stage.axes)
    if (!a.reduce && !mentions(index, a.var)) n *= static_cast<double>(sizeOf(a));
  return n;
}

/// How often panels of this operand are used again by serial tile loops that it doesn't depend on.
double packReuse(const TileList& list, const StageAxis& axis, const std::vector<Expr>& index) {
  double reuse = 1;
  for (const TileAxis& t : list.tiles)
    if (!t.grid && !mentions({axis.region.base}, t.var) && !mentions(index, t.var))
      reuse *= static_cast<double>(t.count());
  return reuse;
}

/// What the operands cost for a multiplication in lanes along an axis, and which go through panels.
struct Operands {
  double cost = 0;
  std::vector<std::string> packed;
  bool direct = false;  ///< a load along the axis that isn't packed
};

Operands operandsAlong(const TileList& list, const Stage& stage,
                       const std::vector<StageAccess>& accesses, const StageAxis& axis, int lanes,
                       const Target& target) {
  Operands out;
  for (const StageAccess& a : accesses) {
    const auto step = strideAlong(*a.buffer, a.index, axis.var);
    if (!a.reduced || a.isStore || step == 0) continue;
    if (a.buffer->kind == PlanBuffer::Constant) {
      out.packed.push_back(a.buffer->name);
      continue;
    }
    const bool fits =
        touchedBytes(stage, a.index, bytes(a.buffer->type.dtype)) <= roomForPanels(target);
    const double uses = multiplicationsOf(stage, a.index) * packReuse(list, axis, a.index);
    if (step == 1 && fits && wantsPanels(*a.buffer, a.index, stage, axis, target)) {
      out.packed.push_back(a.buffer->name);
      out.cost += 2 / uses;
    } else if (step == 1) {
      out.direct = true;
    } else if (!fits) {
      out.direct = true;
      out.cost += 0.75 * lanes;  // too much to hold: gathered at each multiplication
    } else {  // packed by the kernel itself, in blocks that are transposed in registers where elements lie side by side along another axis
      out.packed.push_back(a.buffer->name);
      const bool blocks = std::ranges::any_of(stage.axes, [&](const StageAxis& other) {
        return strideAlong(*a.buffer, a.index, other.var) == 1;
      });
      out.cost += (blocks ? 0.5 : 1.5) * lanes / uses;
    }
  }
  return out;
}

/// The same where dot instructions multiply: what differs along the lanes always goes through panels. Nothing where they would be too large.
std::optional<Operands> operandsOf(const DotChoice& dot, const GroupPlan& plan,
                                   const TileList& list, const Stage& stage,
                                   const std::vector<StageAccess>& accesses, const StageAxis& axis,
                                   int lanes, const Target& target) {
  Operands out;
  out.packed = {dot.panel};
  if (!dot.direct) out.packed.push_back(dot.row);
  for (const StageAccess& a : accesses) {
    const std::string& name = a.buffer->name;
    if (!a.reduced || a.isStore || std::ranges::find(out.packed, name) == out.packed.end() ||
        plan.buffer(name).kind == PlanBuffer::Constant)
      continue;
    if (touchedBytes(stage, a.index, bytes(a.buffer->type.dtype)) > roomForPanels(target))
      return std::nullopt;
    out.cost += (name == dot.row ? 0.5 : 1.5) * lanes /
                (multiplicationsOf(stage, a.index) * packReuse(list, axis, a.index));
  }
  return out;
}

/// What follows the reduction, for one multiplication, with lanes of the results along an axis.
double resultCost(const std::vector<StageAccess>& accesses, const StageAxis& lanesAlong,
                  double perStore, int lanes, double depth) {
  double cost = 0;
  for (const StageAccess& a : accesses) {
    if (a.reduced) continue;
    const auto step = strideAlong(*a.buffer, a.index, lanesAlong.var);
    cost += step == 1 ? 0.5 + (a.isStore ? perStore : 0) : step == 0 ? 0.1 : 1.5 * lanes;
  }
  return cost / depth;
}

/// Bytes between the rows of what is read at every multiplication, or of what is stored, as far as they matter to the sets of L1.
int64_t rowsApart(const std::vector<StageAccess>& accesses, const StageAxis& rows, bool stored) {
  int64_t most = 0;
  for (const StageAccess& a : accesses) {
    if (a.isStore != stored || (!stored && !a.reduced)) continue;
    const int64_t step = strideAlong(*a.buffer, a.index, rows.var).value_or(0);
    if (step) most = std::max(most, std::gcd(step * bytes(a.buffer->type.dtype), kSetBytes));
  }
  return most;
}

/// Slots that a step of the reduction waits for operands that are broadcast, where each step goes far, to another page soon: nothing fetches
/// them ahead.
double farSteps(const Stage& stage, const std::vector<StageAccess>& accesses,
                const StageAxis& lanes, const Target& target) {
  const Level* near = target.level("l1");
  double slots = 0;
  if (!near) return slots;
  for (const StageAccess& a : accesses) {
    const int64_t element = bytes(a.buffer->type.dtype);
    if (!a.reduced || a.isStore || mentions(a.index, lanes.var)) continue;
    const int64_t touched = touchedBytes(stage, a.index, element);
    if (touched <= near->bytes) continue;
    int64_t least = INT64_MAX;
    for (const StageAxis& axis : stage.axes)
      if (axis.reduce && mentions(a.index, axis.var))
        least = std::min(least, std::abs(strideAlong(*a.buffer, a.index, axis.var).value_or(1)));
    if (least != INT64_MAX && least * element >= kFarStep)
      slots += touched < roomForPanels(target) ? kNearPageSlots : kPageSlots;
  }
  return slots;
}

/// Is there a block that is broadcast and too large for what is near? It goes by for every panel.
bool farRows(const std::vector<StageAccess>& accesses, const Stage& stage, const StageAxis& lanes,
             const Target& target) {
  return std::ranges::any_of(accesses, [&](const StageAccess& a) {
    return a.reduced && !a.isStore && a.buffer->kind != PlanBuffer::Scratch &&
           !mentions(a.index, lanes.var) &&
           touchedBytes(stage, a.index, bytes(a.buffer->type.dtype)) > roomForPanels(target);
  });
}

bool areNext(const std::optional<int64_t>& rows, const StageAxis& lanes) {
  return rows && *rows > 0 && *rows <= kNextRows * lanes.extent;
}

/// Does the product read a far operand that isn't packed along the lanes, and nothing again for other lanes, with its rows the next axis in
/// memory? Then lanes go by where that lies, line by line, as long as the panels stay near.
bool walksLanes(const Stage& stage, const std::vector<StageAccess>& accesses,
                const StageSchedule& s, const Target& target) {
  const StageAxis& lanes = stage.axes[static_cast<size_t>(s.vectorAxis)];
  const Level *l1 = target.level("l1"), *l2 = target.level("l2");
  if (!l1 || !l2) return false;
  bool walks = false;
  int64_t panels = 0;
  for (const StageAccess& a : accesses) {
    if (!a.reduced || a.isStore) continue;
    if (!mentions(a.index, lanes.var)) return false;
    if (std::ranges::count(s.packed, a.buffer->name))
      panels += touchedBytes(stage, a.index, bytes(a.buffer->type.dtype));
    else if (s.unrollAxis >= 0 && a.buffer->kind == PlanBuffer::Input)
      walks |=
          strideAlong(*a.buffer, a.index, lanes.var) == 1 && bytesOf(a.buffer->type) > l2->bytes &&
          areNext(
              strideAlong(*a.buffer, a.index, stage.axes[static_cast<size_t>(s.unrollAxis)].var),
              lanes);
  }
  return walks && panels <= l1->bytes / 4;
}

/// Do lanes along a reduce axis, joined at its end, cost less than bringing operands into lanes along another one? Where nothing is used
/// again, and only that axis is one in memory.
bool sumsInLanes(const GroupPlan& plan, const Stage& stage,
                 const std::vector<StageAccess>& accesses, int lanes, double cost) {
  if (keepsOrder(plan, stage)) return false;
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++)
    if (stage.axes[i].reduce && sizeOf(stage.axes[i]) >= lanes &&
        costAlong(stage, accesses, i, lanes) < cost)
      return true;
  return false;
}

/// Is a slide worth instructions of its own for what a multiplication would broadcast as it reads it? Where what slides is read by vectors,
/// or the loads are wanted for panels that don't stay in L1.
bool slidePays(const std::vector<StageAccess>& accesses, const Stage& stage, const StageAxis& lanes,
               const StageAxis& rows, int width, const Target& target) {
  const Level* l1 = target.level("l1");
  return std::ranges::any_of(accesses, [&](const StageAccess& a) {
    if (!a.reduced || a.isStore || !mentions(a.index, lanes.var)) return false;
    int64_t panel = width * bytes(a.buffer->type.dtype);
    for (const StageAxis& axis : stage.axes)
      if (axis.reduce && mentions(a.index, axis.var)) panel *= sizeOf(axis);
    return mentions(a.index, rows.var) || (l1 && panel > l1->bytes / 2);
  });
}

/// Rows of the tile whose elements other rows read in a later step of a round along the axis: they stay in registers meanwhile.
int64_t sharedRows(const Stage& stage, const std::vector<StageAccess>& accesses,
                   const StageSchedule& s, int axis, int64_t round) {
  int64_t most = 0;
  for (const StageAccess& a : accesses) {
    if (!a.reduced || a.isStore || s.unrollAxis < 0) continue;
    const int64_t row = strideAlong(*a.buffer, a.index, stage.axes[s.unrollAxis].var).value_or(0),
                  step = strideAlong(*a.buffer, a.index, stage.axes[axis].var).value_or(0);
    if (row <= 0 || step <= 0 || row / std::gcd(row, step) >= round) continue;
    most = std::max(most, s.unroll - step / std::gcd(row, step));
  }
  return most;
}

/// Steps of the innermost reduce loop in one round of it: few multiplications a round wait for the loop, many are no sooner. Vectors of the
/// next step are loaded early: they have registers, or there is one step a round.
int64_t roundOf(const Stage& stage, const std::vector<StageAccess>& accesses,
                const StageSchedule& s, const Target& target) {
  const int tile = s.vectors * s.unroll, axis = s.order.empty() ? -1 : s.order.back();
  if (tile < 2 || tile + std::max(2 * s.vectors, s.vectors + 3) > target.vectorRegisters ||
      s.slide || axis < 0 || !stage.axes[axis].reduce || axis == s.dotAxis ||
      axis == s.vectorAxis || !isConstant(stage.axes[axis].region.base, 0) ||
      stage.axes[axis].region.size < stage.axes[axis].extent)
    return 1;
  int64_t round = std::clamp<int64_t>(kRound / tile, 1, kMostSteps);
  while (stage.axes[axis].extent % round ||
         tile + s.vectors + sharedRows(stage, accesses, s, axis, round) >= target.vectorRegisters)
    round--;
  return round;
}

}  // namespace

int64_t roomForPanels(const Target& target) {
  const Level* l2 = target.level("l2");
  return l2 ? l2->bytes / 2 : INT64_MAX;
}

bool wantsPanels(const PlanBuffer& b, const std::vector<Expr>& index, const Stage& stage,
                 const StageAxis& lanes, const Target& target) {
  const Level* near = target.level("l2");
  if (!near || b.kind != PlanBuffer::Input || multiplicationsOf(stage, index) < kPanelRows)
    return false;
  Stage panel;
  panel.axes = stage.axes;
  const auto axis = std::ranges::find(panel.axes, lanes.var, &StageAxis::var);
  const int64_t element = bytes(b.type.dtype);
  if (strideAlong(b, index, lanes.var) != 1)
    return touchedBytes(panel, index, element) > roomForPanels(target);
  axis->region.size = std::min(axis->region.size, kPanelColumns);
  return touchedBytes(panel, index, element) > roomForPanels(target) / 2 ||
         crowdsSets(b, index, panel, near->bytes);
}

StageSchedule chooseContraction(const GroupPlan& plan, const TileList& list, const Stage& stage,
                                const Target& target) {
  const auto accesses = accessesOf(plan, stage);
  const int element = elementBytes(plan, stage), lanesWanted = target.lanes(element);
  double depth = 1;
  for (const StageAxis& a : stage.axes)
    if (a.reduce) depth *= static_cast<double>(std::max<int64_t>(1, sizeOf(a)));
  StageSchedule best;
  double bestCost = 1e30, operandCost = 0;
  for (int v = 0; v < static_cast<int>(stage.axes.size()); v++) {
    const StageAxis& axis = stage.axes[v];
    const int64_t n = sizeOf(axis);
    if (axis.reduce || n < 2) continue;
    int lanes = lanesWanted;
    while (lanes / 2 >= n && lanes > 4) lanes /= 2;
    const auto dot = dotAlong(plan, stage, v, target);
    const auto grouped = dot ? operandsOf(*dot, plan, list, stage, accesses, axis, lanes, target)
                             : std::optional<Operands>();
    const Operands operands =
        grouped ? *grouped : operandsAlong(list, stage, accesses, axis, lanes, target);
    const int64_t align = isConstant(axis.region.base, 0) ? 0 : axis.region.size;
    const double far = farSteps(stage, accesses, axis, target);
    const bool farRow = farRows(accesses, stage, axis, target);
    const auto consider = [&](int u, bool across, const std::optional<Slide>& slide) {
      const int64_t m = u < 0 ? 1 : sizeOf(stage.axes[u]);
      const int64_t smallest =
          u < 0 || !idempotent(stage) ? 1 : smallestExtent(stage.axes[u], list);
      const bool none = operands.packed.empty();
      const TileShape t =
          registerTile({n, smallestExtent(axis, list), align, m, std::min(smallest, m), lanes,
                        !none, operands.direct || none, across, updates(stage),
                        loadsAlong(accesses, stage, axis, u < 0 ? nullptr : &stage.axes[u],
                                   operands.packed, lanes, target),
                        u < 0 ? 0 : rowsApart(accesses, stage.axes[u], false),
                        u < 0 ? 0 : rowsApart(accesses, stage.axes[u], true), depth,
                        depth * element, farRow, slide},
                       target);
      if (t.score == 0 || (across && t.unroll < 8)) return;
      const double after = across
                               ? resultCost(accesses, stage.axes[u], std::log2(lanes), lanes, depth)
                               : resultCost(accesses, axis, 0, lanes, depth);
      const double pages = far / (t.vectors * t.unroll);
      const double steps = grouped ? dot->steps : 1;
      double total = (steps / std::max(t.score, 1e-6) + operands.cost + after + pages) / lanes;
      if (u >= 0)  // rows that share lines of the operand that is broadcast
        for (const StageAccess& a : accesses)
          if (a.reduced && !a.isStore && strideAlong(*a.buffer, a.index, stage.axes[u].var) == 1)
            total *= 0.98;
      if (total >= bestCost) return;
      bestCost = total;
      operandCost = operands.cost / lanes;
      best.vectorAxis = v;
      best.lanes = lanes;
      best.vectors = t.vectors;
      best.unrollAxis = t.unroll > 1 ? u : -1;
      best.unroll = t.unroll;
      best.packed = operands.packed;
      best.across = across;
      best.slide = t.unroll > 1 ? slide : std::nullopt;
      best.dotAxis = grouped ? dot->axis : -1;
      best.group = grouped ? dot->group : 1;
      best.dotRow = grouped ? dot->row : "";
    };
    for (int u = -1; u < static_cast<int>(stage.axes.size()); u++) {
      if (u == v || (u >= 0 && stage.axes[u].reduce)) continue;
      const auto slide = u >= 0 && !grouped && target.kind == "cpu" &&
                                 slidePays(accesses, stage, axis, stage.axes[u], lanes, target)
                             ? slideAlong(plan, stage, u)
                             : std::optional<Slide>();
      for (const bool across : {false, true}) {
        if (across && (u < 0 || lanes < 8 || lanes > kTurnedLanes)) continue;
        consider(u, across, {});
        if (slide) consider(u, across, slide);
      }
    }
  }
  if (best.vectorAxis < 0 || sumsInLanes(plan, stage, accesses, lanesWanted, operandCost))
    return chooseSimple(plan, list, stage, target);
  best.order = loopOrder(plan, stage, accesses, best.vectorAxis);
  const bool lanesInside = walksLanes(stage, accesses, best, target);
  // Panels go outside of all that they don't depend on: one stays in a near cache while the rows go by.
  const auto rank = [&](int axis) {
    if (stage.axes[axis].reduce) return 5;
    if (axis == best.vectorAxis) return lanesInside ? 4 : 1;
    if (axis == best.unrollAxis) return 3;
    for (const StageAccess& a : accesses)
      if (a.reduced &&
          std::find(best.packed.begin(), best.packed.end(), a.buffer->name) != best.packed.end() &&
          mentions(a.index, stage.axes[axis].var))
        return 0;
    return 2;
  };
  std::stable_sort(best.order.begin(), best.order.end(),
                   [&](int a, int b) { return rank(a) < rank(b); });
  best.round = roundOf(stage, accesses, best, target);
  return best;
}

}  // namespace tektite
