#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "fusion/cost.h"
#include "fusion/stages.h"
#include "schedule/layout.h"
#include "schedule/team_axes.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kMostThreads = 256;
constexpr double kPanelShare = 0.375;  // of shared memory, at most
constexpr double kScattered = 4;       // an access whose threads touch lines of their own
constexpr double kRoundCycles = 12;    // dealing a round of points
constexpr double kJoinCycles = 20;     // a step of the joining tree, with its barrier

// ---- which axes may be dealt

/// The space axes that one dimension of an index tells apart: a linear form whose coefficients are those of a mixed radix.
void addDetermined(const Expr& index, const Stage& stage, std::set<int>& out) {
  std::vector<std::pair<int64_t, int>> parts;  // |coefficient|, axis
  for (const auto& [term, coefficient] : linearOf(index).terms) {
    const Var* v = term.as<Var>();
    int axis = -1;
    for (size_t i = 0; v && i < stage.axes.size(); i++)
      if (stage.axes[i].var == v->name) axis = static_cast<int>(i);
    if (axis >= 0)
      parts.emplace_back(std::abs(coefficient), axis);
    else
      for (const StageAxis& a : stage.axes)
        if (mentions({term}, a.var)) return;
  }
  std::ranges::sort(parts);
  int64_t reach = 0;
  for (const auto& [coefficient, axis] : parts) {
    if (coefficient <= reach) return;
    reach += coefficient * std::max<int64_t>(0, sizeOf(stage.axes[axis]) - 1);
  }
  for (const auto& [coefficient, axis] : parts) out.insert(axis);
}

/// Where an element lies: what a reshape takes apart comes together again.
Expr placeOf(const GroupPlan& plan, const Stage& stage, const StageStore& s) {
  const auto strides = memoryStrides(plan.buffer(s.buffer));
  Ranges ranges;
  for (const StageAxis& a : stage.axes) ranges[a.var] = {0, std::max<int64_t>(0, a.extent - 1)};
  Expr place = 0;
  for (size_t d = 0; d < s.index.size(); d++) place = place + s.index[d] * Expr(strides[d]);
  return simplify(place, ranges);
}

/// The axes of which different values are never stored to one element.
std::set<int> independentAxes(const GroupPlan& plan, const Stage& stage) {
  std::set<int> out;
  for (size_t i = 0; i < stage.axes.size(); i++) out.insert(static_cast<int>(i));
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores) {
      std::set<int> determined, both;
      for (const Expr& e : s.index)
        if (loadsOf(e).empty()) addDetermined(e, stage, determined);
      if (const Expr place = placeOf(plan, stage, s); loadsOf(place).empty())
        addDetermined(place, stage, determined);
      if (stores == &stage.outer)  // runs once a space point
        for (size_t i = 0; i < stage.axes.size(); i++)
          if (stage.axes[i].reduce) determined.insert(static_cast<int>(i));
      std::ranges::set_intersection(out, determined, std::inserter(both, both.end()));
      out = std::move(both);
    }
  return out;
}

/// How many elements of the last dealt axis a thread takes at once: as wide as loads get, where every tile and row is a multiple of it.
int vectorOf(const Stage& stage, const std::vector<StageAccess>& accesses, const TeamStage& s,
             int threads) {
  if (s.dealt.empty() || !s.serial.empty()) return 1;
  const StageAxis& a = stage.axes[s.dealt.back()];
  int widest = 1;
  for (const StageAccess& x : accesses)
    if (strideAlong(*x.buffer, x.index, a.var) != 0)
      widest = std::max(widest, bytes(x.buffer->type.dtype));
  const int n = std::min(8, kVectorBytes / widest);
  if (n < 2 || pointsOf(stage, s.dealt) < int64_t{threads} * n) return 1;
  const Linear base = linearOf(a.region.base);
  if (a.extent % n || sizeOf(a) % n || base.constant % n) return 1;
  for (const auto& [term, coefficient] : base.terms)
    if (coefficient % n) return 1;
  for (const StageAccess& x : accesses) {
    const auto step = strideAlong(*x.buffer, x.index, a.var);
    if (step == 0) continue;
    if (step != 1 || !inVectors(x, a.var, n)) return 1;
  }
  return n;
}

// ---- reductions

/// Cycles of one execution with `group` threads a point.
double reductionCost(const Stage& stage, const std::vector<StageAccess>& accesses,
                     const TeamStage& s, int group, int threads, int warp) {
  const auto points = static_cast<double>(pointsOf(stage, s.dealt)),
             all = static_cast<double>(pointsOf(stage, s.reduce)),
             dealt = static_cast<double>(
                 pointsOf(stage, {s.reduce.end() - s.together, s.reduce.end()}));
  const double rounds = std::ceil(points * group / threads);
  const auto apart = [&](const StageAccess& a, const std::vector<int>& axes) {
    if (axes.empty()) return false;
    const auto step = strideAlong(*a.buffer, a.index, stage.axes[axes.back()].var);
    return !step || std::abs(*step) > 1;
  };
  double each = 2;
  for (const StageAccess& a : accesses) {
    if (!a.reduced || a.buffer->kind == PlanBuffer::Scratch) continue;
    const double share = std::min(1.0, static_cast<double>(group - 1) / std::max(1, warp - 1));
    each += 1 + (kScattered - 1) * (share * apart(a, s.reduce) + (1 - share) * apart(a, s.dealt));
  }
  double cost =
      rounds * (kRoundCycles + std::ceil(dealt / group) * all / std::max(dealt, 1.0) * each);
  if (group > 1) cost += rounds * kJoinCycles * (1 + std::ceil(std::log2(group) / 3));
  return cost;
}

/// Do all accesses move by the same amount at each step of every reduce axis? Then numbers that several axes make together keep their bounds.
bool affine(const Stage& stage, const std::vector<StageAccess>& accesses) {
  return std::ranges::all_of(accesses, [&](const StageAccess& x) {
    return std::ranges::all_of(stage.axes, [&](const StageAxis& a) {
      return !a.reduce || strideAlong(*x.buffer, x.index, a.var);
    });
  });
}

int groupOf(const Stage& stage, const std::vector<StageAccess>& accesses, const TeamStage& s,
            const std::set<int>& independent, int threads, int warp) {
  if (!s.serial.empty()) return 1;
  for (int i : s.reduce)
    if (!independent.count(i)) return 1;
  const int64_t steps = pointsOf(stage, {s.reduce.end() - s.together, s.reduce.end()});
  int best = 1;
  double least = reductionCost(stage, accesses, s, 1, threads, warp);
  for (int g = 2; g <= threads && g / 2 < steps; g *= 2) {
    const double cost = reductionCost(stage, accesses, s, g, threads, warp);
    if (cost < least) least = cost, best = g;
  }
  return best;
}

/// Does the target have an instruction for each of the stage's sums or maxima?
bool joinsByInstructions(const Stage& stage, const Target& target) {
  return std::ranges::all_of(stage.accumulators, [&](const Accumulator& a) {
    return a.combine.arity() == 1 && a.combine.types[0] == DType::F32 &&
           hasInstruction(target, "warp." + a.combine.name);
  });
}

/// Bytes of shared memory for panels: no more than leave the scratch of a tile there, where it fits beside the least that panels get.
double roomForPanels(const GroupPlan& plan, const TileList& list, const Target& target) {
  const Level* shared = target.level("shared");
  if (!shared) return 0;
  int64_t left = shared->bytes;
  const std::set<std::string> used = buffersOf(list.stages);
  for (const PlanBuffer& b : plan.buffers)
    if (b.kind == PlanBuffer::Scratch && b.space != "main" && used.count(b.name))
      left -= memoryBytes(b);
  return std::min(kPanelShare * static_cast<double>(shared->bytes),
                  static_cast<double>(std::max(left, kPanelBytes)));
}

TeamStage chooseStage(const GroupPlan& plan, const Stage& stage, const Target& target, int threads,
                      double room, Numerics numerics) {
  TeamStage s;
  const auto accesses = accessesOf(plan, stage);
  const std::set<int> independent = independentAxes(plan, stage);
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++)
    (stage.axes[i].reduce ? s.reduce : independent.count(i) ? s.dealt : s.serial).push_back(i);
  sortByStride(stage, accesses, s.dealt);
  std::vector<StageAccess> reduced;
  for (const StageAccess& a : accesses)
    if (a.reduced) reduced.push_back(a);
  const bool inOrder = keepsOrder(plan, stage);
  if (!inOrder) sortByStride(stage, reduced, s.reduce);
  s.together = affine(stage, accesses) ? static_cast<int>(s.reduce.size()) : !s.reduce.empty();
  if (!s.reduce.empty() && !inOrder)
    s.group = groupOf(stage, accesses, s, independent, threads, target.warp);
  s.shuffles = s.group >= target.warp && target.warp > 1 && joinsByInstructions(stage, target);
  if (s.serial.empty())
    chooseProduct(plan, stage, accesses, s,
                  reductionCost(stage, accesses, s, s.group, threads, target.warp), threads, room,
                  target, numerics);
  if (s.group == 1) s.vector = vectorOf(stage, accesses, s, threads);
  return s;
}

/// As many as the largest stage can use, whole warps.
int threadsFor(const GroupPlan& plan, const Target& target) {
  int64_t most = 1;
  for (const TileList& list : plan.lists)
    for (const Stage& stage : list.stages) {
      int64_t points = 1;
      for (const StageAxis& a : stage.axes) points *= std::max<int64_t>(1, sizeOf(a));
      most = std::max(most, points);
    }
  const int64_t wanted =
      std::clamp<int64_t>(most, std::max(1, target.warp), std::max(kMostThreads, target.warp));
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(wanted)));
}

std::string names(const Stage& stage, const std::vector<int>& axes) {
  std::string out;
  for (int i : axes) out += " " + stage.axes[i].var;
  return out;
}

std::string operandText(const Stage& stage, const TeamOperand& o) {
  return fmt::format("{} {}x{}{}", names(stage, o.axes), o.threads, o.each,
                     o.copied ? fmt::format(" copied by {}", o.copied) : "");
}

}  // namespace

TeamSchedule chooseTeam(const GroupPlan& plan, const Target& target, int threads,
                        Numerics numerics) {
  TeamSchedule out;
  out.threads = threads ? threads : threadsFor(plan, target);
  for (const TileList& list : plan.lists) {
    out.lists.emplace_back();
    const double room = roomForPanels(plan, list, target);
    for (const Stage& stage : list.stages)
      out.lists.back().push_back(chooseStage(plan, stage, target, out.threads, room, numerics));
  }
  return out;
}

std::string toText(const GroupPlan& plan, const TeamSchedule& schedule) {
  std::string out = fmt::format("schedule {{ threads {}\n", schedule.threads);
  for (size_t l = 0; l < schedule.lists.size(); l++)
    for (size_t k = 0; k < schedule.lists[l].size(); k++) {
      const TeamStage& s = schedule.lists[l][k];
      const Stage& stage = plan.lists[l].stages[k];
      out += fmt::format("  stage {}.{} {{ dealt{}", l, k, names(stage, s.dealt));
      if (s.vector > 1) out += fmt::format(" by {}", s.vector);
      if (!s.serial.empty()) out += "; serial" + names(stage, s.serial);
      if (!s.reduce.empty()) out += "; reduce" + names(stage, s.reduce);
      const TeamProduct& p = s.product;
      if (p.on())
        out += fmt::format("; {}{}{}, panels of {}", p.matrix ? "fragments" : "product",
                           operandText(stage, p.rows), operandText(stage, p.columns), p.depth);
      else if (s.shuffles)
        out += fmt::format(" by {} threads in warps", s.group);
      else if (s.group > 1)
        out += fmt::format(" by {} threads", s.group);
      out += " }\n";
    }
  return out + "}\n";
}

}  // namespace tektite
