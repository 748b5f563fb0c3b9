#include <algorithm>
#include <set>
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
  set.inPlace.assign(set.buffers.size(), -1);
  findFacts(set);
  std::unordered_map<std::string_view, size_t> number, lastRead, written;
  for (size_t b = 0; b < set.buffers.size(); b++) number[set.buffers[b].name] = b;
  for (size_t s = 0; s < set.stages.size(); s++) {
    const StageFacts& facts = *set.facts[s];
    const auto name = [&](const Touch& t) -> std::string_view {
      return facts.buffers[static_cast<size_t>(t.buffer)];
    };
    for (const Touch& t : facts.shape.reads) lastRead[name(t)] = s;
    for (const Touch& t : facts.shape.writes) written[name(t)]++;
  }
  std::vector<bool> taken(set.buffers.size());
  const auto isFree = [&](size_t b, const PlanBuffer& to, size_t stage) {
    const PlanBuffer& from = set.buffers[b];
    return from.kind == PlanBuffer::Scratch && !taken[b] && from.type == to.type &&
           from.name != to.name && written[from.name] <= 1 && lastRead[from.name] <= stage;
  };
  for (size_t s = 0; s < set.stages.size(); s++)
    for (const auto* stores : {&set.stages[s].inner, &set.stages[s].outer})
      for (const StageStore& store : *stores) {
        const PlanBuffer& to = set.buffers[number.at(store.buffer)];
        if (written[store.buffer] > 1 || to.kind != PlanBuffer::Scratch) continue;
        std::set<size_t> sources;
        for (const Expr& e : loadsOf(store.value)) sources.insert(number.at(e.as<Load>()->buffer));
        for (size_t b : sources) {
          if (!isFree(b, to, s) || !readsOnlyThere(set.stages[s], store, set.buffers[b].name))
            continue;
          set.inPlace[number.at(store.buffer)] = static_cast<int>(b);
          taken[b] = true;
          break;
        }
      }
}

}  // namespace tektite
