#pragma once
#include <functional>

#include "fusion/clusters.h"

namespace tektite {

/// Memory for what passes between kernels, were these clusters run in order, each value kept until its last reader, and for what kernels keep
/// in main memory while they run (`own`, of a cluster). The program's inputs, outputs and constants are not counted: they are there in any
/// case. `exact`: as the arena will be, where maps take the place of what they read, and what frees a place may leave a gap.
class PeakMemory {
 public:
  PeakMemory(const Graph&, const Clusters&, bool exact,
             const std::function<int64_t(int cluster)>& own);
  int64_t bytes() const;  ///< when most is alive
  int64_t arena() const;  ///< of one memory that holds it all
  bool fits(int64_t most) const { return bytes() <= most && (!exact_ || arena() <= most); }
  /// The clusters that run while more than that is alive; where never more is, but gaps between places are too much, when most is alive.
  std::vector<int> over(int64_t most) const;
  std::vector<int> holding(
      int cluster) const;  ///< those that write or read last what is alive while it runs
  /// Places where the cluster's nodes could be cut in two kernels, by how much would be alive then, least first: how many nodes come before.
  std::vector<size_t> cuts(int cluster) const;

 private:
  struct Use {
    Value value;
    int64_t size;
    int begin, end;  ///< places in the order of its writer and last reader
  };
  const Graph& g_;
  const Clusters& clusters_;
  const bool exact_;
  std::vector<int> order_, place_;
  std::vector<int64_t> alive_, own_;  ///< [place]
  std::vector<Use> uses_;             ///< of values that pass between kernels
};

/// Bytes that a kernel keeps in main memory while it runs: scratch of teams that shared memory doesn't hold, and what a scan keeps from step
/// to step.
int64_t mainScratchOf(const GroupPlan&, const Target&);

}  // namespace tektite
