#include "runtime/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tektite {
namespace {

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
    if (lifetimes[at].bytes == 0) continue;
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
  std::vector<int> sequence(lifetimes.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  MemoryPlan oldest = place(lifetimes, sequence, align);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](int a, int b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  MemoryPlan largest = place(lifetimes, sequence, align);
  return largest.bytes <= oldest.bytes ? largest : oldest;
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
