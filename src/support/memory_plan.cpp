#include "support/memory_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tektite {
namespace {

constexpr size_t kMostSearches = 512;   // for a plan that needs no more than the least
constexpr size_t kMostLooks = 1 << 21;  // in them, at pairs of buffers

int64_t aligned(int64_t bytes, int64_t align) { return (bytes + align - 1) / align * align; }

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// The smallest gap between the placed buffers that are alive with `lifetimes[at]`; behind them where none fits.
int64_t bestOffset(const std::vector<Lifetime>& lifetimes, const std::vector<int>& byOffset,
                   const MemoryPlan& plan, int at, int64_t align) {
  const int64_t bytes = aligned(lifetimes[at].bytes, align);
  int64_t end = 0, best = -1, smallest = 0;
  for (int other : byOffset) {
    if (!overlap(lifetimes[at], lifetimes[other])) continue;
    const int64_t gap = plan.offsets[other] - end;
    if (gap >= bytes && (best < 0 || gap < smallest)) {
      best = end;
      smallest = gap;
    }
    end = std::max(end, plan.offsets[other] + aligned(lifetimes[other].bytes, align));
  }
  return best >= 0 ? best : end;
}

MemoryPlan place(const std::vector<Lifetime>& lifetimes, const std::vector<int>& sequence,
                 int64_t align) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<int> byOffset;
  for (int at : sequence) {
    plan.offsets[at] = bestOffset(lifetimes, byOffset, plan, at, align);
    plan.bytes = std::max(plan.bytes, plan.offsets[at] + aligned(lifetimes[at].bytes, align));
    const auto where = std::upper_bound(byOffset.begin(), byOffset.end(), at, [&](int a, int b) {
      return plan.offsets[a] < plan.offsets[b];
    });
    byOffset.insert(where, at);
  }
  return plan;
}

}  // namespace

MemoryPlan planMemory(const std::vector<Lifetime>& lifetimes, int64_t align) {
  std::vector<int> sequence;
  for (size_t at = 0; at < lifetimes.size(); at++)
    if (lifetimes[at].bytes > 0) sequence.push_back(static_cast<int>(at));
  std::ranges::stable_sort(sequence, {}, [&](int at) {  // however they are numbered
    const Lifetime& l = lifetimes[at];
    return std::tuple(l.first, -l.bytes, l.last);
  });
  MemoryPlan best = place(lifetimes, sequence, align);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](int a, int b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  MemoryPlan plan = place(lifetimes, sequence, align);
  const int64_t least = leastMemory(lifetimes, align);
  const size_t looks = sequence.size() * sequence.size() + 1;
  for (size_t round = 0;; round++) {
    if (plan.bytes <= best.bytes) best = plan;
    if (best.bytes == least || round == std::min(kMostSearches, kMostLooks / looks)) return best;
    const auto highest = std::ranges::find_if(sequence, [&](int at) {
      return plan.offsets[at] + aligned(lifetimes[at].bytes, align) == plan.bytes;
    });
    std::rotate(sequence.begin(), highest, highest + 1);
    plan = place(lifetimes, sequence, align);
  }
}

int64_t leastMemory(const std::vector<Lifetime>& lifetimes, int64_t align) {
  std::map<int, int64_t> change;  // of what is alive, at a step
  for (const Lifetime& l : lifetimes) {
    change[l.first] += aligned(l.bytes, align);
    change[l.last + 1] -= aligned(l.bytes, align);
  }
  int64_t alive = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, alive += bytes);
  return most;
}

}  // namespace tektite
