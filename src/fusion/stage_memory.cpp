#include "fusion/stage_memory.h"

#include <algorithm>

namespace tektite {
namespace {

constexpr size_t kMostStages = 1 << 14;  // that are kept

}  // namespace

StageFacts factsOf(const Stage& s) {
  StageFacts out;
  out.loads = loadsOf(s);
  for (const StageAxis& a : s.axes)
    out.shape.extents.push_back(a.extent), out.shape.reduce.push_back(a.reduce);
  const auto touch = [&](const std::string& buffer, const std::vector<Expr>& index) {
    const auto at = std::ranges::find(out.buffers, buffer);
    const auto number = static_cast<int>(at - out.buffers.begin());
    if (at == out.buffers.end()) out.buffers.push_back(buffer);
    std::vector<AxisSum> dims;
    for (const Expr& e : index) dims.push_back(axisSum(e, s));
    return Touch{number, std::move(dims)};
  };
  for (const Expr& e : out.loads)
    out.shape.reads.push_back(touch(e.as<Load>()->buffer, e.as<Load>()->index));
  for (const auto* stores : {&s.inner, &s.outer})
    for (const StageStore& store : *stores)
      out.shape.writes.push_back(touch(store.buffer, store.index));
  return out;
}

void findFacts(StageSet& set) {
  if (set.facts.size() == set.stages.size()) return;
  set.facts.clear();
  for (const Stage& s : set.stages)
    set.facts.push_back(std::make_shared<const StageFacts>(factsOf(s)));
}

void StageMemory::trim() {
  if (formed.size() + finished.size() + works.size() < kMostStages) return;
  formed.clear();
  finished.clear();
  works.clear();
}

}  // namespace tektite
