#include "runtime/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tektite {
namespace {

constexpr int64_t kAlign = 64;  // bytes: a cache line, and the widest vector

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// The smallest gap between the placed buffers that are alive with `lifetimes[at]`; behind them where none fits.
int64_t bestOffset(const std::vector<Lifetime>& lifetimes, const std::vector<int>& byOffset,
                   const MemoryPlan& plan, int at) {
  const int64_t bytes = aligned(lifetimes[at].bytes);
  int64_t end = 0, best = -1, smallest = 0;
  for (int other : byOffset) {
    if (!overlap(lifetimes[at], lifetimes[other])) continue;
    const int64_t gap = plan.offsets[other] - end;
    if (gap >= bytes && (best < 0 || gap < smallest)) {
      best = end;
      smallest = gap;
    }
    end = std::max(end, plan.offsets[other] + aligned(lifetimes[other].bytes));
  }
  return best >= 0 ? best : end;
}

MemoryPlan place(const std::vector<Lifetime>& lifetimes, const std::vector<int>& sequence) {
  MemoryPlan plan;
  plan.offsets.resize(lifetimes.size());
  std::vector<int> byOffset;
  for (int at : sequence) {
    if (lifetimes[at].bytes == 0) continue;
    plan.offsets[at] = bestOffset(lifetimes, byOffset, plan, at);
    plan.bytes = std::max(plan.bytes, plan.offsets[at] + aligned(lifetimes[at].bytes));
    const auto where = std::upper_bound(byOffset.begin(), byOffset.end(), at, [&](int a, int b) {
      return plan.offsets[a] < plan.offsets[b];
    });
    byOffset.insert(where, at);
  }
  return plan;
}

}  // namespace

MemoryPlan planMemory(const std::vector<Lifetime>& lifetimes) {
  std::vector<int> sequence(lifetimes.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  MemoryPlan oldest = place(lifetimes, sequence);
  std::stable_sort(sequence.begin(), sequence.end(),
                   [&](int a, int b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  MemoryPlan largest = place(lifetimes, sequence);
  return largest.bytes <= oldest.bytes ? largest : oldest;
}

int64_t leastMemory(const std::vector<Lifetime>& lifetimes) {
  std::map<int, int64_t> change;  // of what is alive, at a step
  for (const Lifetime& l : lifetimes) {
    change[l.first] += aligned(l.bytes);
    change[l.last + 1] -= aligned(l.bytes);
  }
  int64_t alive = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, alive += bytes);
  return most;
}

}  // namespace tektite
