#pragma once
#include <memory>

#include "fusion/cost.h"
#include "fusion/region.h"

namespace tektite {

/// What follows from a stage as it is, whatever else its group has.
struct StageFacts {
  std::vector<Expr> loads;           ///< as loadsOf
  std::vector<std::string> buffers;  ///< that it touches: the numbers in `shape`
  StageShape shape;
  Hash key;  ///< equal where stages are; zero: not known
};
StageFacts factsOf(const Stage&);
/// Of all stages of a set that hasn't got them.
void findFacts(StageSet&);

/// A stage as it is formed from a value of a body, before it joins others.
struct FormedStage {
  Stage stage;
  std::shared_ptr<const std::vector<Expr>> loads = {};  ///< as loadsOf
  Hash key = {};         ///< of what it is formed from; zero: it is another now
  bool divides = false;  ///< there are quotients or remainders in it
};
/// Stages that were made before, by what they are made from, names included: the sets of nodes that planning asks about mostly begin alike.
struct StageMemory {
  struct Finished {
    Stage stage;
    std::shared_ptr<const StageFacts> facts;
  };
  struct Formed {
    std::vector<FormedStage> stages;
    int axes = 0;  ///< that were named for them
  };
  std::unordered_map<Hash, Formed> formed;
  std::unordered_map<Hash, Finished> finished;
  std::unordered_map<Hash, StageWork> works;
  /// Forgets all where that is much.
  void trim();
};

}  // namespace tektite
