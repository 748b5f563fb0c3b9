#include "schedule/schedule.h"
#include "support/check.h"

namespace tektite {

std::string toText(const GroupPlan& plan, const Schedule& schedule) {
  if (schedule.team.threads) return toText(plan, schedule.team);
  std::string out = "schedule {\n";
  for (size_t l = 0; l < schedule.lists.size(); l++)
    for (size_t k = 0; k < schedule.lists[l].size(); k++) {
      const StageSchedule& s = schedule.lists[l][k];
      const Stage& stage = plan.lists[l].stages[k];
      out += fmt::format("  stage {}.{} {{", l, k);
      if (s.vectorAxis >= 0)
        out += fmt::format(" vector {} {}x{};", stage.axes[s.vectorAxis].var, s.vectors, s.lanes);
      if (s.unrollAxis >= 0)
        out += fmt::format(" unroll {} {};", stage.axes[s.unrollAxis].var, s.unroll);
      if (s.round > 1) out += fmt::format(" round {};", s.round);
      if (s.slide)
        out += fmt::format(" slide {} {};", stage.axes[static_cast<size_t>(s.slide->axis)].var,
                           s.slide->taps);
      out += " order";
      for (int i : s.order) out += " " + stage.axes[i].var;
      for (const std::string& p : s.packed) out += "; pack " + p;
      if (s.dotAxis >= 0) out += fmt::format("; dot {} {}", stage.axes[s.dotAxis].var, s.group);
      if (!s.fetched.empty()) out += "; ahead " + s.fetched;
      for (const StageSchedule::Ahead& a : s.ahead)
        out += fmt::format("; ahead {}", a.element.as<Load>()->buffer);
      if (s.across) out += "; across";
      out += s.stream ? "; stream }\n" : " }\n";
    }
  return out + "}\n";
}

}  // namespace tektite
