#pragma once
#include "ir/graph.h"

namespace tektite {

/// Executes a group by the graph interpreter: buffers are its operands', then its results'.
void interpretGroup(const Graph& graph, int group, void* const* buffers);

}  // namespace tektite
