#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "fusion/stages.h"
#include "schedule/ahead.h"
#include "schedule/dot.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kSetBytes = 4096;  // lines that far apart share a set of L1
constexpr int64_t kRowsOfSet =
    7;  // more rows of a register tile in one set push each other out (Zen 4, 14 rows: 113 -> 88 GFLOP/s)
constexpr double kPageSlots = 16;  // of a line from beyond L2 that no prefetcher expects
constexpr double kCrowded = 0.25;  // so much slower
constexpr int kTurnedLanes = 16;   // of a block that is transposed in registers
constexpr int64_t kApartElements =
    4096;  // 64 MB sum of squares on one Zen 4 core: 16.4 GB/s side by side, 21.5 apart

/// The widest element that vectors of this stage hold: stored values and accumulators, not index arithmetic.
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

/// Does a stored value depend on what was there before? Such points are computed once only: blocks of rows may not overlap.
bool updates(const Stage& stage) {
  const std::vector<Expr> loads = loadsOf(stage);
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores)
      for (const Expr& e : loads)
        if (e.as<Load>()->buffer == s.buffer) return true;
  return false;
}

/// Loops over space axes, the largest stride of the stores outermost, then the reduce axes by the strides of what they read.
std::vector<int> loopOrder(const Stage& stage, const std::vector<StageAccess>& accesses,
                           int vectorAxis) {
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
    if (a == vectorAxis || b == vectorAxis) return b == vectorAxis && a != vectorAxis;
    return stride[a] > stride[b];
  });
  return order;
}

// ---- maps and reductions

/// Vector work of one point if lanes run along the axis: contiguous accesses cost their share, strided ones a gather.
double costAlong(const Stage& stage, const std::vector<StageAccess>& accesses, int axis,
                 int lanes) {
  const StageAxis& a = stage.axes[axis];
  const int64_t n = std::min(a.region.size, a.extent);
  double cost = 0;
  for (const StageAccess& x : accesses) {
    const auto step = strideAlong(*x.buffer, x.index, a.var);
    const double vector = step == 0 ? 0.25 : step == 1 ? 1 : 0.75 * lanes;
    cost += vector * (x.reduced || stage.accumulators.empty() ? 1 : 0.2);
  }
  cost = (cost + 1) / lanes / usedShare(n, lanes);
  if (a.reduce) cost += 3.0 * std::log2(lanes) / static_cast<double>(std::max<int64_t>(n, 1));
  return cost;
}

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
    const auto step = strideAlong(*x.buffer, x.index, stage.axes[x.isStore ? to : from].var);
    if (x.isStore && step != 1) return -1;
    cost += x.isStore ? 1 + std::log2(lanes) : step == 0 ? 0.25 : step == 1 ? 1 : 0.75 * lanes;
  }
  return cost / lanes / usedShare(smallestExtent(stage.axes[from], list), lanes) /
         usedShare(smallestExtent(stage.axes[to], list), lanes);
}

StageSchedule chooseSimple(const GroupPlan& plan, const TileList& list, const Stage& stage,
                           const Target& target) {
  StageSchedule s;
  const auto accesses = accessesOf(plan, stage);
  const int widest = target.lanes(elementBytes(plan, stage));
  double best = 1e30;
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++) {
    const int64_t n = std::min(stage.axes[i].region.size, stage.axes[i].extent);
    if (n < 2) continue;
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
  s.order = loopOrder(stage, accesses, s.vectorAxis);
  return s;
}

// ---- contractions

struct TileShape {
  int vectors, unroll;
  double score;
};

/// What a register tile is chosen for.
struct TileProblem {
  int64_t vectorExtent, smallestVector;  ///< along the lanes: of most tiles, of the last
  int64_t
      align;  ///< panels must not straddle tiles: the tile's extent along the lanes, 0 where it isn't tiled
  int64_t unrollExtent, smallestUnroll;
  int lanes;
  bool panels, direct;  ///< operands along the lanes that are packed, that aren't
  bool square;          ///< 8 rows, or as many as lanes: to be transposed
  bool exact;           ///< blocks of rows may not overlap
  std::vector<std::pair<bool, bool>>
      loads;  ///< of a multiplication: does each differ along the lanes, from row to row?
  int64_t
      rowsApart;  ///< bytes from row to row of the operand that is broadcast, at most kSetBytes; 0: none
};

/// Multiplications a slot of `v` vectors by `u` rows: bound by loads, by latency, by rows that push each other out of L1.
double tileRate(const TileProblem& p, int v, int u, const Target& target) {
  double loads = 0;
  for (const auto& [alongLanes, alongRows] : p.loads)
    loads += (alongLanes ? v : 1) * (alongRows ? u : 1);
  const double reuse = u * v / std::max(loads, 1.0);
  const double latency = std::min(1.0, u * v / (target.fmaLatency * target.fmaPerCycle));
  double time = 1;
  if (u * p.rowsApart > kRowsOfSet * kSetBytes) time += kCrowded;
  return latency * std::min(1.0, target.loadsPerCycle / target.fmaPerCycle * reuse) *
         (1 + 0.02 * reuse) / time;
}

/// The register tile: most multiplications a load, within the registers, with little waste at the edges.
TileShape registerTile(const TileProblem& p, const Target& target) {
  TileShape best{1, 1, p.panels && p.align % p.lanes != 0 ? 0 : 1e-3};
  const int temporaries =
      target.maskedMoves ? 1 : 2;  // AVX-512 broadcasts inside the multiplication
  const int64_t widest = p.direct ? p.smallestVector : p.vectorExtent + p.lanes - 1;
  for (int v = 1; v <= 8; v++) {
    const int64_t width = int64_t{v} * p.lanes, full = p.vectorExtent / width * width;
    if (v > 1 && width > widest) break;
    if (p.panels && p.align % width != 0) continue;
    for (int u = 1; u <= 16; u++) {
      if (u > p.smallestUnroll || v * u + v + temporaries > target.vectorRegisters) break;
      if (p.square && u != 8 && u != p.lanes) continue;
      if (p.exact && (p.smallestUnroll != p.unrollExtent || p.unrollExtent % u)) continue;
      const double rest = static_cast<double>((p.vectorExtent - full + p.lanes - 1) / p.lanes *
                                              p.lanes);  // one vector at a time, or a padded panel
      const double rate = tileRate(p, v, u, target);
      const double time =
          static_cast<double>(full) / rate + (!p.panels  ? rest / tileRate(p, 1, u, target)
                                              : rest > 0 ? static_cast<double>(width) / rate
                                                         : 0);
      const double score =
          static_cast<double>(p.vectorExtent) / time * usedShare(p.unrollExtent, u);
      if (score > best.score + 1e-9) best = {v, u, score};
    }
  }
  return best;
}

/// How many multiplications each element of an operand feeds.
double multiplicationsOf(const Stage& stage, const std::vector<Expr>& index) {
  double n = 1;
  for (const StageAxis& a : stage.axes)
    if (!a.reduce && !mentions(index, a.var))
      n *= static_cast<double>(std::min(a.region.size, a.extent));
  return n;
}

int64_t roomForPanels(const Target& target) {
  const Level* l2 = target.level("l2");
  return l2 ? l2->bytes / 2 : INT64_MAX;  // the rest is for what goes by
}

/// What panels of an operand take for one execution of the stage.
int64_t panelBytes(const Stage& stage, const std::vector<Expr>& index, int64_t elementBytes) {
  int64_t n = elementBytes;
  for (const StageAxis& a : stage.axes)
    if (mentions(index, a.var)) n *= std::min(a.region.size, a.extent);
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
    } else if (step == 1) {
      out.direct = true;
    } else if (panelBytes(stage, a.index, bytes(a.buffer->type.dtype)) > roomForPanels(target)) {
      out.direct = true;
      out.cost += 0.75 * lanes;  // too much to hold: gathered at each multiplication
    } else {  // packed by the kernel itself, in blocks that are transposed in registers where elements lie side by side along another axis
      out.packed.push_back(a.buffer->name);
      const bool blocks = std::ranges::any_of(stage.axes, [&](const StageAxis& other) {
        return strideAlong(*a.buffer, a.index, other.var) == 1;
      });
      out.cost += (blocks ? 0.5 : 1.5) * lanes /
                  (multiplicationsOf(stage, a.index) * packReuse(list, axis, a.index));
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
    if (panelBytes(stage, a.index, bytes(a.buffer->type.dtype)) > roomForPanels(target))
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

/// Bytes between the rows of what is read at every multiplication, as far as they matter to the sets of L1.
int64_t rowsApart(const std::vector<StageAccess>& accesses, const StageAxis& rows) {
  int64_t most = 0;
  for (const StageAccess& a : accesses) {
    if (!a.reduced || a.isStore) continue;
    const int64_t step = strideAlong(*a.buffer, a.index, rows.var).value_or(0);
    if (step) most = std::max(most, std::gcd(step * bytes(a.buffer->type.dtype), kSetBytes));
  }
  return most;
}

/// Operands that are broadcast, lie beyond L2, and of which every step of the reduction reads another page: nothing fetches them ahead.
int pagesApart(const Stage& stage, const std::vector<StageAccess>& accesses, const StageAxis& lanes,
               const Target& target) {
  int found = 0;
  for (const StageAccess& a : accesses) {
    const int64_t element = bytes(a.buffer->type.dtype);
    if (!a.reduced || a.isStore || mentions(a.index, lanes.var) ||
        panelBytes(stage, a.index, element) <= roomForPanels(target))
      continue;
    int64_t least = INT64_MAX;
    for (const StageAxis& axis : stage.axes)
      if (axis.reduce && mentions(a.index, axis.var))
        least = std::min(least, std::abs(strideAlong(*a.buffer, a.index, axis.var).value_or(1)));
    found += least != INT64_MAX && least * element >= kSetBytes;
  }
  return found;
}

/// Which loads of a multiplication differ along two axes.
std::vector<std::pair<bool, bool>> loadsAlong(const std::vector<StageAccess>& accesses,
                                              const StageAxis& lanes, const StageAxis* rows) {
  std::vector<std::pair<bool, bool>> out;
  for (const StageAccess& a : accesses)
    if (a.reduced && !a.isStore)
      out.push_back({mentions(a.index, lanes.var), rows && mentions(a.index, rows->var)});
  return out;
}

StageSchedule chooseContraction(const GroupPlan& plan, const TileList& list, const Stage& stage,
                                const Target& target) {
  const auto accesses = accessesOf(plan, stage);
  const int element = elementBytes(plan, stage), lanesWanted = target.lanes(element);
  double depth = 1;
  for (const StageAxis& a : stage.axes)
    if (a.reduce)
      depth *= static_cast<double>(std::max<int64_t>(1, std::min(a.region.size, a.extent)));
  StageSchedule best;
  double bestCost = 1e30;
  for (int v = 0; v < static_cast<int>(stage.axes.size()); v++) {
    const StageAxis& axis = stage.axes[v];
    const int64_t n = std::min(axis.region.size, axis.extent);
    if (axis.reduce || n < 2) continue;
    int lanes = lanesWanted;
    while (lanes / 2 >= n && lanes > 4) lanes /= 2;
    const auto dot = dotAlong(plan, stage, v, target);
    const auto grouped = dot ? operandsOf(*dot, plan, list, stage, accesses, axis, lanes, target)
                             : std::optional<Operands>();
    const Operands operands =
        grouped ? *grouped : operandsAlong(list, stage, accesses, axis, lanes, target);
    const int64_t align = isConstant(axis.region.base, 0) ? 0 : axis.region.size;
    const int apart = pagesApart(stage, accesses, axis, target);
    const auto consider = [&](int u, bool across) {
      const int64_t m = u < 0 ? 1 : std::min(stage.axes[u].region.size, stage.axes[u].extent);
      const int64_t smallest =
          u < 0 || !idempotent(stage) ? 1 : smallestExtent(stage.axes[u], list);
      const bool none = operands.packed.empty();
      const TileShape t =
          registerTile({n, smallestExtent(axis, list), align, m, std::min(smallest, m), lanes,
                        !none, operands.direct || none, across, updates(stage),
                        loadsAlong(accesses, axis, u < 0 ? nullptr : &stage.axes[u]),
                        u < 0 ? 0 : rowsApart(accesses, stage.axes[u])},
                       target);
      if (t.score == 0 || (across && t.unroll < 8)) return;
      const double after = across
                               ? resultCost(accesses, stage.axes[u], std::log2(lanes), lanes, depth)
                               : resultCost(accesses, axis, 0, lanes, depth);
      const double pages = kPageSlots * apart / (t.vectors * t.unroll);
      const double steps = grouped ? dot->steps : 1;
      double total = (steps / std::max(t.score, 1e-6) + operands.cost + after + pages) / lanes;
      if (u >= 0)  // rows that share lines of the operand that is broadcast
        for (const StageAccess& a : accesses)
          if (a.reduced && !a.isStore && strideAlong(*a.buffer, a.index, stage.axes[u].var) == 1)
            total *= 0.98;
      if (total >= bestCost) return;
      bestCost = total;
      best.vectorAxis = v;
      best.lanes = lanes;
      best.vectors = t.vectors;
      best.unrollAxis = t.unroll > 1 ? u : -1;
      best.unroll = t.unroll;
      best.packed = operands.packed;
      best.across = across;
      best.dotAxis = grouped ? dot->axis : -1;
      best.group = grouped ? dot->group : 1;
      best.dotRow = grouped ? dot->row : "";
    };
    for (int u = -1; u < static_cast<int>(stage.axes.size()); u++) {
      if (u == v || (u >= 0 && stage.axes[u].reduce)) continue;
      consider(u, false);
      if (u >= 0 && lanes >= 8 && lanes <= kTurnedLanes) consider(u, true);
    }
  }
  if (best.vectorAxis < 0) return chooseSimple(plan, list, stage, target);
  best.order = loopOrder(stage, accesses, best.vectorAxis);
  // Panels go outside of all that they don't depend on: one stays in a near cache while the rows go by.
  const auto rank = [&](int axis) {
    if (stage.axes[axis].reduce) return 4;
    if (axis == best.vectorAxis) return 1;
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
  return best;
}

}  // namespace

namespace {

/// Results that would push more useful data out of the last cache than stays for the next reader go past it.
bool streams(const GroupPlan& plan, const Stage& stage, const Target& target) {
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores) {
      const PlanBuffer& b = plan.buffer(s.buffer);
      if (b.kind == PlanBuffer::Output && !b.feedsMoreStages &&
          b.type.elements() * bytes(b.type.dtype) >= target.last().bytes / 2)
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

Schedule chooseSchedule(const GroupPlan& plan, const Target& target, int threads) {
  if (target.kind == "gpu") {
    Schedule teams = naiveSchedule(plan);
    teams.team = chooseTeam(plan, target, threads);
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

std::string toText(const GroupPlan& plan, const Schedule& schedule) {
  if (schedule.team.threads) return toText(plan, schedule.team);
  std::string out = "schedule {\n";
  for (size_t l = 0; l < schedule.lists.size(); l++)
    for (size_t k = 0; k < schedule.lists[l].size(); k++) {
      const StageSchedule& s = schedule.lists[l][k];
      const Stage& stage = plan.lists[l].stages[k];
      out += fmt::format("  stage {}.{} {{", l, k);
      if (s.vectorAxis >= 0)
        out += fmt::format(" vector {} {}x{};", stage.axes[s.vectorAxis].var, s.vectors, s.lanes);
      if (s.unrollAxis >= 0)
        out += fmt::format(" unroll {} {};", stage.axes[s.unrollAxis].var, s.unroll);
      out += " order";
      for (int i : s.order) out += " " + stage.axes[i].var;
      for (const std::string& p : s.packed) out += "; pack " + p;
      if (s.dotAxis >= 0) out += fmt::format("; dot {} {}", stage.axes[s.dotAxis].var, s.group);
      for (const StageSchedule::Ahead& a : s.ahead) out += fmt::format("; ahead {}", a.buffer);
      if (s.across) out += "; across";
      out += s.stream ? "; stream }\n" : " }\n";
    }
  return out + "}\n";
}

}  // namespace tektite
