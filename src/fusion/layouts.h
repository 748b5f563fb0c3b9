#pragma once
#include "ir/graph.h"

namespace tektite {

/// Chooses the memory order of every value between groups (PlanBuffer::order in the plans of its producer and readers): the axis
/// that products with constant operands have in their constant goes innermost, for whole regions of values of one rank. Graph
/// inputs and outputs, and what host nodes touch, stay row-major.
void chooseLayouts(Graph& ofGroups);

}  // namespace tektite
