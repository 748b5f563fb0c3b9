#pragma once
#include <optional>

#include "fusion/cost.h"
#include "fusion/defs.h"
#include "fusion/fuse.h"
#include "fusion/stage_memory.h"
#include "fusion/stages.h"

namespace tektite {

/// What planning of one graph keeps between the groups that it asks about.
struct PlanMemory {
  std::map<Hash, std::shared_ptr<const Fused>> bodies;  ///< of scans, fused, by what they compute
  StageMemory stages;
};
/// One tile list as the search decided it.
struct DraftList {
  StageSet set;
  GroupShape shape;
  Tiled tiled;
};
/// What is known of a plan before it is written: enough to compare it with others.
struct Draft {
  std::vector<DraftList> lists;
  std::vector<std::string> buffers;  ///< of all lists, in the plan's order but for their kinds
  std::vector<ListTime> times;       ///< of each list
  Cost cost;
  bool canonical = false;
  std::shared_ptr<const GroupPlan> made;  ///< of a recurrence: instead of lists
  std::shared_ptr<const GroupPlan> plan(const Target&) &&;
};
struct Drafted {
  std::optional<Draft> draft;  ///< none: refused
  Refusal refusal;
  int64_t steps = 0;
};
/// With the access forms at hand, one a node of the body.
Drafted draftBody(const Graph& body, const AccessOf&, const Target&, const FusionOptions&,
                  PlanMemory&, const Orders& = {});
/// planGroup, likewise.
PlanResult planBody(const Graph& body, const AccessOf&, const Target&, const FusionOptions&,
                    PlanMemory&, const Orders& = {});
/// As accessOf; null: has none.
std::shared_ptr<const Access> sharedAccess(const Graph&, int node);
AccessOf accessesOf(const Graph&);

}  // namespace tektite
