#pragma once
#include <unordered_map>

#include "fusion/clusters.h"

namespace tektite {

/// What the oracle said of a set of nodes.
struct Trial {
  double seconds = 0;
  Cost cost;
  double tiles = 1;
  Refusal refusal;              ///< they can't be one kernel at all
  std::vector<ListTime> lists;  ///< a scan has none
  mutable std::shared_ptr<Draft>
      draft;  ///< where they may become one, and nobody wanted the plan so far
};

/// Asks the oracle about sets of nodes of one graph, each once: equal sets, whatever they are called and wherever they stand, have one answer.
class Trials {
 public:
  Trials(const Graph&, const Target&, const FusionOptions&, PlanMemory&);
  const Trial& of(const Clusters&, const std::vector<int>& nodes);
  /// Of a cluster's plan, which then knows them.
  double secondsOf(Clusters&, int cluster);
  int64_t mainBytesOf(Clusters&, int cluster);  ///< of scratch in main memory, likewise
  /// What the oracle would say of two sets of nodes that have no value in common: their tile lists in one kernel.
  Trial stacked(const Trial&, const Trial&) const;
  /// Why these nodes are better no kernel, given the seconds that their parts take; no reason: they are. What is better none is no longer
  /// kept ready.
  Refusal verdict(const Trial&, double apart);
  /// The plan of a group that can be one kernel.
  std::shared_ptr<const GroupPlan> planOf(const Clusters::Body&);
  int64_t steps = 0;  ///< as Fused::steps

 private:
  void findAccesses();
  Hash keyOf(const std::vector<int>& inside, const std::vector<Value>& outputs);
  Hash keyOf(const Clusters::Body&);
  AccessOf accessOfBody(const Clusters::Body&) const;
  Drafted drafted(const Clusters::Body&);
  Refusal judged(const Trial&, double apart) const;

  const Graph& g_;
  const Target& target_;
  const FusionOptions& options_;
  PlanMemory& memory_;
  const ValueNumbers values_;
  AccessOf access_;
  std::vector<Hash> nodeHash_, valueHash_;  ///< of what nodes compute; of values from outside
  std::unordered_map<Hash, Trial> trials_;
  std::unordered_map<Hash, std::shared_ptr<const GroupPlan>> plans_;
  // Of keyOf, which keeps its memory: the number of a value in the set, good where `seen_` is that of this call
  std::vector<uint64_t> numbers_, seen_;
  uint64_t calls_ = 0;
};

}  // namespace tektite
