#pragma once
#include <functional>

#include "fusion/clusters.h"

namespace tektite {

/// Why two nodes' clusters were not joined: the last word on each pair.
using Refusals = std::map<std::pair<int, int>, Refusal>;

/// The graph of groups from the final clusters, and the ledger.
Fused record(const Graph&, const Clusters&, const Refusals&,
             const std::function<std::shared_ptr<const GroupPlan>(const Clusters::Body&)>& plan,
             const std::function<Refusal(int a, int b)>&
                 why);  ///< of two clusters that no refusal is known of

}  // namespace tektite
