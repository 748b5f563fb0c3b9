#include <algorithm>

#include "ops/nested.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// A known condition takes its branch at once.
const OpDef ifOp{
    "If", [](Builder& b, const OpCall& c) -> Values {
      const Body &then = c.body("then_branch"), &otherwise = c.body("else_branch");
      const Value condition = b.reshape(c.at(0), {});
      if (const auto known = scalarOf(b, c.at(0))) {
        const Body& taken = *known ? then : otherwise;
        return taken.build(b, {}, taken.captured);
      }
      // Both branches get what either reads.
      std::vector<Value> all = then.captured;
      all.insert(all.end(), otherwise.captured.begin(), otherwise.captured.end());
      const auto branch = [&](const Body& body, size_t from) {
        return nest(
            b, {}, all,
            [&](Builder& inner, const std::vector<Value>&, const std::vector<Value>& around) {
              const auto first = around.begin() + static_cast<long>(from);
              return body.build(inner, {},
                                {first, first + static_cast<long>(body.captured.size())});
            });
      };
      const Nested yes = branch(then, 0), no = branch(otherwise, then.captured.size());
      Node node{Branch{yes.graph, no.graph}, {condition}, {}, "", b.origin};
      node.operands.insert(node.operands.end(), yes.captured.begin(), yes.captured.end());
      for (size_t i = 0; i < yes.graph->outputs.size(); i++) {
        const TensorType t = yes.graph->type(yes.graph->outputs[i]),
                         e = no.graph->type(no.graph->outputs.at(i));
        if (!(t == e))
          userError("result {} is {} in one branch and {} in the other", i, toText(t), toText(e));
        node.results.push_back(t);
      }
      return b.add(std::move(node));
    }};

/// Is the loop's condition always true, by the body's own output?
bool goesOn(const Graph& body) {
  Value v = body.outputs.at(0);
  for (;;) {
    const Node& n = body.node(v);
    if (const Const* c = n.as<Const>())
      return c->splat ? c->splat.as<Imm>()->integer != 0
                      : loadInteger(DType::Bool, c->data->data, 0) != 0;
    if (n.as<Input>()) return v == body.inputs().at(1);
    return false;
  }
}

const OpDef loopOp{
    "Loop", [](Builder& b, const OpCall& c) -> Values {
      const Body& body = c.body("body");
      const Value trips = c.has(0) ? b.reshape(c.at(0), {}) : b.fromKnown({INT64_MAX}, true);
      const Value condition = c.has(1) ? b.reshape(c.at(1), {}) : b.splat(DType::Bool, 1);
      std::vector<Value> operands = {trips, condition};
      std::vector<TensorType> inputs = {{DType::I64, {}}, {DType::Bool, {}}};
      for (size_t i = 2; i < c.in.size(); i++) {
        operands.push_back(c.at(i));
        inputs.push_back(b.type(c.at(i)));
      }
      const int states = static_cast<int>(inputs.size()) - 2;
      const Nested n =
          nest(b, inputs, body.captured,
               [&](Builder& inner, const std::vector<Value>& in, const std::vector<Value>& around) {
                 auto out = body.build(inner, in, around);
                 out.at(0) = inner.reshape(out[0], {});
                 return out;
               });
      Node node{Loop{n.graph, states}, operands, {}, "", b.origin};
      node.operands.insert(node.operands.end(), n.captured.begin(), n.captured.end());
      for (size_t i = 1; i < n.graph->outputs.size(); i++) {
        TensorType t = n.graph->type(n.graph->outputs[i]);
        if (i <= static_cast<size_t>(states)) {
          if (!(t == inputs[i + 1]))
            userError("state {} begins as {} and becomes {}", i - 1, toText(inputs[i + 1]),
                      toText(t));
        } else {
          const auto count = b.known(trips);
          if (!count || isConstant(count->front(), INT64_MAX) || !goesOn(*n.graph) ||
              (c.has(1) && scalarOf(b, c.at(1)) != 1.))
            userError("the number of steps that result {} stacks depends on data", i - 1);
          t.shape.insert(t.shape.begin(), count->front());
        }
        node.results.push_back(t);
      }
      return b.add(std::move(node));
    }};

Value moved(Builder& b, Value v, int from, int to) {
  std::vector<int> order = axisRange(0, b.rank(v));
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return b.transpose(v, order);
}

const OpDef scanOp{
    "Scan",
    [](Builder& b, const OpCall& c) -> Values {
      const Body& body = c.body("body");
      const auto count = static_cast<size_t>(c.integer("num_scan_inputs"));
      if (count > c.in.size())
        userError("attribute 'num_scan_inputs' is {}, there are {} inputs", count, c.in.size());
      const size_t states = c.in.size() - count;
      const auto flags = c.integers("scan_input_directions", std::vector<int64_t>(count, 0));
      std::vector<bool> reverse;
      for (const int64_t f : flags) reverse.push_back(f != 0);
      for (const int64_t f : c.integers("scan_output_directions", std::vector<int64_t>{}))
        reverse.push_back(f != 0);
      const auto inAxes = c.integers("scan_input_axes", std::vector<int64_t>(count, 0));
      std::vector<Value> state, scanned;
      for (size_t i = 0; i < c.in.size(); i++) {
        if (i < states)
          state.push_back(c.at(i));
        else
          scanned.push_back(moved(b, c.at(i), axisOf(inAxes.at(i - states), b.rank(c.at(i))), 0));
      }
      auto out = scan(b, state, scanned, body.captured, reverse, body.build);
      const auto outAxes =
          c.integers("scan_output_axes", std::vector<int64_t>(out.size() - states, 0));
      for (size_t i = states; i < out.size(); i++)
        out[i] = moved(b, out[i], 0, axisOf(outAxes.at(i - states), b.rank(out[i])));
      return out;
    },
    9};

/// Running sums or products along an axis, a recurrence.
Values cumulative(Builder& b, const OpCall& c, const char* step, double identity) {
  const Value x = c.at(0);
  const int axis = axisOf(needIntegers(b, c.at(1), "the axis").at(0), b.rank(x));
  const bool exclusive = c.integer("exclusive", 0), reverse = c.integer("reverse", 0);
  const Value in = moved(b, x, axis, 0);
  std::vector<Expr> shape = b.type(in).shape;
  shape.erase(shape.begin());
  const auto out = scan(b, {b.splat(b.dtype(x), identity, shape)}, {in}, {}, {reverse, reverse},
                        [&](Builder& inner, const std::vector<Value>& at,
                            const std::vector<Value>&) -> std::vector<Value> {
                          const Value next = inner.map(step, {at[0], at[1]});
                          return {next, exclusive ? at[0] : next};
                        });
  return moved(b, out[1], 0, axis);
}
const OpDef cumSum{"CumSum",
                   [](Builder& b, const OpCall& c) { return cumulative(b, c, "a + b", 0); }};
const OpDef cumProd{"CumProd",
                    [](Builder& b, const OpCall& c) { return cumulative(b, c, "a * b", 1); }};

}  // namespace
}  // namespace tektite
