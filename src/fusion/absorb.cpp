#include "fusion/absorb.h"

#include <algorithm>
#include <set>

#include "fusion/scan.h"
#include "ir/mentions.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

/// Finds which axis of each value counts the steps, backwards from a scan's operands, and builds the body with the nodes in it.
class Absorber {
 public:
  Absorber(const Graph& g, int scan, const std::vector<int>& path)
      : g_(g), node_(g.nodes[static_cast<size_t>(scan)]), scan_(*node_.as<Scan>()), path_(path) {}

  std::optional<Node> run() {
    steps_ = g_.type(node_.operands[states()]).extent(0);
    std::optional<bool> back;
    for (size_t i = 0; i < scanned(); i++) {
      const Value v = node_.operands[states() + i];
      if (!inside(v)) continue;
      const bool flag = i < scan_.reverse.size() && scan_.reverse[i];
      if ((back && *back != flag) || !timed(v, 0)) return std::nullopt;
      back = flag;
    }
    if (!back) return std::nullopt;
    return build(*back);
  }

 private:
  const Graph& g_;
  const Node& node_;
  const Scan& scan_;
  const std::vector<int>& path_;
  int64_t steps_ = 0;
  std::map<Value, int> axis_;         // of timed values
  std::vector<Value> outer_, fixed_;  // slices and whole values from outside
  size_t states() const { return static_cast<size_t>(scan_.states); }
  size_t scanned() const { return static_cast<size_t>(scan_.scanned); }
  bool inside(Value v) const { return std::ranges::binary_search(path_, v.node); }

  // ---- the axis of the steps

  /// Can slice t of the value along `axis` be computed from slices t of others?
  bool timed(Value v, int axis) {
    if (const auto it = axis_.find(v); it != axis_.end()) return it->second == axis;
    axis_[v] = axis;
    if (axis >= g_.type(v).rank() || g_.type(v).extent(axis) != steps_) return false;
    if (!inside(v)) {
      outer_.push_back(v);
      return axis == 0;
    }
    const Node& n = g_.node(v);
    if (n.results.size() != 1) return false;
    if (n.as<Map>()) return map(n, axis);
    if (n.as<Contract>()) return contract(n, axis);
    if (n.as<View>()) return view(n, axis);
    if (const Reduce* r = n.as<Reduce>())
      return std::ranges::count(r->axes, axis) == 0 &&
             std::ranges::all_of(n.operands, [&](Value o) { return timed(o, axis); });
    if (const Concat* c = n.as<Concat>())
      return c->axis != axis &&
             std::ranges::all_of(n.operands, [&](Value o) { return timed(o, axis); });
    return false;
  }
  bool whole(Value v) {
    if (inside(v)) return false;
    if (std::ranges::count(fixed_, v) == 0) fixed_.push_back(v);
    return true;
  }
  bool map(const Node& n, int axis) {
    if (mentions(n.as<Map>()->body, coordinate(axis))) return false;
    return std::ranges::all_of(n.operands, [&](Value o) {
      return g_.type(o).extent(axis) == 1 && steps_ != 1 ? whole(o) : timed(o, axis);
    });
  }
  bool contract(const Node& n, int axis) {
    const Contract& c = *n.as<Contract>();
    const char label = c.output[static_cast<size_t>(axis)];
    for (size_t i = 0; i < c.inputs.size(); i++) {
      const auto at = c.inputs[i].find(label);
      if (at == std::string::npos
              ? !whole(n.operands[i])
              : c.inputs[i].rfind(label) != at || !timed(n.operands[i], static_cast<int>(at)))
        return false;
    }
    return true;
  }
  bool view(const Node& n, int axis) {
    const View& v = *n.as<View>();
    const std::string time = coordinate(axis);
    int from = -1;
    for (size_t i = 0; i < v.index.size(); i++) {
      if (!mentions(v.index[i], time)) continue;
      if (from >= 0 || !(v.index[i] == var(time))) return false;
      from = static_cast<int>(i);
    }
    return from >= 0 && !mentions(v.guard, time) && timed(n.operands[0], from);
  }

  // ---- the body

  static TensorType slice(TensorType t) {
    t.shape.erase(t.shape.begin());
    return t;
  }
  /// A slice with an axis of extent 1 for the step, and back.
  Value lifted(Graph& body, Value v) const {
    View view;
    TensorType type = body.type(v);
    for (int a = 0; a < type.rank(); a++) view.index.push_back(var(coordinate(a + 1)));
    type.shape.insert(type.shape.begin(), 1);
    return body.add({std::move(view), {v}, {type}, "", node_.origin});
  }
  Value lowered(Graph& body, Value v) const {
    View view;
    const TensorType type = slice(body.type(v));
    view.index.emplace_back(0);
    for (int a = 0; a < type.rank(); a++) view.index.push_back(var(coordinate(a)));
    return body.add({std::move(view), {v}, {type}, "", node_.origin});
  }
  /// A node of the path for one step.
  Node oneStep(const Node& n, int axis, const std::map<Value, Value>& to) const {
    Node out = n;
    out.results[0].shape[static_cast<size_t>(axis)] = 1;
    for (Value& v : out.operands) v = to.at(v);
    if (View* view = std::get_if<View>(&out.kind))
      for (Expr& e : view->index) e = substitute(e, {{coordinate(axis), Expr(0)}});
    return out;
  }
  Node build(bool back) {
    Graph body;
    std::vector<Value> operands, inputs(node_.operands.size());  // of the old body
    std::map<Value, Value> to;                                   // of the graph -> of the body
    Scan now = scan_;
    now.reverse.clear();
    now.scanned = 0;
    const auto input = [&](Value v, const TensorType& type) {
      operands.push_back(v);
      return body.add({Input{}, {}, {type}, "", ""});
    };
    for (size_t i = 0; i < states(); i++)
      inputs[i] = input(node_.operands[i], g_.type(node_.operands[i]));
    for (size_t i = states(); i < states() + scanned(); i++) {
      const Value v = node_.operands[i];
      if (inside(v)) continue;
      inputs[i] = input(v, slice(g_.type(v)));
      now.scanned++;
      now.reverse.push_back(i - states() < scan_.reverse.size() && scan_.reverse[i - states()]);
    }
    std::vector<Value> slices;
    for (const Value& v : outer_) {
      slices.push_back(input(v, slice(g_.type(v))));
      now.scanned++;
      now.reverse.push_back(back);
    }
    for (size_t i = states() + scanned(); i < node_.operands.size(); i++)
      inputs[i] = input(node_.operands[i], g_.type(node_.operands[i]));
    for (const Value& v : fixed_)
      to[v] = g_.node(v).as<Const>() ? body.add(g_.node(v)) : input(v, g_.type(v));
    for (size_t i = 0; i < outer_.size(); i++) to[outer_[i]] = lifted(body, slices[i]);
    for (int n : path_)
      if (const auto at = axis_.find(Value{n, 0}); at != axis_.end())
        to[Value{n, 0}] = body.add(oneStep(g_.nodes[static_cast<size_t>(n)], at->second, to));
    for (size_t i = states(); i < states() + scanned(); i++)
      if (inside(node_.operands[i])) inputs[i] = lowered(body, to.at(node_.operands[i]));
    body.outputs = inlined(body, *scan_.body, inputs);
    const size_t stacked = node_.results.size() - states();
    for (size_t i = 0; i < stacked; i++)
      now.reverse.push_back(scanned() + i < scan_.reverse.size() && scan_.reverse[scanned() + i]);
    now.body = std::make_shared<const Graph>(std::move(body));
    Node out = node_;
    out.kind = std::move(now);
    out.operands = std::move(operands);
    return out;
  }
};

/// A graph of these nodes alone: what they cost as one kernel.
double secondsOf(const Graph& g, std::vector<Node> nodes, const std::vector<int>& numbers,
                 const Target& target, const FusionOptions& options, PlanMemory& memory) {
  Graph body;
  std::map<Value, Value> to;
  for (size_t i = 0; i < nodes.size(); i++) {
    for (Value& v : nodes[i].operands) {
      if (!to.count(v))
        to[v] = g.node(v).as<Const>() ? body.add(g.node(v))
                                      : body.add({Input{}, {}, {g.type(v)}, "", ""});
      v = to.at(v);
    }
    const auto results = static_cast<int>(nodes[i].results.size());
    const Value first = body.add(std::move(nodes[i]));
    for (int r = 0; r < results; r++) {
      to[Value{numbers[i], r}] = {first.node, r};
      body.outputs.push_back({first.node, r});
    }
  }
  const PlanResult r = planBody(body, accessesOf(body), target, options, memory);
  return r.plan ? r.plan->cost.seconds : INFINITY;
}

/// Nodes from one to another, both left out, ascending.
std::vector<int> between(const Graph& g, int from, int to) {
  std::vector<bool> after(g.nodes.size());
  std::set<int> before = {to};
  after[static_cast<size_t>(from)] = true;
  for (int n = from + 1; n < to; n++)
    for (const Value& v : g.nodes[static_cast<size_t>(n)].operands)
      if (after[static_cast<size_t>(v.node)]) after[static_cast<size_t>(n)] = true;
  std::vector<int> path;
  for (int n = to; n > from; n--) {
    if (!before.count(n)) continue;
    if (n != to && after[static_cast<size_t>(n)]) path.push_back(n);
    for (const Value& v : g.nodes[static_cast<size_t>(n)].operands)
      if (after[static_cast<size_t>(v.node)]) before.insert(v.node);
  }
  std::ranges::reverse(path);
  return path;
}

constexpr double kLeastShare = 0.02;  // of what they cost apart, to look closer

/// The second scan as it should be, if that is another way.
std::optional<Node> joined(const Graph& g, int first, int second, const Target& target,
                           const FusionOptions& options, PlanMemory& memory) {
  const std::vector<int> path = between(g, first, second);
  if (path.empty()) return std::nullopt;
  const std::optional<Node> now = absorbed(g, second, path);
  if (!now) return std::nullopt;
  const Node &a = g.nodes[static_cast<size_t>(first)], &b = g.nodes[static_cast<size_t>(second)];
  std::vector<Node> mid;
  for (int n : path) mid.push_back(g.nodes[static_cast<size_t>(n)]);
  const double scans = secondsOf(g, {a}, {first}, target, options, memory) +
                       secondsOf(g, {b}, {second}, target, options, memory);
  const double steps = static_cast<double>(a.results.back().extent(0));
  const double most = 2 * target.launchSeconds + steps * target.gridSyncSeconds;
  if (most < kLeastShare * scans) return std::nullopt;
  const double apart = scans + secondsOf(g, mid, path, target, options, memory);
  return secondsOf(g, {a, *now}, {first, second}, target, options, memory) < apart ? now
                                                                                   : std::nullopt;
}

}  // namespace

std::optional<Node> absorbed(const Graph& g, int scan, const std::vector<int>& path) {
  return Absorber(g, scan, path).run();
}

Graph absorbIntoScans(const Graph& in, const Target& target, const FusionOptions& options,
                      PlanMemory& memory) {
  Graph g = in;
  std::vector<int> scans;
  for (int n = 0; n < static_cast<int>(g.nodes.size()); n++)
    if (isKernelScan(g.nodes[static_cast<size_t>(n)])) scans.push_back(n);
  bool changed = false;
  for (size_t k = 1; k < scans.size(); k++)
    for (size_t i = k; i-- > 0;) {
      const auto now = joined(g, scans[i], scans[k], target, options, memory);
      if (!now) continue;
      g.nodes[static_cast<size_t>(scans[k])] = *now;
      changed = true;
      break;
    }
  return changed ? rebuild(g, [](Graph& out, Node n) { return keep(out, std::move(n)); }) : g;
}

}  // namespace tektite
