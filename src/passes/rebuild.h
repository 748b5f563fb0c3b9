#pragma once
#include <functional>
#include <vector>

#include "ir/graph.h"

namespace tektite {

/// Forward copies: how every pass rewrites. `rewrite` gets a live node whose operands are already values of `out`, adds what
/// replaces it and answers a value for each result. Inputs always stay; dead nodes disappear by themselves.
using Rewrite = std::function<std::vector<Value>(Graph& out, Node node)>;
Graph rebuild(const Graph& in, const Rewrite& rewrite);

/// The node as it is.
std::vector<Value> keep(Graph& out, Node node);
/// A nested graph's nodes in the graph around it, its inputs being these values: its outputs.
std::vector<Value> inlined(Graph& out, const Graph& body, const std::vector<Value>& inputs);
/// The node with `pass` run on the graphs inside it (branches, loops, scans). They see the dims of the graph around them.
Node withinNested(Node node, const Graph& around, Graph (*pass)(const Graph&));

}  // namespace tektite
