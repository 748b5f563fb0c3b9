#include "fusion/apart.h"

#include <algorithm>

namespace tektite {

void Apart::cut(const std::vector<int>& first, const std::vector<int>& second, Refusal why) {
  whyCut_.push_back(std::move(why));
  const int side = static_cast<int>(whyCut_.size());
  for (int n : first) sides_[n].push_back(side);
  for (int n : second) sides_[n].push_back(-side);
}

void Apart::keep(const std::vector<int>& nodes, Refusal why) {
  whyKept_.push_back(std::move(why));
  for (int n : nodes) kept_[n] = static_cast<int>(whyKept_.size());
}

void Apart::forgetCuts() {
  if (whyCut_.empty()) return;
  whyCut_.clear();
  sides_.assign(sides_.size(), {});
}

std::optional<Refusal> Apart::between(const std::vector<int>& a, const std::vector<int>& b) const {
  if (!whyCut_.empty()) {
    std::vector<int> sides;
    for (int n : a) sides.insert(sides.end(), sides_[n].begin(), sides_[n].end());
    std::ranges::sort(sides);
    for (int m : b)
      for (int side : sides_[m])
        if (std::ranges::binary_search(sides, -side))
          return whyCut_[static_cast<size_t>(std::abs(side) - 1)];
  }
  if (whyKept_.empty()) return {};
  for (int n : a)
    for (int m : b)
      if (kept_[n] && kept_[n] == kept_[m] &&
          (g_.nodes[n].origin.empty() || g_.nodes[n].origin != g_.nodes[m].origin))
        return whyKept_[static_cast<size_t>(kept_[n] - 1)];
  return {};
}

std::vector<std::pair<int, Refusal>> slowerThanParts(const Clusters& clusters,
                                                     const Clusters& unfused,
                                                     const Profile* profile) {
  std::vector<std::pair<int, Refusal>> out;
  const auto measured = [&](const Clusters& of, const std::vector<int>& nodes) {
    const auto it = profile->seconds.find(of.bodyOf(nodes).graph.hash());
    return it == profile->seconds.end() ? std::nullopt : std::optional(it->second);
  };
  for (int c = 0; c < static_cast<int>(clusters.list.size()) && profile; c++) {
    const Cluster& one = clusters.list[c];
    if (!one.alive || one.nodes.size() < 2 || one.host || one.alone) continue;
    std::set<int> parts;
    for (int n : one.nodes)
      if (unfused.of[n] >= 0) parts.insert(unfused.of[n]);
    const std::optional<double> whole = measured(clusters, one.nodes);
    double apart = 0;
    bool known = whole && parts.size() > 1;
    for (int p : parts) {
      const std::optional<double> part =
          known ? measured(unfused, unfused.list[p].nodes) : std::nullopt;
      known = part.has_value();
      apart += part.value_or(0);
    }
    if (known && *whole > apart)
      out.emplace_back(c, Refusal{Reason::NoGain, apart, *whole, "measured "});
  }
  return out;
}

}  // namespace tektite
