#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "schedule/layout.h"
#include "schedule/team.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kMostThreads = 256;
constexpr int kVectorBytes = 16;     // the widest load of a thread
constexpr double kScattered = 4;     // an access whose threads touch lines of their own
constexpr double kRoundCycles = 12;  // dealing a round of points
constexpr double kJoinCycles = 20;   // a step of the joining tree, with its barrier

int64_t sizeOf(const StageAxis& a) {
  return std::max<int64_t>(0, std::min(a.region.size, a.extent));
}

int64_t pointsOf(const Stage& stage, const std::vector<int>& axes) {
  int64_t n = 1;
  for (int i : axes) n *= sizeOf(stage.axes[i]);
  return n;
}

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

// ---- the order

/// Accesses that neighbours along the axis make side by side, less those that they make apart.
double contiguity(const Stage& stage, const std::vector<StageAccess>& accesses, int axis) {
  double score = 0;
  for (const StageAccess& a : accesses) {
    const auto step = strideAlong(*a.buffer, a.index, stage.axes[axis].var);
    const double weight = a.isStore ? 1.5 : 1;
    if (step == 1) score += weight;
    if (!step || std::abs(*step) > 1) score -= weight;
  }
  return score;
}

void sortByStride(const Stage& stage, const std::vector<StageAccess>& accesses,
                  std::vector<int>& axes) {
  if (axes.empty()) return;
  std::vector<double> stride(stage.axes.size(), 0), near(stage.axes.size(), 0);
  for (int i : axes) {
    near[i] = sizeOf(stage.axes[i]) > 1 ? contiguity(stage, accesses, i) : -1e9;
    for (const StageAccess& a : accesses) {
      const auto step = strideAlong(*a.buffer, a.index, stage.axes[i].var);
      const double weight = a.isStore != stage.axes[i].reduce ? 1 : 0.001;
      stride[i] = std::max(stride[i], weight * static_cast<double>(std::abs(step.value_or(1))));
    }
  }
  std::ranges::stable_sort(axes, [&](int a, int b) { return stride[a] > stride[b]; });
  const auto last = std::ranges::max_element(
      axes, [&](int a, int b) { return near[a] <= near[b] && !(near[a] == near[b] && a > b); });
  if (near[*last] > near[axes.back()]) std::rotate(last, last + 1, axes.end());
}

/// Is the place of every access a multiple of `n` elements, but for what runs along the axis?
bool inVectors(const StageAccess& a, const std::string& axis, int64_t n) {
  const auto strides = memoryStrides(*a.buffer);
  for (size_t d = 0; d < a.index.size(); d++) {
    const bool scratch = a.buffer->kind == PlanBuffer::Scratch;
    const Expr at = scratch ? a.index[d] - a.buffer->region[d].base : a.index[d];
    const Linear l = linearOf(at);
    if (l.constant * strides[d] % n) return false;
    for (const auto& [term, coefficient] : l.terms) {
      const Var* v = term.as<Var>();
      if (v && v->name == axis) continue;
      if (mentions({term}, axis) || coefficient * strides[d] % n) return false;
    }
  }
  return true;
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

// ---- products

constexpr double kReadCycles = 0.6;    // an operand from shared memory, among vectors of them
constexpr double kStageCycles = 5;     // an element into shared memory
constexpr double kBarrierCycles = 40;  // a panel's barrier
constexpr double kPanelShare = 0.375;  // of shared memory
constexpr int64_t kPanelPadding =
    4;  // keeps stores of neighbours in the reduction out of each other's banks
constexpr int kRegisterTile[] = {1, 2, 4, 8};

/// Do steps of the reduction move less in memory than steps along the operand's axes?
bool nearAlongDepth(const GroupPlan& plan, const Stage& stage, const TeamStage& s,
                    const TeamOperand& o) {
  int near = 0;
  for (const Expr& e : loadsOf(o.value)) {
    const PlanBuffer& b = plan.buffer(e.as<Load>()->buffer);
    const auto step = [&](int axis) {
      return strideAlong(b, e.as<Load>()->index, stage.axes[axis].var) == 1;
    };
    if (!s.reduce.empty()) near += step(s.reduce.back());
    if (!o.axes.empty()) near -= 2 * step(o.axes.back());
  }
  return near > 0;
}

/// The factors of the one sum, and whose axes are whose. Nothing where it is no product of two, or where places don't follow from axes.
std::optional<TeamProduct> productOf(const GroupPlan& plan, const Stage& stage,
                                     const std::vector<StageAccess>& accesses, const TeamStage& s) {
  if (!stage.contraction || stage.accumulators.size() != 1 || !stage.inner.empty()) return {};
  const Apply* value = stage.accumulators[0].values[0].as<Apply>();
  if (!value || value->op != Op::Mul) return {};
  for (const StageAccess& x : accesses)
    for (const StageAxis& a : stage.axes)
      if (!strideAlong(*x.buffer, x.index, a.var)) return {};
  TeamProduct p;
  p.rows.value = value->args[0];
  p.columns.value = value->args[1];
  double nearRows = 0, nearColumns = 0;
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++) {
    if (stage.axes[i].reduce) continue;
    const std::string& v = stage.axes[i].var;
    const bool row = mentions({p.rows.value}, v), column = mentions({p.columns.value}, v);
    (row == column ? p.batch : row ? p.rows.axes : p.columns.axes).push_back(i);
    for (const StageAccess& x : accesses)
      if (x.isStore && row != column && sizeOf(stage.axes[i]) > 1 &&
          strideAlong(*x.buffer, x.index, v) == 1)
        (row ? nearRows : nearColumns)++;
  }
  if (nearRows > nearColumns) std::swap(p.rows, p.columns);  // neighbours write neighbours
  for (TeamOperand* o : {&p.rows, &p.columns}) {
    sortByStride(stage, accesses, o->axes);
    o->alongDepth = nearAlongDepth(plan, stage, s, *o);
  }
  return p;
}

/// Cycles of one execution.
double productCost(const Stage& stage, const TeamStage& s, const TeamProduct& p, int threads) {
  const auto blocks = [](int64_t n, int64_t block) {
    return static_cast<double>((n + block - 1) / block);
  };
  const TeamOperand &r = p.rows, &c = p.columns;
  const double tiles = static_cast<double>(pointsOf(stage, p.batch)) *
                       blocks(pointsOf(stage, r.axes), r.block()) *
                       blocks(pointsOf(stage, c.axes), c.block());
  const double step = r.each * c.each + kReadCycles * (r.each + c.each) +
                      kStageCycles * static_cast<double>(r.block() + c.block()) / threads;
  return tiles * (blocks(pointsOf(stage, s.reduce), p.depth) * (p.depth * step + kBarrierCycles) +
                  3.0 * r.each * c.each);
}

/// The reduction's end falls between two panels, or its axis is the buffer's: what is beyond reads as zero.
bool endsWithBuffer(const Stage& stage, const TeamStage& s, const TeamProduct& p,
                    const PlanBuffer& b, const std::vector<Expr>& index) {
  if (pointsOf(stage, s.reduce) % p.depth == 0) return true;
  if (s.reduce.size() != 1) return false;
  const StageAxis& a = stage.axes[s.reduce[0]];
  if (!isConstant(a.region.base, 0) || a.region.size < a.extent) return false;
  for (size_t d = 0; d < index.size(); d++)
    if (index[d] == var(a.var)) return b.type.extent(static_cast<int>(d)) == a.extent;
  return false;
}

/// How many elements an asynchronous copy may bring at once: 4 to 16 bytes side by side, the same number for every thread.
int copiedAtOnce(const GroupPlan& plan, const Stage& stage, const TeamStage& s,
                 const TeamProduct& p, const TeamOperand& o, int threads) {
  const Load* l = o.value.as<Load>();
  if (!l) return 0;
  const PlanBuffer& b = plan.buffer(l->buffer);
  if (b.kind != PlanBuffer::Input && b.kind != PlanBuffer::Constant) return 0;
  if (!endsWithBuffer(stage, s, p, b, l->index)) return 0;
  const int size = bytes(b.type.dtype);
  for (int n = kVectorBytes / size; n >= 1 && n * size >= 4; n /= 2) {
    if (p.depth * o.block() % (int64_t{n} * threads)) continue;
    if (n == 1) return 1;
    if (o.alongDepth || o.axes.empty() || o.block() % n) continue;
    const StageAxis& a = stage.axes[o.axes.back()];
    const Linear base = linearOf(a.region.base);
    bool whole = a.extent % n == 0 && sizeOf(a) % n == 0 && base.constant % n == 0 &&
                 strideAlong(b, l->index, a.var) == 1 &&
                 inVectors({&b, l->index, false, true}, a.var, n);
    for (const auto& [term, coefficient] : base.terms) whole = whole && coefficient % n == 0;
    if (whole) return n;
  }
  return 0;
}

/// The register tile that does it soonest, where that is sooner than threads each on their own.
void chooseProduct(const GroupPlan& plan, const Stage& stage,
                   const std::vector<StageAccess>& accesses, TeamStage& s, double otherwise,
                   int threads, const Target& target) {
  const std::optional<TeamProduct> found = productOf(plan, stage, accesses, s);
  if (!found) return;
  TeamProduct p = *found, best;
  const int64_t steps = pointsOf(stage, s.reduce);
  const Level* shared = target.level("shared");
  const double room = kPanelShare * static_cast<double>(shared ? shared->bytes : 0);
  for (int depth : {8, 16, 32}) {
    p.depth = depth;
    if (depth > 8 && steps <= depth / 2) break;
    for (int rows : kRegisterTile)
      for (int columns : kRegisterTile)
        for (int across = 1; across <= threads; across *= 2) {
          p.rows.each = rows;
          p.columns.each = columns;
          p.columns.threads = across;
          p.rows.threads = threads / across;
          s.product = p;
          if (static_cast<double>(panelBytes(s, stage)) > room) continue;
          const double cost = productCost(stage, s, p, threads);
          if (cost < otherwise) otherwise = cost, best = p;
        }
  }
  s.product = best;
  if (s.product.on() && std::ranges::count(target.queues, kCopyQueue))
    for (TeamOperand* o : {&s.product.rows, &s.product.columns})
      o->copied = copiedAtOnce(plan, stage, s, s.product, *o, threads);
}

TeamStage chooseStage(const GroupPlan& plan, const Stage& stage, const Target& target,
                      int threads) {
  TeamStage s;
  const auto accesses = accessesOf(plan, stage);
  const std::set<int> independent = independentAxes(plan, stage);
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++)
    (stage.axes[i].reduce ? s.reduce : independent.count(i) ? s.dealt : s.serial).push_back(i);
  sortByStride(stage, accesses, s.dealt);
  std::vector<StageAccess> reduced;
  for (const StageAccess& a : accesses)
    if (a.reduced) reduced.push_back(a);
  sortByStride(stage, reduced, s.reduce);
  s.together = affine(stage, accesses) ? static_cast<int>(s.reduce.size()) : !s.reduce.empty();
  if (!s.reduce.empty()) s.group = groupOf(stage, accesses, s, independent, threads, target.warp);
  if (s.serial.empty())
    chooseProduct(plan, stage, accesses, s,
                  reductionCost(stage, accesses, s, s.group, threads, target.warp), threads,
                  target);
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

int64_t TeamOperand::width() const { return block() + (alongDepth ? kPanelPadding : 0); }

int64_t panelsOf(const TeamStage& s, const Stage& stage) {
  return (pointsOf(stage, s.reduce) + s.product.depth - 1) / s.product.depth;
}

int64_t panelBytes(const TeamStage& s, const Stage& stage) {
  const TeamProduct& p = s.product;
  return std::min<int64_t>(2, panelsOf(s, stage)) * p.depth *
         (p.rows.width() * bytes(p.rows.value.type()) +
          p.columns.width() * bytes(p.columns.value.type()));
}

TeamSchedule chooseTeam(const GroupPlan& plan, const Target& target, int threads) {
  TeamSchedule out;
  out.threads = threads ? threads : threadsFor(plan, target);
  for (const TileList& list : plan.lists) {
    out.lists.emplace_back();
    for (const Stage& stage : list.stages)
      out.lists.back().push_back(chooseStage(plan, stage, target, out.threads));
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
        out += fmt::format("; product{}{}, panels of {}", operandText(stage, p.rows),
                           operandText(stage, p.columns), p.depth);
      else if (s.group > 1)
        out += fmt::format(" by {} threads", s.group);
      out += " }\n";
    }
  return out + "}\n";
}

}  // namespace tektite
