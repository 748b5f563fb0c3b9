#include "runtime/interpret.h"

#include "ir/graph_eval.h"
#include "ir/routines.h"
#include "support/check.h"

namespace tektite {

void interpretNode(const Graph& graph, int number, void* const* buffers) {
  const Node& node = graph.nodes[number];
  if (const Call* call = node.as<Call>()) {
    std::vector<RoutineBuffer> operands, results;
    for (Value v : node.operands)
      operands.push_back({graph.type(v).dtype, graph.type(v).extents(), buffers[operands.size()]});
    for (const TensorType& t : node.results)
      results.push_back({t.dtype, t.extents(), buffers[operands.size() + results.size()]});
    runRoutine(*call, operands, results);
    return;
  }
  std::vector<Tensor> operands;
  for (Value v : node.operands)
    operands.push_back(
        Tensor::fromRaw(graph.type(v).dtype, graph.type(v).extents(), buffers[operands.size()]));
  const Group* group = node.as<Group>();
  const std::vector<Tensor> results =
      group ? evaluate(*group->body, operands) : evalNode(node, operands);
  for (size_t r = 0; r < results.size(); ++r) {
    if (results[r].shape != node.results[r].extents())
      userError("node '{}': a result whose shape depends on data can't be run yet", node.origin);
    results[r].toRaw(buffers[operands.size() + r]);
  }
}

}  // namespace tektite
