#pragma once
#include "lower/lower.h"

namespace tektite {

/// A scan's plan as one kernel: its parts are lowered as any group and put around and inside one serial loop over the steps.
struct LoweredScan {
  LoweredKernel kernel;
  GroupPlan
      plan;  ///< what LoweredKernel's arguments name; Constants have the shape that packing reads
  std::vector<std::pair<GroupPlan, Schedule>> parts;  ///< prepared
};
LoweredScan lowerScan(const GroupPlan&, const Target&, const std::string& kernelName,
                      bool scheduled = true);

}  // namespace tektite
