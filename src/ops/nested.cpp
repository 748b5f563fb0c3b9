#include "ops/nested.h"

#include <algorithm>

#include "support/check.h"

namespace tektite {

Nested nest(Builder& outer, const std::vector<TensorType>& inputs,
            const std::vector<Value>& captured, const BuildInner& build) {
  Builder inner;
  inner.graph.dims = outer.graph.dims;
  inner.origin = outer.origin;
  Nested out;
  std::vector<Value> in, around;
  for (const TensorType& t : inputs) in.push_back(inner.input(fmt::format("in{}", in.size()), t));
  for (const Value v : captured) {
    const TensorType type = outer.type(v);
    const Const* c = outer.graph.node(v).as<Const>();
    const auto known = outer.known(v);
    if (c && c->data) {
      around.push_back(inner.constant(type, c->data, outer.graph.node(v).name));
    } else if (c) {
      around.push_back(inner.add(Node{Const{nullptr, c->splat}, {}, {type}})[0]);
    } else if (known && !known->empty()) {
      around.push_back(inner.fromKnown(*known, type.rank() == 0, type.dtype));
    } else {
      around.push_back(inner.input(fmt::format("outer{}", out.captured.size()), type));
      out.captured.push_back(v);
    }
  }
  inner.graph.outputs = build(inner, in, around);
  out.graph = std::make_shared<const Graph>(std::move(inner.graph));
  return out;
}

std::vector<Value> scan(Builder& b, const std::vector<Value>& states,
                        const std::vector<Value>& scanned, const std::vector<Value>& captured,
                        std::vector<bool> reverse, const BuildInner& body) {
  if (scanned.empty()) userError("a recurrence over nothing");
  std::vector<TensorType> inputs;
  for (const Value s : states) inputs.push_back(b.type(s));
  if (b.rank(scanned[0]) == 0)
    userError("steps of {}, expected axis 0", toText(b.type(scanned[0])));
  const Expr steps = b.type(scanned[0]).shape[0];
  for (const Value s : scanned) {
    TensorType t = b.type(s);
    if (t.rank() == 0 || !(t.shape[0] == steps))
      userError("{} steps, another input has {}", t.rank() ? toText(t.shape[0]) : "no",
                toText(steps));
    t.shape.erase(t.shape.begin());
    inputs.push_back(t);
  }
  const Nested n = nest(b, inputs, captured, body);
  Node node{Scan{n.graph, static_cast<int>(states.size()), static_cast<int>(scanned.size()), {}},
            states,
            {},
            "",
            b.origin};
  node.operands.insert(node.operands.end(), scanned.begin(), scanned.end());
  node.operands.insert(node.operands.end(), n.captured.begin(), n.captured.end());
  for (size_t i = 0; i < n.graph->outputs.size(); i++) {
    TensorType t = n.graph->type(n.graph->outputs[i]);
    if (i < states.size() && !(t == b.type(states[i])))
      throw HostLoop{"", fmt::format("state {} begins as {} and becomes {}", i,
                                     toText(b.type(states[i])), toText(t))};
    if (i >= states.size()) t.shape.insert(t.shape.begin(), steps);
    node.results.push_back(t);
  }
  reverse.resize(scanned.size() + n.graph->outputs.size() - states.size(), false);
  std::get<Scan>(node.kind).reverse = std::move(reverse);
  return b.add(std::move(node));
}

}  // namespace tektite
