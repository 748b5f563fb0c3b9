#pragma once
#include "ir/graph.h"

namespace tektite {

/// Executes a host routine; or a group, a branch, a loop or a scan by the graph interpreter. Buffers are its operands', then its results'.
void interpretNode(const Graph& graph, int node, void* const* buffers);

}  // namespace tektite
