#include "passes/rebuild.h"

namespace tektite {
namespace {

std::vector<bool> liveNodes(const Graph& g) {
  std::vector<bool> live(g.nodes.size());
  for (Value v : g.outputs) live[v.node] = true;
  for (size_t i = g.nodes.size(); i-- > 0;) {
    if (g.nodes[i].as<Input>()) live[i] = true;
    if (live[i])
      for (Value v : g.nodes[i].operands) live[v.node] = true;
  }
  return live;
}

}  // namespace

Graph rebuild(const Graph& in, const Rewrite& rewrite) {
  Graph out;
  out.dims = in.dims;
  out.outputNames = in.outputNames;
  const std::vector<bool> live = liveNodes(in);
  std::vector<std::vector<Value>> to(in.nodes.size());
  for (size_t i = 0; i < in.nodes.size(); ++i) {
    if (!live[i]) continue;
    Node n = in.nodes[i];
    for (Value& v : n.operands) v = to[v.node][v.result];
    to[i] = n.as<Input>() ? keep(out, std::move(n)) : rewrite(out, std::move(n));
  }
  for (Value v : in.outputs) out.outputs.push_back(to[v.node][v.result]);
  return out;
}

std::vector<Value> keep(Graph& out, Node node) {
  const int results = static_cast<int>(node.results.size());
  const Value first = out.add(std::move(node));
  std::vector<Value> values;
  for (int i = 0; i < results; ++i) values.push_back({first.node, i});
  return values;
}

std::vector<Value> inlined(Graph& out, const Graph& body, const std::vector<Value>& inputs) {
  std::vector<std::vector<Value>> to;
  size_t input = 0;
  for (Node n : body.nodes) {
    for (Value& v : n.operands) v = to[v.node][v.result];
    if (n.as<Input>())
      to.push_back({inputs[input++]});
    else
      to.push_back(keep(out, std::move(n)));
  }
  std::vector<Value> results;
  for (Value v : body.outputs) results.push_back(to[v.node][v.result]);
  return results;
}

Node withinNested(Node node, const Graph& around, Graph (*pass)(const Graph&)) {
  if (node.as<Group>()) return node;
  std::vector<std::shared_ptr<const Graph>> bodies = nestedGraphs(node);
  for (auto& body : bodies) {
    Graph inner = *body;
    inner.dims = around.dims;
    inner = pass(inner);
    inner.dims = body->dims;
    body = std::make_shared<const Graph>(std::move(inner));
  }
  return withNested(std::move(node), bodies);
}

}  // namespace tektite
