#include "schedule/coalescing.h"

#include <algorithm>

#include "schedule/layout.h"

namespace tektite {
namespace {

bool inMain(const PlanBuffer& b) { return b.kind != PlanBuffer::Scratch || b.space == "main"; }

bool follows(const Stage& stage, const StageAccess& a, const std::vector<int>& axes) {
  return std::ranges::any_of(axes, [&](int i) {
    return strideAlong(*a.buffer, a.index, stage.axes[static_cast<size_t>(i)].var) != 0;
  });
}

/// The operand of a product that the access reads; null: it is none's.
const TeamOperand* operandOf(const Stage& stage, const TeamStage& s, const StageAccess& a) {
  if (!s.product.on() || a.isStore || !a.reduced) return nullptr;
  return follows(stage, a, s.product.rows.axes) ? &s.product.rows : &s.product.columns;
}

/// The axis along which neighbours among the threads lie; -1: the access is one thread's.
int axisOf(const TeamStage& s, const StageAccess& a, const TeamOperand* operand) {
  const auto last = [](const std::vector<int>& axes) { return axes.empty() ? -1 : axes.back(); };
  if (operand) return last(operand->alongDepth ? s.reduce : operand->axes);
  if (s.product.on()) return last(s.product.columns.axes);
  if (s.group > 1 && a.reduced) return last(s.reduce);
  return last(s.dealt);
}

}  // namespace

AccessCounts& AccessCounts::operator+=(const AccessCounts& o) {
  wide += o.wide;
  together += o.together;
  same += o.same;
  apart += o.apart;
  return *this;
}

AccessCounts countAccesses(const GroupPlan& plan, const TeamSchedule& schedule) {
  AccessCounts out;
  for (size_t l = 0; l < plan.lists.size(); l++)
    for (size_t k = 0; k < plan.lists[l].stages.size(); k++) {
      const Stage& stage = plan.lists[l].stages[k];
      const TeamStage& s = schedule.lists[l][k];
      for (const StageAccess& a : accessesOf(plan, stage)) {
        if (!inMain(*a.buffer)) continue;
        const TeamOperand* operand = operandOf(stage, s, a);
        const int axis = axisOf(s, a, operand);
        const auto step =
            axis < 0 ? 0
                     : strideAlong(*a.buffer, a.index, stage.axes[static_cast<size_t>(axis)].var);
        const bool wide = operand ? operand->copied > 1 : !s.product.on() && s.vector > 1;
        (step == 0                 ? out.same
         : step != 1 && step != -1 ? out.apart
         : wide                    ? out.wide
                                   : out.together)++;
      }
    }
  return out;
}

TeamFacts factsOf(const GroupPlan& plan, const TeamSchedule& schedule, int values) {
  return {countAccesses(plan, schedule), estimateRegisters(schedule, values)};
}

int estimateRegisters(const TeamSchedule& schedule, int values) {
  constexpr int kAddresses = 12, kLanes = 32;
  int most = 0;
  for (const auto& list : schedule.lists)
    for (const TeamStage& s : list) {
      const TeamProduct& p = s.product;
      const int results = p.rows.each * p.columns.each, sides = p.rows.each + p.columns.each;
      const int held =
          !p.on()    ? values * s.vector
          : p.matrix ? (results + sides * p.matrix->depth * bytes(p.matrix->operand) / 4) / kLanes
                     : results + sides;
      most = std::max(most, held);
    }
  return kAddresses + most;
}

}  // namespace tektite
