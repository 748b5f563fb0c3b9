#include <algorithm>

#include "fuzz/random_graph.h"

namespace tektite {
namespace {

TensorType stacked(TensorType t, int64_t steps) {
  t.shape.insert(t.shape.begin(), Expr(steps));
  return t;
}

Node map(const char* body, std::vector<Value> operands, const TensorType& type) {
  const auto variable = [](const std::string& name) { return var(name, DType::F32); };
  const Expr half = variable(operandName(0)) * imm(DType::F32, 0.5);
  return {.kind = Map{body[0] == '+' ? half + variable(operandName(1)) : half},
          .operands = std::move(operands),
          .results = {type},
          .name = {},
          .origin = {}};
}

/// A fading sum of another scan's slices, halved first: its last value and all values.
void follow(Graph& g, Value slices, bool back) {
  const TensorType stack = g.type(slices);
  TensorType slice = stack;
  slice.shape.erase(slice.shape.begin());
  Graph body;
  const auto input = [&] {
    return body.add(
        {.kind = Input{}, .operands = {}, .results = {slice}, .name = {}, .origin = {}});
  };
  const Value state = input(), x = input();
  const Value next = body.add(map("+", {state, x}, slice));
  body.outputs = {next, next};
  const Value halved = g.add(map("", {slices}, stack));
  const Value zero = g.add({.kind = Const{nullptr, imm(DType::F32, 0)},
                            .operands = {},
                            .results = {slice},
                            .name = {},
                            .origin = {}});
  const Value made =
      g.add({.kind = Scan{std::make_shared<const Graph>(std::move(body)), 1, 1, {back, back}},
             .operands = {zero, halved},
             .results = {slice, stack},
             .name = {},
             .origin = {}});
  g.outputs.push_back(made);
  g.outputs.push_back({made.node, 1});
}

}  // namespace

Graph randomScan(uint64_t seed, const RandomGraphOptions& options) {
  Random random(seed + 77);
  const Graph inner = randomGraph(seed, options);
  const std::vector<Value> inputs = inner.inputs();
  if (inputs.empty()) return inner;
  const int64_t steps = 1 + random.below(5);
  // A state is an input that an output of its type becomes; one that stays as it is, too.
  std::vector<int> role(inputs.size());  // 0 state, 1 slice, 2 captured
  std::vector<Value> next(inputs.size());
  std::vector<bool> taken(inner.outputs.size());
  for (size_t i = 0; i < inputs.size(); i++) {
    role[i] = random.below(3);
    for (size_t o = 0; o < inner.outputs.size() && role[i] == 0 && !next[i]; o++)
      if (!taken[o] && inner.type(inner.outputs[o]) == inner.type(inputs[i]))
        taken[o] = true, next[i] = inner.outputs[o];
    if (role[i] == 0 && !next[i]) role[i] = random.oneIn(3) ? 0 : 1;
    if (role[i] == 0 && !next[i]) next[i] = inputs[i];
  }
  if (std::ranges::find(role, 1) == role.end() && !role.empty()) role[0] = 1, next[0] = {};

  Graph body, out;
  Scan scan{nullptr, 0, 0, {}};
  Node node;
  std::vector<Value> to(inner.nodes.size());
  std::vector<Value> last;
  for (int kind : {0, 1, 2})
    for (size_t i = 0; i < inputs.size(); i++) {
      if (role[i] != kind) continue;
      Node n = inner.node(inputs[i]);
      to[static_cast<size_t>(inputs[i].node)] = body.add(n);
      if (kind == 0) scan.states++, last.push_back(next[i]), node.results.push_back(n.results[0]);
      if (kind == 1) scan.scanned++, n.results[0] = stacked(n.results[0], steps);
      node.operands.push_back(out.add(std::move(n)));
    }
  for (size_t n = 0; n < inner.nodes.size(); n++) {
    if (inner.nodes[n].as<Input>()) continue;
    Node copy = inner.nodes[n];
    for (Value& v : copy.operands) v.node = to[static_cast<size_t>(v.node)].node;
    to[n] = body.add(std::move(copy));
  }
  for (size_t o = 0; o < inner.outputs.size(); o++) {
    if (taken[o] && !last.empty() && random.oneIn(2)) continue;
    last.push_back(inner.outputs[o]);
    node.results.push_back(stacked(inner.type(inner.outputs[o]), steps));
  }
  for (const Value& v : last)
    body.outputs.push_back({to[static_cast<size_t>(v.node)].node, v.result});
  const size_t flags =
      static_cast<size_t>(scan.scanned) + last.size() - static_cast<size_t>(scan.states);
  for (size_t i = 0; i < flags; i++) scan.reverse.push_back(random.oneIn(3));
  scan.body = std::make_shared<const Graph>(std::move(body));
  const Scan made = scan;
  node.kind = std::move(scan);
  const int results = static_cast<int>(node.results.size());
  const Value first = out.add(std::move(node));
  for (int r = 0; r < results; r++) out.outputs.push_back({first.node, r});
  for (int r = made.states; r < results; r++) {
    if (out.type({first.node, r}).dtype != DType::F32 || random.oneIn(2)) continue;
    const bool flag = made.reverse[static_cast<size_t>(made.scanned + r - made.states)];
    follow(out, {first.node, r}, random.oneIn(4) ? !flag : flag);
  }
  return out;
}

}  // namespace tektite
