#pragma once
#include <functional>

#include "ir/kernel.h"

namespace tektite {

/// The block with every function expanded into arithmetic; `fast`: by the shorter forms.
Block expandFunctions(const Block&, bool fast);

/// A condition as two that both hold: what is the same for all lanes, and the rest.
struct LaneCondition {
  Expr same, each;
};
LaneCondition splitByLanes(const Expr& condition, const std::function<bool(const Expr&)>& varies);

}  // namespace tektite
