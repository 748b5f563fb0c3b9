#include <algorithm>
#include <unordered_map>

#include "fusion/stage_memory.h"

namespace tektite {
namespace {

bool reads(const Expr& e, const std::string& buffer) {
  return e && std::ranges::any_of(loadsOf(e),
                                  [&](const Expr& l) { return l.as<Load>()->buffer == buffer; });
}

}  // namespace

bool readsOnlyThere(const Stage& s, const StageStore& store, const std::string& from) {
  for (const Expr& l : loadsOf(store.value))
    if (l.as<Load>()->buffer == from && !(l.as<Load>()->index == store.index)) return false;
  for (const auto* stores : {&s.inner, &s.outer})
    for (const StageStore& other : *stores)
      if (&other != &store && reads(other.value, from)) return false;
  for (const Accumulator& a : s.accumulators)
    for (const Expr& e : a.values) {
      const Expr rest = rewrite(
          e, [&](const Expr& x) { return x == store.value ? var("stored", x.type()) : Expr(); });
      if (reads(rest, from)) return false;
    }
  return reads(store.value, from) && !store.guard;
}

void findInPlace(StageSet& set) {
  const size_t n = set.buffers.size();
  set.inPlace.assign(n, -1);
  findFacts(set);
  std::unordered_map<std::string_view, size_t> number;
  for (size_t b = 0; b < n; b++) number[set.buffers[b].name] = b;
  std::vector<std::vector<size_t>> read(set.stages.size());  // [stage] buffers
  std::vector<size_t> lastRead(n), written(n);
  for (size_t s = 0; s < set.stages.size(); s++) {
    const StageFacts& facts = *set.facts[s];
    std::vector<size_t> numbers;
    for (const std::string& name : facts.buffers) numbers.push_back(number.at(name));
    const auto of = [&](const Touch& t) { return numbers[static_cast<size_t>(t.buffer)]; };
    for (const Touch& t : facts.shape.reads) lastRead[of(t)] = s, read[s].push_back(of(t));
    for (const Touch& t : facts.shape.writes) written[of(t)]++;
  }
  std::vector<bool> taken(n);
  for (size_t s = 0; s < set.stages.size(); s++) {
    std::vector<size_t>& from = read[s];  // those that may be overwritten, each once
    std::erase_if(from, [&](size_t b) {
      return set.buffers[b].kind != PlanBuffer::Scratch || written[b] > 1 || lastRead[b] > s;
    });
    std::ranges::sort(from);
    from.erase(std::unique(from.begin(), from.end()), from.end());
    if (from.empty()) continue;
    for (const auto* stores : {&set.stages[s].inner, &set.stages[s].outer})
      for (const StageStore& store : *stores) {
        const size_t at = number.at(store.buffer);
        const PlanBuffer& to = set.buffers[at];
        if (written[at] > 1 || to.kind != PlanBuffer::Scratch) continue;
        const auto into = std::ranges::find_if(from, [&](size_t b) {
          return !taken[b] && b != at && set.buffers[b].type == to.type &&
                 readsOnlyThere(set.stages[s], store, set.buffers[b].name);
        });
        if (into == from.end()) continue;
        set.inPlace[at] = static_cast<int>(*into);
        taken[*into] = true;
      }
  }
}

}  // namespace tektite
