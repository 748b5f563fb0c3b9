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
  std::map<std::string, size_t> ofOrigin;
  std::vector<std::vector<int>> parts;
  for (int n : nodes) {
    const std::string& origin = g_.nodes[n].origin;
    const auto [it, isNew] = ofOrigin.emplace(origin, parts.size());
    if (origin.empty() || isNew)
      parts.push_back({n});
    else
      parts[it->second].push_back(n);
  }
  keep(parts, std::move(why));
}
void Apart::keep(const std::vector<std::vector<int>>& parts, Refusal why) {
  const int place = static_cast<int>(whyKept_.size());
  whyKept_.push_back(std::move(why));
  for (size_t p = 0; p < parts.size(); p++)
    for (int n : parts[p]) kept_[n].emplace_back(place, static_cast<int>(p));
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
  std::map<int, std::set<int>> parts;
  for (int n : a)
    for (const auto& [place, part] : kept_[n]) parts[place].insert(part);
  for (int m : b)
    for (const auto& [place, part] : kept_[m])
      if (const auto it = parts.find(place);
          it != parts.end() && (it->second.size() > 1 || !it->second.count(part)))
        return whyKept_[static_cast<size_t>(place)];
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
