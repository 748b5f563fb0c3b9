#include <algorithm>

#include "fusion/stages.h"

namespace tektite {
namespace {

bool reads(const Expr& e, const std::string& buffer) {
  return e && std::ranges::any_of(loadsOf(e),
                                  [&](const Expr& l) { return l.as<Load>()->buffer == buffer; });
}

/// Does the stage read `from` only for this store's value, at this store's element? What the accumulators share with the stored
/// value is computed once, before the store.
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

}  // namespace

void findInPlace(StageSet& set) {
  set.inPlace.assign(set.buffers.size(), -1);
  const auto readLater = [&](size_t stage, const std::string& buffer) {
    for (size_t k = stage + 1; k < set.stages.size(); k++)
      for (const Expr& e : loadsOf(set.stages[k]))
        if (e.as<Load>()->buffer == buffer) return true;
    return false;
  };
  const auto written = [&](const std::string& buffer) {
    long n = 0;
    for (const Stage& s : set.stages)
      for (const auto* stores : {&s.inner, &s.outer})
        n += std::ranges::count(*stores, buffer, &StageStore::buffer);
    return n;
  };
  std::vector<bool> taken(set.buffers.size());
  for (size_t s = 0; s < set.stages.size(); s++)
    for (const auto* stores : {&set.stages[s].inner, &set.stages[s].outer})
      for (const StageStore& store : *stores) {
        const auto to = std::ranges::find(set.buffers, store.buffer, &PlanBuffer::name);
        if (written(store.buffer) > 1 || to->kind != PlanBuffer::Scratch) continue;
        for (size_t b = 0; b < set.buffers.size(); b++) {
          const PlanBuffer& from = set.buffers[b];
          if (from.kind != PlanBuffer::Scratch || taken[b] || !(from.type == to->type) ||
              from.name == to->name)
            continue;
          if (written(from.name) > 1 || readLater(s, from.name) ||
              !readsOnlyThere(set.stages[s], store, from.name))
            continue;
          set.inPlace[static_cast<size_t>(to - set.buffers.begin())] = static_cast<int>(b);
          taken[b] = true;
          break;
        }
      }
}

}  // namespace tektite
