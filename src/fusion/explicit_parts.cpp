#include <algorithm>

#include "fusion/explicit_evaluation.h"

namespace tektite {
namespace {

constexpr int64_t kRefused = int64_t{1} << 50;  // as bytes that no memory has

}  // namespace

void ExplicitEvaluation::sides() {
  waited_.assign(g_.buffers.size(), false);
  if (tiling().sync < 0) return;
  std::vector<bool> before(g_.buffers.size());
  for (size_t s = 0; s < g_.stages.size(); s++)
    for (const bool outer : {false, true})
      for (const int b : outer ? facts_.behind[s] : facts_.here[s])
        if (b >= 0) (isBehind(s) || (isSplit(s) && outer) ? waited_ : before)[b] = true;
  for (size_t b = 0; b < before.size(); b++)
    if (before[b] && waited_[b]) out_.overflow += kRefused;
}

double ExplicitEvaluation::partsOfOne() const {
  return static_cast<double>(counts_[tiling().order[tiling().grid - 1]]);
}

int64_t ExplicitEvaluation::partElements() const {
  const auto s = static_cast<size_t>(tiling().sync);
  int64_t n = 1;
  for (size_t a = 0; a < g_.stages[s].extents.size(); a++)
    if (!g_.stages[s].reduce[a])
      n *= std::clamp<int64_t>(out_.regions.stages[s][a].size, 0, g_.stages[s].extents[a]);
  return n;
}

int64_t ExplicitEvaluation::partBytes() const {
  const int64_t align = m_.level(m_.scratch).align, parts = static_cast<int64_t>(partsOfOne());
  int64_t n = 0;
  for (const int bytes : facts_.partials[static_cast<size_t>(tiling().sync)])
    for (const int64_t times : {int64_t{1}, parts})
      n += (partElements() * times * bytes + align - 1) / align * align;
  return n;
}

void ExplicitEvaluation::splitStage(size_t s, bool behind) {
  const StageShape& shape = g_.stages[s];
  for (const auto* touches : {&shape.reads, &shape.writes})
    for (const Touch& t : *touches)
      if (!isScratch(t.buffer) && !isBrought(t.buffer)) out_.overflow += kRefused;
  at_ = static_cast<size_t>(out_.depth[s]);
  const double runs = executions(out_.depth[s]);
  const auto [points, outer, whole] = pointsOf(
      shape, runs, [&](size_t a) { return meanSize(out_.regions.stages[s][a], shape.extents[a]); });
  const double parts = partsOfOne();
  if (behind) {
    std::vector<VectorWork> joins;
    for (const int bytes : facts_.partials[s]) {
      const double each = outer / runs * parts * bytes;
      count(false, lastTiles() * each);
      moveBytes(m_.main, m_.scratch, lastTiles(), each);
      joins.push_back({1, static_cast<double>(bytes)});
    }
    vector(joins, lastTiles(), outer);
    vector(facts_.outer[s], lastTiles(), outer / parts);
    return;
  }
  const StageWork& w = work_[s];
  total_ += points * (w.slots + w.loads + 1);
  base_ += whole * (w.slots + w.loads + 1);
  vector(facts_.inner[s], runs, points);
  for (const int bytes : facts_.partials[s]) {
    count(true, outer * bytes);
    moveBytes(m_.scratch, m_.main, runs, outer / runs * bytes);
  }
  vector({static_cast<size_t>(facts_.partials[s].size()), VectorWork{1, 4}}, runs, outer);
  out_.cost.slots += points * w.slots + outer * w.outerSlots;
}

}  // namespace tektite
