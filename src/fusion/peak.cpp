#include "fusion/peak.h"

#include <algorithm>
#include <numeric>

#include "fusion/cost.h"
#include "fusion/stages.h"
#include "ir/bytes.h"
#include "support/memory_plan.h"

namespace tektite {

PeakMemory::PeakMemory(const Graph& g, const Clusters& clusters, bool exact,
                       const std::function<int64_t(int)>& own)
    : g_(g),
      clusters_(clusters),
      exact_(exact),
      order_(clusters.order()),
      place_(clusters.list.size(), -1),
      alive_(order_.size()) {
  for (size_t i = 0; i < order_.size(); i++) place_[order_[i]] = static_cast<int>(i);
  for (const int c : order_) own_.push_back(own(c));
  const ValueNumbers& numbers = clusters.values();
  std::vector<int> last(numbers.size(), -1);
  for (size_t n = 0; n < g.nodes.size(); n++)
    if (clusters.of[n] >= 0)
      for (const Value& v : clusters.sources(static_cast<int>(n)))
        last[numbers.of(v)] = std::max(last[numbers.of(v)], place_[clusters.of[n]]);
  for (const Value& v : g.outputs) last[numbers.of(v)] = -1;
  std::vector<int> use(numbers.size(), -1);  // [value]
  for (size_t i = 0; i < order_.size(); i++) {
    const Cluster& cluster = clusters.list[order_[i]];
    const int here = static_cast<int>(i);
    const InPlace* over = exact ? &clusters.inPlace(order_[i]) : nullptr;
    for (const int n : cluster.nodes)
      for (int r = 0; r < static_cast<int>(g.nodes[n].results.size()); r++) {
        const Value v{n, r};
        const int end = last[numbers.of(v)];
        if (end < 0 || end == here) continue;  // no intermediate, or inside one kernel
        int& mine = use[numbers.of(v)];
        if (over && over->result == v)
          for (const Value& from : over->from)
            if (const int its = use[numbers.of(from)];
                mine < 0 && its >= 0 && uses_[static_cast<size_t>(its)].end == here)
              mine = its;
        if (mine < 0) {
          mine = static_cast<int>(uses_.size());
          uses_.push_back({v, bytesOf(g.type(v)), here, end});
        }
        uses_[static_cast<size_t>(mine)].end = end;
      }
  }
  std::vector<int64_t> change(order_.size() + 1);
  for (const Use& u : uses_) {
    change[static_cast<size_t>(u.begin)] += u.size;
    change[static_cast<size_t>(u.end) + 1] -= u.size;
  }
  std::partial_sum(change.begin(), change.end() - 1, alive_.begin());
  for (size_t i = 0; i < alive_.size(); i++) alive_[i] += own_[i];
}

int64_t PeakMemory::arena() const {
  std::vector<Lifetime> lives;
  for (const Use& u : uses_) lives.push_back({u.size, u.begin, u.end});
  for (int i = 0; i < static_cast<int>(own_.size()); i++)
    lives.push_back({own_[static_cast<size_t>(i)], i, i});
  return planMemory(lives).bytes;
}

int64_t PeakMemory::bytes() const { return alive_.empty() ? 0 : *std::ranges::max_element(alive_); }

std::vector<int> PeakMemory::over(int64_t most) const {
  std::vector<int> out;
  const int64_t bound = std::min(most, bytes() - 1);
  for (size_t i = 0; i < order_.size(); i++)
    if (alive_[i] > bound) out.push_back(order_[i]);
  return out;
}

std::vector<int> PeakMemory::holding(int cluster) const {
  std::set<int> out;
  for (const Use& u : uses_)
    if (u.begin <= place_[cluster] && u.end >= place_[cluster])
      out.insert({order_[static_cast<size_t>(u.begin)], order_[static_cast<size_t>(u.end)]});
  return {out.begin(), out.end()};
}

std::vector<size_t> PeakMemory::cuts(int cluster) const {
  const std::vector<int>& nodes = clusters_.list[cluster].nodes;
  const int here = place_[cluster];
  const size_t count = nodes.size();
  const auto at = [&](int node) {
    return static_cast<size_t>(std::ranges::lower_bound(nodes, node) - nodes.begin());
  };
  const auto lastInside = [&](const Value& v) {
    size_t last = 0;
    for (int reader : clusters_.readers(v))
      if (clusters_.of[reader] == cluster) last = std::max(last, at(reader));
    return last;
  };
  // What is alive in the first part and in the second, where the cut is before node p.
  std::vector<int64_t> first(count + 1), second(count + 1);
  const auto add = [&](std::vector<int64_t>& to, size_t from, size_t until, int64_t size) {
    for (size_t p = from; p < until; p++) to[p] += size;
  };
  const size_t end = count + 1;
  for (const Use& u : uses_) {
    if (u.begin > here || u.end < here || clusters_.of[u.value.node] == cluster) continue;
    add(first, 0, end, u.size);
    add(second, 0, u.end > here ? end : lastInside(u.value) + 1, u.size);
  }
  for (size_t i = 0; i < count; i++)
    for (int r = 0; r < static_cast<int>(g_.nodes[nodes[i]].results.size()); r++) {
      const Value v{nodes[i], r};
      const bool outside = std::ranges::any_of(
          clusters_.readers(v), [&](int reader) { return clusters_.of[reader] != cluster; });
      if (std::ranges::count(g_.outputs, v)) continue;
      const int64_t size = bytesOf(g_.type(v));
      const size_t until =
          outside ? end : lastInside(v) + 1;  // a cut behind its last reader leaves it inside
      add(first, i + 1, until, size);
      add(second, outside ? 0 : i + 1, until, size);
    }
  std::vector<size_t> out(count > 0 ? count - 1 : 0);
  std::iota(out.begin(), out.end(), 1);
  const auto worst = [&](size_t p) { return std::max(first[p], second[p]); };
  const auto middle = [&](size_t p) { return p > count - p ? p - (count - p) : (count - p) - p; };
  std::ranges::sort(out, {}, [&](size_t p) { return std::pair(worst(p), middle(p)); });
  return out;
}

int64_t mainScratchOf(const GroupPlan& plan, const Target& target) {
  int64_t all = 0;
  if (plan.scan) {
    for (const PlanBuffer& b : plan.buffers)
      if (b.kind == PlanBuffer::Scratch) all += bytesOf(b.type);
    return all;
  }
  const Level* shared = target.kind == "gpu" ? target.level("shared") : nullptr;
  for (const TileList& list : plan.lists) {
    if (!shared) break;
    int64_t tiles = 1, room = shared->bytes - kPanelBytes;
    for (const TileAxis& t : list.tiles)
      if (t.grid) tiles *= t.count();
    const std::set<std::string> used = buffersOf(list.stages);
    std::vector<int64_t> sizes;
    for (const PlanBuffer& b : plan.buffers) {
      if (b.kind != PlanBuffer::Scratch || !used.count(b.name)) continue;
      sizes.push_back(bytes(b.type.dtype));
      for (const Region& r : b.region) sizes.back() *= std::max<int64_t>(r.size, 0);
    }
    std::ranges::sort(sizes);  // the smallest lie in shared memory
    for (const int64_t n : sizes)
      if ((room -= n) < 0) all += n * tiles;
  }
  return all;
}

}  // namespace tektite
