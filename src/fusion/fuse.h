#pragma once
#include "fusion/ledger.h"
#include "fusion/plan.h"
#include "fusion/profile.h"
#include "fusion/stack.h"
#include "ir/numerics.h"

namespace tektite {

struct FusionOptions {
  bool unfused =
      false;  ///< one kernel a node of the input model: only nodes of one origin share a group, views stay index maps
  Numerics numerics = Numerics::Ordered;
  bool inlineMove = true, placeMove = true, mergeMove = true;
  int64_t scratchBytes = 0;  ///< 0: the target's
  /// Pairs of names of the input model's nodes, as the ledger has them; "*" in a pair means all others. `cut`: never in one kernel.
  /// `force`: in one kernel, whatever it costs, with all that lies between them. UserError: a name that no node has, a pair that can't.
  std::vector<std::pair<std::string, std::string>> cut, force;
  /// The same as the model itself asks: pairs with a name that no node has are passed over.
  std::vector<std::pair<std::string, std::string>> modelCut, modelForce;
  /// Measured times: a group that was slower than its parts is split. Null: none.
  std::shared_ptr<const Profile> profile;
};

struct Fused {
  Graph
      graph;  ///< of groups, and of nodes that are no kernels (input, const, call, branch, loop, scan)
  Ledger ledger;  ///< a verdict for every producer -> consumer edge of the input graph
  int64_t peakBytes =
      0;              ///< of values between kernels that are alive at once: never more than unfused
  int64_t steps = 0;  ///< of planning: nodes that the oracle was asked about, stages that it costed
};

/// Groups the nodes of a static graph by inline, place and merge (design 2): greedy by gain under the one cost model.
Fused fuse(const Graph&, const Target&, const FusionOptions&);

/// The plan of one group, or why these nodes can't be one kernel. `body`: inputs are the operands, outputs the results.
struct PlanResult {
  std::shared_ptr<const GroupPlan> plan;  // null: refused
  Refusal refusal;
  int64_t steps = 0;
  std::vector<ListTime> lists = {};  ///< of a plan that is no scan
};
using Orders = std::map<
    Value,
    std::vector<int>>;  ///< memory orders of a body's inputs and outputs; others are row-major
PlanResult planGroup(const Graph& body, const Target&, const FusionOptions&, const Orders& = {});

}  // namespace tektite
