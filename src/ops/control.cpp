#include <algorithm>
#include <functional>

#include "ops/nested.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

/// The branch that the condition takes; so the condition has to be known.
const OpDef ifOp{"If", [](Builder& b, const OpCall& c) -> Values {
                   const double condition = needScalar(b, c.at(0), "the condition");
                   const Body& taken = c.body(condition != 0 ? "then_branch" : "else_branch");
                   return taken.build(b, {}, taken.captured);
                 }};

/// Is it a constant that says yes?
bool alwaysTrue(const Builder& b, Value v) {
  while (const View* view = b.graph.node(v).as<View>()) {
    if (view->guard || b.graph.node(v).operands.size() != 1) return false;
    v = b.graph.node(v).operands[0];
  }
  return b.graph.node(v).as<Const>() && scalarOf(b, v) == 1.;
}

/// A scan is one kernel where nothing in its body is run by the host. All else the host runs, and compiles what stands between.
bool isPlain(const Graph& g) {
  return std::all_of(g.nodes.begin(), g.nodes.end(),
                     [](const Node& n) { return !n.as<Call>() && nestedGraphs(n).empty(); });
}

/// `build` makes a scan; what it can't say statically becomes the loop that the host runs.
Values orHost(Builder& b, HostLoop host, const std::function<Values()>& build) {
  try {
    const Values out = build();
    const Scan* made = b.graph.nodes.back().as<Scan>();
    if (!made || isPlain(*made->body)) return host.then ? host.then(b, out) : out;
    host.what = "a branch or a loop in its body";
  } catch (const NeedValue& need) {
    host.what = need.what + " is computed from data in its body";
  } catch (const HostLoop& inner) {
    host.what = inner.what;
  }
  throw host;
}

/// A known number of steps and fixed shapes: a scan over the iterations.
Values countedLoop(Builder& b, const OpCall& c, const HostLoop& loop) {
  const Body& body = c.body("body");
  const auto count = loop.trips ? b.known(loop.trips) : std::nullopt;
  if (!count || isConstant(count->front(), INT64_MAX))
    throw HostLoop{"", "the number of its steps depends on data"};
  if (loop.condition && !alwaysTrue(b, loop.condition))
    throw HostLoop{"", "its first condition depends on data"};
  const Value steps = b.map(var("d0"), {}, {max(count->front(), 0)});
  return scan(b, loop.states, {steps}, body.captured, {},
              [&](Builder& inner, const std::vector<Value>& in, const std::vector<Value>& around) {
                std::vector<Value> all = {in.back(), inner.splat(DType::Bool, 1)};
                all.insert(all.end(), in.begin(), in.end() - 1);
                std::vector<Value> out = body.build(inner, all, around);
                if (!alwaysTrue(inner, out.at(0)))
                  throw HostLoop{"", "its condition depends on data"};
                return std::vector<Value>(out.begin() + 1, out.end());
              });
}

const OpDef loopOp{"Loop", [](Builder& b, const OpCall& c) -> Values {
                     HostLoop loop{"body", ""};
                     if (c.has(0)) loop.trips = b.reshape(c.at(0), {});
                     if (c.has(1)) loop.condition = b.reshape(c.at(1), {});
                     for (size_t i = 2; i < c.in.size(); i++) loop.states.push_back(c.at(i));
                     return orHost(b, loop, [&] { return countedLoop(b, c, loop); });
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
      if (inAxes.size() != count)
        userError("attribute 'scan_input_axes' has {} numbers, expected {}", inAxes.size(), count);
      HostLoop loop{"body", "", false};
      for (size_t i = 0; i < c.in.size(); i++) {
        if (i < states)
          loop.states.push_back(c.at(i));
        else
          loop.scanned.push_back(
              moved(b, c.at(i), axisOf(inAxes.at(i - states), b.rank(c.at(i))), 0));
      }
      loop.reverse = reverse;
      loop.then = [states, axes = c.integers("scan_output_axes", std::vector<int64_t>{})](
                      Builder& b, const std::vector<Value>& results) -> Values {
        std::vector<Value> out = results;
        for (size_t i = states; i < out.size() && i - states < axes.size(); i++)
          out[i] = moved(b, out[i], 0, axisOf(axes[i - states], b.rank(out[i])));
        return out;
      };
      return orHost(b, loop, [&]() -> Values {
        return scan(b, loop.states, loop.scanned, body.captured, reverse, body.build);
      });
    },
    9};

/// The first version: everything has a batch before its time axis; a scan for each member.
const OpDef scan8{
    "Scan",
    [](Builder& b, const OpCall& c) -> Values {
      const Body& body = c.body("body");
      const auto count = static_cast<size_t>(c.integer("num_scan_inputs"));
      for (size_t i = 1; i < c.in.size(); i++) shapeFrom(b, c.at(i), 1, "an input");
      if (c.in.empty() || count > c.in.size() - 1)
        userError("attribute 'num_scan_inputs' is {}, there are {} inputs",
                  c.integer("num_scan_inputs"), c.in.size());
      if (c.has(0)) userError("sequence lengths are not supported");
      const size_t states = c.in.size() - 1 - count;
      std::vector<bool> reverse;
      for (const int64_t f : c.integers("directions", std::vector<int64_t>(count, 0)))
        reverse.push_back(f != 0);
      const int64_t batch = needStatic(b.type(c.at(c.in.size() - 1)).shape.at(0), "the batch");
      std::vector<std::vector<Value>> results;
      for (int64_t i = 0; i < batch; i++) {
        std::vector<Value> state, scanned;
        for (size_t k = 1; k < c.in.size(); k++) {
          std::vector<Expr> starts(b.type(c.at(k)).shape.size(), 0), sizes = b.type(c.at(k)).shape;
          starts.at(0) = i;
          sizes[0] = 1;
          const Value one = squeeze(
              b, b.slice(c.at(k), starts, sizes, std::vector<int64_t>(sizes.size(), 1)), {0});
          (k <= states ? state : scanned).push_back(one);
        }
        const auto out = scan(b, state, scanned, body.captured, reverse, body.build);
        results.resize(out.size());
        for (size_t k = 0; k < out.size(); k++) results[k].push_back(unsqueeze(b, out[k], {0}));
      }
      std::vector<Value> all;
      for (const auto& parts : results) all.push_back(b.concat(parts, 0));
      return all;
    },
    8};

/// Running sums or products along an axis, a recurrence.
Values cumulative(Builder& b, const OpCall& c, const char* step, double identity) {
  const Value x = c.at(0);
  const int axis = axisOf(onlyOf(needIntegers(b, c.at(1), "the axis")), b.rank(x));
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
const OpDef cumSum{"CumSum", Takes{"N1+ i0-1"},
                   [](Builder& b, const OpCall& c) { return cumulative(b, c, "a + b", 0); }};
const OpDef cumProd{"CumProd", Takes{"N1+ i0-1"},
                    [](Builder& b, const OpCall& c) { return cumulative(b, c, "a * b", 1); }};

}  // namespace
}  // namespace tektite
