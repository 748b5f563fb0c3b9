#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "fusion/explicit_evaluation.h"
#include "fusion/product_tile.h"

namespace tektite {
namespace {

constexpr double kDirectFactor = 8;  // an element that is fetched by itself, in bytes of a block

}  // namespace

double ExplicitEvaluation::moveSeconds(int from, int to, double bytes) const {
  const MemoryPath* p = m_.path(from, to);
  if (!p) p = m_.path(m_.main, m_.scratch);
  return p->startSeconds / p->channels + (bytes + p->halfBytes) / p->bytesPerSecond;
}

void ExplicitEvaluation::moveBytes(int from, int to, double times, double each) {
  waitFor(from, to, times * (moveSeconds(from, to, each) + target_.latencySeconds));
}

void ExplicitEvaluation::bringOrTake(size_t b, int depth, double each) {
  const bool takes = set_.buffers[b].kind == PlanBuffer::Output, beside = doubled_[b];
  const int from = takes ? space_[b] : m_.main, to = takes ? m_.main : space_[b];
  if (takes && !beside) return moveBytes(from, to, executions(depth), each);
  const double one = moveSeconds(from, to, each);
  at_ = static_cast<size_t>(beside ? depth - 1 : depth);
  if (waits_.emplace(at_, takes).second)
    wait(executions(static_cast<int>(at_)) * target_.latencySeconds);
  if (!beside) return waitFor(from, to, executions(depth) * one);
  beside_[static_cast<size_t>(depth)][m_.engine(from, to)] += executions(depth) * one;
}

double ExplicitEvaluation::pipelined() const {
  double inside = 0;
  std::vector<double> before(m_.engines(), -1);
  for (size_t depth = line_.size(); depth-- > 0;) {
    const int d = static_cast<int>(depth);
    inside += line_[depth];
    double most = 0, all = 0, first = 0;
    for (size_t e = 0; e < before.size(); e++) {
      if (before_[depth][e] >= 0)
        before[e] = before_[depth][e];
      else if (before[e] >= 0)
        before[e] = line_[depth] + before[e] * executions(d) / executions(d + 1);
      const double seconds = beside_[depth][e];
      if (before[e] >= 0) first = std::max(first, seconds - before[e]);
      most = std::max(most, seconds), all += seconds;
    }
    if (all == 0) continue;
    const double tiles = executions(d) / executions(d - 1);
    inside = (inside + all + std::max(inside + first, most) * (tiles - 1)) / tiles;
  }
  return inside;
}

double ExplicitEvaluation::busiest() const {
  std::vector<double> busy(m_.engines());
  double most = 0;
  for (const auto& engines : beside_)
    for (size_t e = 0; e < engines.size(); e++) most = std::max(most, busy[e] += engines[e]);
  return most;
}

void ExplicitEvaluation::engines() {
  line_.assign(tiling().order.size() + 1, 0);
  beside_.resize(line_.size());
  before_.assign(line_.size(), std::vector<double>(m_.engines(), -1));
  for (auto& engines : beside_) engines.assign(m_.engines(), 0);
  oneSide(false);
  if (tiling().sync < 0) return;
  std::vector<double> before = std::exchange(line_, std::vector<double>(line_.size()));
  std::vector<std::vector<double>> waited = before_;
  waits_.clear();
  wait(target_.gridSyncSeconds * lastTiles());
  oneSide(true);
  for (const double seconds : std::exchange(line_, std::move(before))) behind_ += seconds;
  before_ = std::move(waited);
}

void ExplicitEvaluation::oneSide(bool behind) {
  for (size_t b = 0; b < g_.buffers.size(); b++) {
    if (isScratch(b) || !isBrought(b) || waited_[b] != behind) continue;
    const bool output = set_.buffers[b].kind == PlanBuffer::Output;
    std::vector<Span> part = out_.regions.buffers[b];
    const int ring = out_.regions.ring[b];
    int depth = out_.held[b];
    if (ring >= 0) {
      part[ring] = newest(part[ring], tiling().sliding);
      depth = depthOf(part);
    }
    at_ = static_cast<size_t>(depth);
    if (behind) depth--;
    const double each = meanPart(part, g_.buffers[b]) * static_cast<double>(facts_.elementBytes[b]);
    count(output, executions(depth) * each);
    bringOrTake(b, depth, each);
  }
  for (size_t s = 0; s < g_.stages.size(); s++)
    if (isSplit(s))
      splitStage(s, behind);
    else if (isBehind(s) == behind)
      stage(s);
}

void ExplicitEvaluation::vector(const std::vector<VectorWork>& work, double runs, double points) {
  double cycles = 0;
  for (const VectorWork& w : work)
    cycles += w.slots * runs * target_.vectorStartCycles +
              points * w.bytes / target_.vectorBytes / target_.slotsPerCycle;
  wait(cycles / target_.hertz);
}

void ExplicitEvaluation::stage(size_t s) {
  const StageShape& shape = g_.stages[s];
  const StageWork& w = work_[s];
  at_ = static_cast<size_t>(out_.depth[s]);
  const double runs = executions(out_.depth[s] - (isBehind(s) ? 1 : 0));
  const auto [points, outer, whole] = pointsOf(
      shape, runs, [&](size_t a) { return meanSize(out_.regions.stages[s][a], shape.extents[a]); });
  total_ += points * (w.slots + w.loads + 1);
  base_ += whole * (w.slots + w.loads + 1);
  direct(s, points, outer);
  if (isMove(s)) return movesFromMain(s, runs);
  if (facts_.products[s]) {
    const double tiles = product(s, runs);
    if (split() && !facts_.itself[s]) {  // to the vector cores, through main memory
      const double size = outer * bytes(set_.stages[s].accumulators[0].combine.types[0]);
      count(true, size);
      count(false, size);
      moveBytes(m_.result, m_.main, tiles, size / tiles);
      moveBytes(m_.main, m_.scratch, tiles, size / tiles);
    } else if (split()) {
      return;
    }
    for (const Touch& t : shape.writes)
      if (facts_.operands[s].sums >= 0 && space_[t.buffer] == m_.result) return;
    if (!goesOut(s)) vector(facts_.outer[s], tiles, outer);
    return;
  }
  vector(facts_.inner[s], runs, points);
  vector(facts_.outer[s], runs, outer);
  out_.cost.slots += points * w.slots + outer * w.outerSlots;
}

void ExplicitEvaluation::direct(size_t s, double points, double outer) {
  const auto one = [&](const Touch& t, bool written, double n) {
    if (isScratch(t.buffer) || isBrought(t.buffer) || (isMove(s) && !written)) return;
    const double size = n * static_cast<double>(facts_.elementBytes[t.buffer]);
    count(written, size);
    if (written)
      moveBytes(m_.scratch, m_.main, 1, size * kDirectFactor);
    else
      moveBytes(m_.main, m_.scratch, 1, size * kDirectFactor);
  };
  for (const Touch& t : g_.stages[s].reads) one(t, false, points);
  const std::vector<Touch>& writes = g_.stages[s].writes;
  for (size_t w = 0; w < writes.size(); w++) {
    const Touch& t = writes[w];
    if (storedByUnit(static_cast<size_t>(t.buffer))) {
      const double size = outer * static_cast<double>(facts_.elementBytes[t.buffer]);
      count(true, size);
      moveBytes(m_.result, m_.main, 1, size);
    } else {
      one(t, true, w < set_.stages[s].inner.size() ? points : outer);
    }
  }
}

void ExplicitEvaluation::movesFromMain(size_t s, double runs) {
  const Touch& t = g_.stages[s].reads[0];
  double each = static_cast<double>(facts_.elementBytes[t.buffer]);
  for (size_t d = 0; d < t.dims.size(); d++) {
    const int64_t extent = g_.buffers[t.buffer][d];
    each *= meanSize(spanOf(t.dims[d], out_.regions.stages[s], extent), extent);
  }
  count(false, runs * each);
  moveBytes(m_.main, m_.scratch, runs, each);
}

bool ExplicitEvaluation::goesOut(size_t s) const {
  const std::vector<int>& touched = facts_.scaled[s];
  const auto memory = [&](int b) {
    const int shared = out_.sharing[static_cast<size_t>(b)];
    return shared < 0 ? b : shared;
  };
  if (touched.empty() || facts_.operands[s].sums >= 0) return false;
  for (const int b : touched)
    if (b < 0 || space_[static_cast<size_t>(b)] != m_.scratch) return false;
  return std::ranges::none_of(std::span(touched).subspan(1),
                              [&](int b) { return memory(b) == memory(touched[0]); });
}

int64_t ExplicitEvaluation::roomForSums(size_t s) const {
  const int sums = facts_.operands[s].sums;
  const bool carried = sums >= 0 && space_[static_cast<size_t>(sums)] == m_.result;
  const bool others = std::ranges::count(space_, m_.result) > 0;
  return tektite::roomForSums({carried, others, goesOut(s)}, target_);
}

bool ExplicitEvaluation::isFixed(const Span& s, int64_t extent) const {
  int64_t low = s.base, high = s.base + s.size;
  bool moves = false;
  for (size_t j = 0; j < counts_.size(); j++) {
    const int64_t c = s.coefficients[j];
    moves = moves || c != 0;
    if (static_cast<int>(j) == out_.tiling.sliding) low -= c * out_.warm;
    high += c * (counts_[j] - 1);
  }
  return !moves || (low >= 0 && high <= extent);
}

double ExplicitEvaluation::product(size_t s, double runs) {
  const Product& p = *facts_.products[s];
  const StageShape& shape = g_.stages[s];
  std::vector<ProductAxis> axes;
  std::vector<double> size;
  for (size_t a = 0; a < shape.extents.size(); a++) {
    const Span& span = out_.regions.stages[s][a];
    size.push_back(std::max(1.0, meanSize(span, shape.extents[a])));
    const bool fixed = isFixed(span, shape.extents[a]);
    axes.push_back(
        {fixed ? std::llround(size.back()) : std::min(span.size, shape.extents[a]), fixed});
  }
  const ProductTile t =
      tileProduct(set_.stages[s], p, axes, roomForSums(s),
                  !split() && !goesOut(s) && facts_.operands[s].sums < 0, target_);
  const auto of = [&](int axis) { return axis < 0 ? 1.0 : size[static_cast<size_t>(axis)]; };
  const auto product = [&](const std::vector<int>& list) {
    double n = 1;
    for (const int a : list) n *= of(a);
    return n;
  };
  const double rowParts = std::ceil(of(t.row) / static_cast<double>(t.rowBlock)),
               columnParts = std::ceil(of(t.column) / static_cast<double>(t.columnBlock)),
               deepParts = std::ceil(of(t.deep) / static_cast<double>(t.deepBlock));
  const double tiles = product(t.around) * rowParts * columnParts,
               steps = product(t.steps) * deepParts;
  const double m = of(t.row) / rowParts * static_cast<double>(t.flatRowSize),
               n = of(t.column) / columnParts,
               k = of(t.deep) / deepParts * static_cast<double>(t.flatDepthSize);
  double gathered = 1;
  if (t.together >= 0) {
    gathered = rowParts * columnParts;
    for (size_t k = t.around.size() - static_cast<size_t>(t.together); k < t.around.size(); k++)
      gathered *= of(t.around[k]);
  }
  const int element = bytes(p.left.type());
  const double multiply = productSeconds(target_, t.each, m, n, k, element);
  const double feed = moveSeconds(m_.operands, m_.left, m * k * (t.each ? n : 1) * element) +
                      moveSeconds(m_.operands, m_.right, n * k * element);
  if (goesOut(s)) {  // all three at once
    const double each =
        static_cast<double>(facts_.elementBytes[static_cast<size_t>(facts_.scaled[s][0])]);
    const double out = outputSeconds(target_, m * n * each);
    const double longest = std::max({steps * feed, steps * multiply, out});
    wait(runs * (tiles * longest + feed + multiply + out - std::max({feed, multiply, out})));
  } else {
    wait(runs *
         (tiles * steps * std::max(feed, multiply) + tiles / gathered * std::min(feed, multiply)));
  }
  out_.cost.flops += 2 * runs * tiles * steps * m * n * k;
  return runs * tiles / gathered * (gathered > 1 ? rowParts * columnParts : 1);
}

}  // namespace tektite
