#pragma once
#include <functional>

#include "fusion/fuse.h"
#include "ir/graph.h"

namespace tektite {

/// Chooses the memory order of every value between groups (PlanBuffer::order in the plans of its producer and readers): the axis
/// that products with constant operands have in their constant goes innermost. Whole regions choose together: axes of values that an axis
/// of a stage walks along are one, and so are a product's lanes and what it sums over in its other operand. Graph
/// inputs and outputs, and what host nodes touch, stay row-major. Maps and reductions that touch values of another
/// order are planned again, so that tiles are cut as memory is.
using Replan = std::function<PlanResult(const Graph& body, const Orders&)>;
void chooseLayouts(Graph& ofGroups, const Replan&);

}  // namespace tektite
