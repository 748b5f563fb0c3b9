#include "runtime/interpret.h"

#include "ir/graph_eval.h"
#include "support/check.h"

namespace tektite {

void interpretGroup(const Graph& graph, int group, void* const* buffers) {
  const Node& node = graph.nodes[group];
  const Group* g = node.as<Group>();
  TEKTITE_CHECK(g, "%{} is no group", group);
  std::vector<Tensor> operands;
  for (Value v : node.operands) operands.push_back(Tensor::fromRaw(graph.type(v).dtype, graph.type(v).extents(), buffers[operands.size()]));
  const std::vector<Tensor> results = evaluate(*g->body, operands);
  for (size_t r = 0; r < results.size(); ++r) results[r].toRaw(buffers[operands.size() + r]);
}

}  // namespace tektite
