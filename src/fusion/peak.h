#pragma once
#include "fusion/clusters.h"

namespace tektite {

/// Memory for what passes between kernels, were these clusters run in order, each value kept until its last reader. The program's inputs,
/// outputs and constants are not counted: they are there in any case.
struct Peak {
  int64_t bytes = 0;
  int cluster = -1;  ///< that runs when most is alive; -1: nothing ever is
};
Peak peakOf(const Graph&, const Clusters&);

}  // namespace tektite
