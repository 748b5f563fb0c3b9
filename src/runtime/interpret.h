#pragma once
#include "ir/graph.h"

namespace tektite {

/// Executes a group, a branch, a loop or a scan by the graph interpreter: buffers are its operands', then its results'.
void interpretNode(const Graph& graph, int node, void* const* buffers);

}  // namespace tektite
