#include <algorithm>

#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

/// Only conversions, sums and products: a product does that to what it loads.
bool isCheap(const Map& map) {
  bool cheap = true;
  visit(map.body, [&](const Expr& e) {
    const Apply* a = e.as<Apply>();
    cheap &= !a || a->op == Op::Add || a->op == Op::Sub || a->op == Op::Mul;
  });
  return cheap;
}
/// Is it a constant, a view of one, or one that is converted?
bool isConstant(const Graph& g, Value v) {
  const Node& n = g.node(v);
  if (n.as<Const>()) return true;
  if (!n.as<View>() && !(n.as<Map>() && isCheap(*n.as<Map>()))) return false;
  return !n.operands.empty() &&
         std::ranges::all_of(n.operands, [&](Value o) { return isConstant(g, o); });
}
Value copied(const Graph& from, Value v, Graph& to) {
  Node n = from.node(v);
  for (Value& operand : n.operands) operand = copied(from, operand, to);
  return to.add(std::move(n));
}

Node sunk(const Graph& out, Node n) {
  const Scan* scan = n.as<Scan>();
  if (!scan) return n;
  const size_t captured = static_cast<size_t>(scan->states) + static_cast<size_t>(scan->scanned);
  std::vector<Value> operands;
  Graph body;
  body.dims = scan->body->dims;
  body.outputNames = scan->body->outputNames;
  std::vector<int> to;
  size_t input = 0;
  for (Node inner : scan->body->nodes) {
    for (Value& v : inner.operands) v.node = to[static_cast<size_t>(v.node)];
    if (inner.as<Input>()) {
      const Value from = n.operands[input++];
      if (input > captured && isConstant(out, from)) {
        to.push_back(copied(out, from, body).node);
        continue;
      }
      operands.push_back(from);
    }
    to.push_back(body.add(std::move(inner)).node);
  }
  for (const Value& v : scan->body->outputs)
    body.outputs.push_back({to[static_cast<size_t>(v.node)], v.result});
  Scan now = *scan;
  now.body = std::make_shared<const Graph>(std::move(body));
  n.kind = std::move(now);
  n.operands = std::move(operands);
  return n;
}

/// Constants that a scan's body captures, views and conversions of them move into it: folding and packing see them there.
Graph sinkConstants(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return keep(out, sunk(out, withinNested(std::move(n), in, sinkConstants)));
  });
}

const Pass pass{"sink-constants", "move constants that a scan captures into its body",
                sinkConstants};

}  // namespace
}  // namespace tektite
