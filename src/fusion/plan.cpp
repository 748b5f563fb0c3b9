#include "fusion/plan.h"

#include "support/check.h"

namespace tektite {

const PlanBuffer& GroupPlan::buffer(const std::string& name) const {
  for (const PlanBuffer& b : buffers)
    if (b.name == name) return b;
  TEKTITE_CHECK(false, "no buffer '{}' in the plan", name);
  return buffers[0];
}

}  // namespace tektite
