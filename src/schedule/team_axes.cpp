#include "schedule/team_axes.h"

#include <algorithm>

namespace tektite {

int64_t pointsOf(const Stage& stage, const std::vector<int>& axes) {
  int64_t n = 1;
  for (int i : axes) n *= sizeOf(stage.axes[i]);
  return n;
}

namespace {

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

}  // namespace

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

bool hasInstruction(const Target& target, const std::string& name) {
  const bool known =
      name == "warp.max" || name == "warp.sum" ||
      std::ranges::any_of(kMatrixProducts, [&](const MatrixProduct& m) { return m.name == name; });
  return target.warp == 32 && known && std::ranges::count(target.queues, kCopyQueue);
}

}  // namespace tektite
