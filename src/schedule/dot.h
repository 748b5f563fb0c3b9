#pragma once
#include <optional>
#include <string>

#include "fusion/plan.h"
#include "ir/target.h"

namespace tektite {

/// How a stage's sum of products of narrow numbers is taken by dot instructions with lanes along an axis.
struct DotChoice {
  int axis;                ///< the reduce axis whose neighbours an instruction takes
  int group;               ///< as many
  std::string row, panel;  ///< operands: the same for all lanes; one for each, always packed
  bool direct;             ///< the row is read where it lies
  double steps;            ///< of what multiplying and adding one by one takes
};
/// Nothing where the target has no such instruction, or the stage isn't i32 sums of products of two 8-bit loads or f32 sums of two of bf16, of
/// which one moves along the lanes.
std::optional<DotChoice> dotAlong(const GroupPlan&, const Stage&, int vectorAxis, const Target&);

}  // namespace tektite
