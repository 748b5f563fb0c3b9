#pragma once
#include <optional>

#include "fusion/clusters.h"

namespace tektite {

/// What may not be joined again: the sides of cuts through kernels, and nodes of kernels that were measured slower than their parts.
class Apart {
 public:
  explicit Apart(const Graph& g) : g_(g), sides_(g.nodes.size()), kept_(g.nodes.size()) {}
  void cut(const std::vector<int>& first, const std::vector<int>& second, Refusal why);
  void keep(const std::vector<int>& nodes,
            Refusal why);  ///< each by itself, but for those of one origin
  void keep(const std::vector<std::vector<int>>& parts, Refusal why);  ///< each part by itself
  void forgetCuts();
  bool hasCuts() const { return !whyCut_.empty(); }
  void takeCuts(const Apart& from) { sides_ = from.sides_, whyCut_ = from.whyCut_; }
  /// Why these two sets of nodes are no one kernel, if that is so.
  std::optional<Refusal> between(const std::vector<int>& a, const std::vector<int>& b) const;

 private:
  const Graph& g_;
  std::vector<std::vector<int>>
      sides_;  // of each node: the cuts that it lies before, and with a minus, behind
  std::vector<Refusal> whyCut_;
  /// Of each node: the places of reasons, and the part that it lies in there.
  std::vector<std::vector<std::pair<int, int>>> kept_;
  std::vector<Refusal> whyKept_;
};

/// Kernels for which a profile has a longer time than for all their parts, with the reason.
std::vector<std::pair<int, Refusal>> slowerThanParts(const Clusters&, const Clusters& unfused,
                                                     const Profile*);

}  // namespace tektite
