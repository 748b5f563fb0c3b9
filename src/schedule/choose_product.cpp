#include <algorithm>
#include <optional>

#include "schedule/team_axes.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kReadCycles = 0.6;       // an operand from shared memory, among vectors of them
constexpr double kStageCycles = 5;        // an element into shared memory
constexpr double kBarrierCycles = 40;     // a panel's barrier
constexpr double kMatrixCycles = 0.25;    // a tile, a step of the reduction
constexpr double kFragmentCycles = 0.3;   // reading a fragment
constexpr double kMatrixStageCycles = 1;  // pieces of several elements
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

/// How often a block of results is computed, and how many panels each takes.
double blocksOf(const Stage& stage, const TeamProduct& p) {
  double n = static_cast<double>(pointsOf(stage, p.batch));
  for (const TeamOperand* o : {&p.rows, &p.columns})
    n *= static_cast<double>((pointsOf(stage, o->axes) + o->block() - 1) / o->block());
  return n;
}
double panelCount(const Stage& stage, const TeamStage& s, int depth) {
  return static_cast<double>((pointsOf(stage, s.reduce) + depth - 1) / depth);
}

/// Cycles of one execution.
double productCost(const Stage& stage, const TeamStage& s, const TeamProduct& p, int threads) {
  const TeamOperand &r = p.rows, &c = p.columns;
  const double step = r.each * c.each + kReadCycles * (r.each + c.each) +
                      kStageCycles * static_cast<double>(r.block() + c.block()) / threads;
  return blocksOf(stage, p) * (panelCount(stage, s, p.depth) * (p.depth * step + kBarrierCycles) +
                               3.0 * r.each * c.each);
}

/// The same by fragments.
double matrixCost(const Stage& stage, const TeamStage& s, const TeamProduct& p, int threads) {
  const TeamOperand &r = p.rows, &c = p.columns;
  const double wide = bytes(p.matrix->operand) / 2.0;  // twice the bytes, half the rate
  const double rowTiles = r.each / kMatrixRows, columnTiles = c.each / kMatrixColumns,
               results = static_cast<double>(r.block() * c.block()) / threads;
  const double step =
      wide * (kMatrixCycles * rowTiles * columnTiles + kFragmentCycles * (rowTiles + columnTiles) +
              kMatrixStageCycles * static_cast<double>(r.block() + c.block()) / threads);
  return blocksOf(stage, p) * (panelCount(stage, s, p.depth) * (p.depth * step + kBarrierCycles) +
                               2 * kStageCycles * results);
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
    const std::vector<int>& axes = o.blockFirst ? s.reduce : o.axes;
    if (o.alongDepth != o.blockFirst || axes.empty() || o.block() % n || p.depth % n) continue;
    const StageAxis& a = stage.axes[axes.back()];
    const Linear base = linearOf(a.region.base);
    bool whole = a.extent % n == 0 && sizeOf(a) % n == 0 && base.constant % n == 0 &&
                 strideAlong(b, l->index, a.var) == 1 &&
                 inVectors({&b, l->index, false, true}, a.var, n);
    for (const auto& [term, coefficient] : base.terms) whole = whole && coefficient % n == 0;
    if (whole) return n;
  }
  return 0;
}

/// An operand as an instruction takes it, what widens it taken off. Nothing where it is something else.
Expr narrowed(const Expr& value, DType type) {
  const Cast* c = value.as<Cast>();
  const Expr& e = c && value.type() == DType::F32 && type != DType::F32 ? c->arg : value;
  return e.type() == type ? e : Expr();
}

/// Tiles of fragments for each warp, where the target multiplies them and that is sooner than `least` cycles.
void chooseMatrix(const Stage& stage, TeamStage& s, TeamProduct p, const MatrixProduct& unit,
                  double& least, int threads, double room, const Target& target) {
  if (!hasInstruction(target, unit.name)) return;
  p.rows.value = narrowed(p.rows.value, unit.operand);
  p.columns.value = narrowed(p.columns.value, unit.operand);
  const DType type = stage.accumulators[0].combine.types[0];
  if (!p.rows.value || !p.columns.value || (type != DType::F32 && type != unit.operand)) return;
  TeamStage tried = s;
  p.matrix = &unit;
  p.rows.blockFirst = true;
  const int warps = threads / target.warp;
  for (int depth : {unit.depth, 2 * unit.depth, 4 * unit.depth})
    for (int rowTiles : {1, 2, 4})
      for (int columnTiles : {1, 2, 4, 8})
        for (int across = 1; across <= warps; across *= 2) {
          p.depth = depth;
          p.columns.threads = across;
          p.rows.threads = warps / across;
          p.rows.each = rowTiles * kMatrixRows;
          p.columns.each = columnTiles * kMatrixColumns;
          p.rows.width = depth + unit.padding();
          p.columns.width = p.columns.block() + kMatrixPadding;
          tried.product = p;
          if (static_cast<double>(panelBytes(tried, stage)) > room) continue;
          const double cost = matrixCost(stage, s, p, threads);
          if (cost < least) least = cost, s.product = p;
        }
}

}  // namespace

/// The register tile that does it soonest, where that is sooner than threads each on their own.
void chooseProduct(const GroupPlan& plan, const Stage& stage,
                   const std::vector<StageAccess>& accesses, TeamStage& s, double otherwise,
                   int threads, double room, const Target& target, Numerics numerics) {
  const std::optional<TeamProduct> found = productOf(plan, stage, accesses, s);
  if (!found) return;
  TeamProduct p = *found, best;
  const int64_t steps = pointsOf(stage, s.reduce);
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
          for (TeamOperand* o : {&p.rows, &p.columns})
            o->width = o->block() + (o->alongDepth ? kPanelPadding : 0);
          s.product = p;
          if (static_cast<double>(panelBytes(s, stage)) > room) continue;
          const double cost = productCost(stage, s, p, threads);
          if (cost < otherwise) otherwise = cost, best = p;
        }
  }
  s.product = best;
  for (const MatrixProduct& unit : kMatrixProducts)
    if (numerics == Numerics::Fast || (numerics == Numerics::Ordered && unit.operand != DType::F32))
      chooseMatrix(stage, s, *found, unit, otherwise, threads, room, target);
  if (s.product.on() && std::ranges::count(target.queues, kCopyQueue))
    for (TeamOperand* o : {&s.product.rows, &s.product.columns})
      o->copied = copiedAtOnce(plan, stage, s, s.product, *o, threads);
}

int64_t panelsOf(const TeamStage& s, const Stage& stage) {
  return (pointsOf(stage, s.reduce) + s.product.depth - 1) / s.product.depth;
}

int64_t panelBytes(const TeamStage& s, const Stage& stage) {
  const TeamProduct& p = s.product;
  int64_t n = 0;
  for (const TeamOperand* o : {&p.rows, &p.columns})
    n += (o->blockFirst ? o->block() : p.depth) * o->width * bytes(o->value.type());
  n *= std::min<int64_t>(2, panelsOf(s, stage));
  const int64_t results = p.rows.block() * (p.columns.block() + kMatrixPadding) * 4;
  return p.matrix ? std::max(n, results) : n;
}

}  // namespace tektite
