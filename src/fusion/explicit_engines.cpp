#include <algorithm>
#include <cmath>

#include "fusion/explicit_evaluation.h"

namespace tektite {
namespace {

constexpr double kDirectFactor = 8;  // an element that is fetched by itself, in bytes of a block

}  // namespace

void ExplicitEvaluation::moveBytes(const std::string& from, const std::string& to, double times,
                                   double each) {
  const MemoryPath* p = target_.path(from, to);
  if (!p) p = target_.path("main", target_.scratch);
  busy_[p->engine] +=
      times * (p->startSeconds / p->channels + (each + p->halfBytes) / p->bytesPerSecond);
}

void ExplicitEvaluation::engines() {
  for (size_t b = 0; b < g_.buffers.size(); b++) {
    if (isScratch(b) || out_.space[b].empty()) continue;
    const bool output = set_.buffers[b].kind == PlanBuffer::Output;
    std::vector<Span> part = out_.regions.buffers[b];
    const int ring = out_.regions.ring[b];
    int depth = out_.held[b];
    if (ring >= 0) {
      part[ring] = newest(part[ring], tiling().sliding);
      depth = depthOf(part);
    }
    const double each = meanPart(part, g_.buffers[b]) * bytes(set_.buffers[b].type.dtype);
    count(output, executions(depth) * each);
    if (output)
      moveBytes(out_.space[b], "main", executions(depth), each);
    else
      moveBytes("main", out_.space[b], executions(depth), each);
  }
  for (size_t s = 0; s < g_.stages.size(); s++) stage(s);
}

void ExplicitEvaluation::stage(size_t s) {
  const StageShape& shape = g_.stages[s];
  const StageWork& w = work_[s];
  const double runs = executions(out_.depth[s]);
  const auto [points, outer, whole] = pointsOf(
      shape, runs, [&](size_t a) { return meanSize(out_.regions.stages[s][a], shape.extents[a]); });
  total_ += points * (w.slots + w.loads + 1);
  base_ += whole * (w.slots + w.loads + 1);
  direct(s, points, outer);
  const double cycle = 1 / target_.hertz;
  const auto vector = [&](double n, double slots) {
    busy_["vector"] +=
        cycle * (runs * std::max(1.0, slots) * target_.vectorStartCycles +
                 n * slots * w.elementBytes / target_.vectorBytes / target_.slotsPerCycle);
  };
  if (facts_.moves[s] && movesFromMain(s, runs)) return;
  if (facts_.products[s]) {
    product(s, runs);
    if (split() && !facts_.itself[s]) {  // to the vector cores, through main memory
      const double size = outer * bytes(set_.stages[s].accumulators[0].combine.types[0]);
      count(true, size);
      count(false, size);
      moveBytes(target_.matrix.result, "main", runs, size / runs);
      moveBytes("main", target_.scratch, runs, size / runs);
    } else if (split()) {
      return;
    }
    for (const Touch& t : shape.writes)
      if (facts_.operands[s].sums >= 0 && out_.space[t.buffer] == target_.matrix.result) return;
    return vector(outer, w.outerSlots + 1);
  }
  vector(points, std::max(1.0, w.slots));
  if (w.outerSlots > 0 || w.outerStores > 0) vector(outer, w.outerSlots + 1);
  out_.cost.slots += points * w.slots + outer * w.outerSlots;
}

void ExplicitEvaluation::direct(size_t s, double points, double outer) {
  const auto one = [&](const Touch& t, bool written, double n) {
    if (isScratch(t.buffer) || !out_.space[t.buffer].empty() || (facts_.moves[s] && !written))
      return;
    const double size = n * bytes(set_.buffers[t.buffer].type.dtype);
    count(written, size);
    if (written)
      moveBytes(target_.scratch, "main", 1, size * kDirectFactor);
    else
      moveBytes("main", target_.scratch, 1, size * kDirectFactor);
  };
  for (const Touch& t : g_.stages[s].reads) one(t, false, points);
  for (const Touch& t : g_.stages[s].writes)
    if (storedByUnit(static_cast<size_t>(t.buffer))) {
      const double size = outer * bytes(set_.buffers[t.buffer].type.dtype);
      count(true, size);
      moveBytes(target_.matrix.result, "main", 1, size);
    } else {
      one(t, true, outer);
    }
}

bool ExplicitEvaluation::movesFromMain(size_t s, double runs) {
  const Touch& t = g_.stages[s].reads[0];
  if (isScratch(t.buffer)) return false;
  double each = bytes(set_.buffers[t.buffer].type.dtype);
  for (size_t d = 0; d < t.dims.size(); d++) {
    const int64_t extent = g_.buffers[t.buffer][d];
    each *= meanSize(spanOf(t.dims[d], out_.regions.stages[s], extent), extent);
  }
  count(false, runs * each);
  moveBytes("main", target_.scratch, runs, each);
  return true;
}

void ExplicitEvaluation::product(size_t s, double runs) {
  const Product& p = *facts_.products[s];
  const StageShape& shape = g_.stages[s];
  const auto size = [&](const std::vector<int>& axes) {
    double n = 1;
    for (int a : axes) n *= meanSize(out_.regions.stages[s][a], shape.extents[a]);
    return n;
  };
  const MatrixUnit& unit = target_.matrix;
  const int element = bytes(p.left.type());
  const double batch = size(p.batch), m = size(p.rows), n = size(p.columns), k = size(p.depth);
  const double blocks = std::ceil(m / unit.rows) * std::ceil(n / unit.columns) *
                        std::ceil(k * element / unit.depthBytes) * (element >= 4 ? unit.wide : 1);
  busy_[unit.engine] +=
      runs * batch * (unit.startCycles + blocks) / (unit.hertz > 0 ? unit.hertz : target_.hertz);
  for (const bool left : {true, false}) {
    const std::string& to = left ? unit.left : unit.right;
    const MemoryPath* path = target_.path(target_.operands, to);
    if (path)
      busy_[path->engine] += runs * batch * (left ? m : n) * k * element / path->bytesPerSecond;
  }
  out_.cost.flops += 2 * runs * batch * m * n * k;
}

}  // namespace tektite
