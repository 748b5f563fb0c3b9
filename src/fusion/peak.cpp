#include "fusion/peak.h"

#include <algorithm>

namespace tektite {

Peak peakOf(const Graph& g, const Clusters& clusters) {
  const std::vector<int> order = clusters.order();
  std::vector<int> place(clusters.list.size(), -1);
  for (size_t i = 0; i < order.size(); i++) place[order[i]] = static_cast<int>(i);
  std::vector<int64_t> change(order.size() + 1, 0);
  std::map<Value, int> last;
  for (size_t n = 0; n < g.nodes.size(); n++) {
    if (clusters.of[n] < 0) continue;
    for (const Value& v : clusters.sources(static_cast<int>(n)))
      last[v] = std::max(last[v], place[clusters.of[n]]);
  }
  for (const Value& v : g.outputs) last.erase(v);
  for (const auto& [v, end] : last) {
    const int begin = place[clusters.of[v.node]];
    if (begin == end) continue;  // inside one kernel
    const int64_t size = g.type(v).elements() * bytes(g.type(v).dtype);
    change[static_cast<size_t>(begin)] += size;
    change[static_cast<size_t>(end) + 1] -= size;
  }
  Peak peak;
  int64_t now = 0;
  for (size_t i = 0; i < order.size(); i++) {
    now += change[i];
    if (now > peak.bytes) peak = {now, order[i]};
  }
  return peak;
}

}  // namespace tektite
