// The order of clusters: readers behind what they read, kept so while clusters become one (Pearce & Kelly 2006).
#include <algorithm>
#include <queue>

#include "fusion/clusters.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kMostVisits = 4096;  // of a search for a way round; beyond it, there may be one

}  // namespace

std::vector<int> Clusters::order() const {
  std::vector<int> out, missing(list.size());
  std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>> ready;
  for (int c = 0; c < static_cast<int>(list.size()); c++) {
    if (!list[c].alive) continue;
    missing[c] = static_cast<int>(list[c].before.size());
    if (!missing[c]) ready.push({list[c].nodes.front(), c});
  }
  while (!ready.empty()) {
    const int c = ready.top().second;
    ready.pop();
    out.push_back(c);
    for (int d : list[c].after)
      if (--missing[d] == 0) ready.push({list[d].nodes.front(), d});
  }
  TEKTITE_CHECK(static_cast<long>(out.size()) == alive(), "groups in a cycle: {} of {} ordered",
                out.size(), alive());
  steps += static_cast<int64_t>(out.size());
  return out;
}

void Clusters::rankAll() {
  rank_.assign(list.size(), -1);
  int next = 0;
  for (const int c : order()) rank_[c] = next++;
}

/// A cluster that was part of another one: before or behind it, as they read each other.
void Clusters::rankNextTo(int c, int isNew) {
  const int rank = rank_[c];
  for (int& other : rank_)
    if (other > rank) other++;
  rank_.push_back(rank + 1);
  if (list[c].before.count(isNew)) std::swap(rank_[c], rank_[static_cast<size_t>(isNew)]);
}

int Clusters::wayRound(int a, int b) const {
  const auto [first, last] = rank_[a] < rank_[b] ? std::pair{a, b} : std::pair{b, a};
  std::vector<int> stack;
  std::set<int> seen{first, last};
  for (int c : list[first].after)
    if (c != last) stack.push_back(c);
  while (!stack.empty()) {
    const int c = stack.back();
    stack.pop_back();
    steps++;
    if (rank_[c] > rank_[last] || !seen.insert(c).second) continue;
    if (list[c].after.count(last)) return c;
    if (static_cast<int>(seen.size()) > kMostVisits) return c;
    stack.insert(stack.end(), list[c].after.begin(), list[c].after.end());
  }
  return -1;
}

template <class Next>
std::vector<int> Clusters::reached(int start, int low, int high, const Next& next) const {
  std::vector<int> out, stack{start};
  std::set<int> seen{start};
  while (!stack.empty()) {
    const int c = stack.back();
    stack.pop_back();
    for (const int d : next(list[c])) {
      if (rank_[d] <= low || rank_[d] >= high || !seen.insert(d).second) continue;
      steps++;
      out.push_back(d);
      stack.push_back(d);
    }
  }
  std::ranges::sort(out, {}, [&](int c) { return rank_[c]; });
  return out;
}

/// What is ranked between two that become one: what the second one needs goes before both, what the first one feeds behind.
void Clusters::rankAsOne(int into, int from) {
  const auto [first, last] =
      rank_[into] < rank_[from] ? std::pair{into, from} : std::pair{from, into};
  const int low = rank_[first], high = rank_[last];
  std::vector<int> moved = reached(last, low, high, [](const Cluster& c) { return c.before; });
  const std::vector<int> behind =
      reached(first, low, high, [](const Cluster& c) { return c.after; });
  moved.push_back(into);
  moved.insert(moved.end(), behind.begin(), behind.end());
  std::vector<int> ranks{high};
  for (const int c : moved) ranks.push_back(c == into ? low : rank_[c]);
  std::ranges::sort(ranks);
  for (size_t i = 0; i < moved.size(); i++) rank_[moved[i]] = ranks[i];
}

}  // namespace tektite
