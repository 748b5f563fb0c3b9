#include "fusion/scan.h"

#include <algorithm>

#include "fusion/plan_body.h"
#include "fusion/stages.h"
#include "passes/rebuild.h"
#include "support/check.h"

namespace tektite {
namespace {

Node input(const TensorType& type) {
  return {.kind = Input{}, .operands = {}, .results = {type}, .name = {}, .origin = {}};
}
/// A value under its own name: what a kernel stores.
Value copyOf(Graph& g, Value v, const std::string& origin) {
  const TensorType& type = g.type(v);
  return g.add({.kind = Map{var(operandName(0), type.dtype)},
                .operands = {v},
                .results = {type},
                .name = {},
                .origin = origin});
}

double bytesOf(const TensorType& t) { return static_cast<double>(t.elements()) * bytes(t.dtype); }

/// Which of a plan's outputs: they stand in the body's order.
size_t outputOf(const GroupPlan& plan, const PlanBuffer& buffer) {
  size_t k = 0;
  for (const PlanBuffer& b : plan.buffers) {
    if (b.kind != PlanBuffer::Output) continue;
    if (b.name == buffer.name) break;
    k++;
  }
  return k;
}

class ScanPlanner {
 public:
  ScanPlanner(const Graph& g, const Node& node, const Target& target, const FusionOptions& options)
      : g_(g),
        node_(node),
        scan_(*node.as<Scan>()),
        target_(target),
        options_(options),
        number_(static_cast<int>(&node - g.nodes.data())) {
    target_.launchSeconds =
        target.gridSyncSeconds;  // what a kernel of the body costs beside its work
    const size_t timed = scan_.scanned ? static_cast<size_t>(scan_.states) : 0;
    plan_.steps = scan_.scanned ? g.type(node.operands[timed]).extent(0)
                                : node.results[static_cast<size_t>(scan_.states)].extent(0);
  }

  PlanResult run() {
    buffers();
    begin();
    each();
    end();
    cost();
    out_.scan = std::make_shared<const ScanPlan>(std::move(plan_));
    return {std::make_shared<const GroupPlan>(std::move(out_)), {}};
  }

 private:
  const Graph& g_;
  const Node& node_;
  const Scan& scan_;
  Target target_;
  FusionOptions options_;
  const int number_;
  GroupPlan out_;
  ScanPlan plan_;

  int states() const { return scan_.states; }
  static std::string stateName(int i) { return fmt::format("state{}", i); }
  std::string operandBuffer(size_t i) const { return fmt::format("x{}", node_.operands[i].node); }
  std::string resultBuffer(int r) const { return fmt::format("y{}", r); }
  bool isWanted(int result) const {
    return std::ranges::count(g_.outputs, Value{number_, result}) > 0;
  }
  bool isReverse(int scanned) const {
    return static_cast<size_t>(scanned) < scan_.reverse.size() &&
           scan_.reverse[static_cast<size_t>(scanned)];
  }
  Expr sliceAt(int scanned) const {
    const Expr step = var(kStepVariable);
    return isReverse(scanned) ? Expr(plan_.steps - 1) - step : step;
  }

  void add(PlanBuffer::Kind kind, std::string name, Value v, TensorType type) {
    PlanBuffer b;
    b.kind = kind;
    b.name = std::move(name);
    b.value = v;
    b.type = std::move(type);
    if (kind == PlanBuffer::Scratch) b.space = "main";
    out_.buffers.push_back(std::move(b));
  }
  void buffers() {
    for (size_t i = 0; i < node_.operands.size(); i++) {
      const Value v = node_.operands[i];
      if (std::ranges::find(out_.buffers, operandBuffer(i), &PlanBuffer::name) !=
          out_.buffers.end())
        continue;
      add(g_.node(v).as<Const>() ? PlanBuffer::Constant : PlanBuffer::Input, operandBuffer(i), v,
          g_.type(v));
    }
    for (const Value& v : g_.outputs)
      add(PlanBuffer::Output, resultBuffer(v.result), v, g_.type(v));
    for (int i = 0; i < states(); i++) {
      TensorType two = node_.results[static_cast<size_t>(i)];
      two.shape.insert(two.shape.begin(), 2);
      add(PlanBuffer::Scratch, stateName(i), {}, two);
    }
  }

  ScanPart part(Graph body) {
    const PlanResult r = planGroup(body, target_, options_);
    TEKTITE_CHECK(r.plan, "no plan of a scan's part: {}", toText(r.refusal));
    return {std::make_shared<const Graph>(std::move(body)), r.plan, {}, {}};
  }

  /// The states' first values, in slice 0.
  void begin() {
    if (!states()) return;
    Graph body;
    std::vector<ScanPort> inputs;
    std::vector<std::vector<ScanPort>> outputs;
    for (int i = 0; i < states(); i++) {
      const Value from = node_.operands[static_cast<size_t>(i)];
      const Const* c = g_.node(from).as<Const>();
      const bool splat = c && c->splat;
      const Value v = body.add(splat ? g_.node(from) : input(g_.type(from)));
      if (!splat) inputs.push_back({operandBuffer(static_cast<size_t>(i)), {}});
      body.outputs.push_back(copyOf(body, v, node_.origin));
      outputs.push_back({{stateName(i), Expr(0)}});
    }
    plan_.first.push_back(part(std::move(body)));
    plan_.first.back().inputs = std::move(inputs);
    plan_.first.back().outputs = std::move(outputs);
  }

  /// The last values that somebody wants.
  void end() {
    Graph body;
    std::vector<ScanPort> inputs;
    std::vector<std::vector<ScanPort>> outputs;
    for (int i = 0; i < states(); i++) {
      if (!isWanted(i)) continue;
      const Value v = body.add(input(node_.results[static_cast<size_t>(i)]));
      inputs.push_back({stateName(i), Expr(plan_.steps % 2)});
      outputs.push_back({{resultBuffer(i), {}}});
      body.outputs.push_back(copyOf(body, v, node_.origin));
    }
    if (inputs.empty()) return;
    plan_.last.push_back(part(std::move(body)));
    plan_.last.back().inputs = std::move(inputs);
    plan_.last.back().outputs = std::move(outputs);
  }

  /// The scan's body with the outputs that are wanted, each once and none of them an input; where each goes.
  Graph stepBody(std::vector<std::vector<ScanPort>>& places) const {
    Graph body = *scan_.body;
    const std::vector<Value> all = body.outputs;
    body.outputs.clear();
    body.outputNames.clear();
    std::map<Value, size_t> known;
    for (size_t k = 0; k < all.size(); k++) {
      const int result = static_cast<int>(k);
      const bool state = result < states();
      if (!state && !isWanted(result)) continue;
      const ScanPort place =
          state ? ScanPort{stateName(result), floorMod(var(kStepVariable) + Expr(1), Expr(2))}
                : ScanPort{resultBuffer(result), sliceAt(scan_.scanned + result - states())};
      const auto [it, isNew] = known.emplace(all[k], places.size());
      if (isNew) {
        const Node& from = body.node(all[k]);
        const bool leaf = from.operands.empty();
        body.outputs.push_back(leaf ? copyOf(body, all[k], node_.origin) : all[k]);
        places.emplace_back();
      }
      places[it->second].push_back(place);
    }
    return rebuild(body, [](Graph& out, Node n) { return keep(out, std::move(n)); });
  }

  ScanPort inputPort(int i) const {
    if (i < states()) return {stateName(i), floorMod(var(kStepVariable), Expr(2))};
    const std::string& name = operandBuffer(static_cast<size_t>(i));
    return i < states() + scan_.scanned ? ScanPort{name, sliceAt(i - states())}
                                        : ScanPort{name, {}};
  }

  void each() {
    std::vector<std::vector<ScanPort>> places;
    const Fused fused = fuse(stepBody(places), target_, options_);
    std::map<Value, std::vector<ScanPort>> at;
    int inputs = 0, made = 0;
    for (const Value& v : fused.graph.inputs()) at[v] = {inputPort(inputs++)};
    for (size_t i = 0; i < places.size(); i++) at[fused.graph.outputs[i]] = places[i];
    for (int n = 0; n < static_cast<int>(fused.graph.nodes.size()); n++) {
      const Node& node = fused.graph.nodes[static_cast<size_t>(n)];
      const Group* group = node.as<Group>();
      if (!group) continue;
      ScanPart p{group->body, group->plan, {}, {}};
      for (const Value& v : node.operands) p.inputs.push_back(at.at(v)[0]);
      for (int r = 0; r < static_cast<int>(node.results.size()); r++) {
        const Value v{n, r};
        if (!at.count(v)) {
          at[v] = {{fmt::format("between{}", made++), {}}};
          add(PlanBuffer::Scratch, at[v][0].buffer, {}, fused.graph.type(v));
        }
        p.outputs.push_back(at[v]);
      }
      plan_.each.push_back(std::move(p));
    }
  }

  /// Does a state's element depend on that element of the states alone, as far as tiles can tell?
  bool isCarried() const {
    if (plan_.each.size() != 1) return false;
    const ScanPart& part = plan_.each[0];
    const std::vector<Value> inputs = part.body->inputs();
    std::map<std::string, std::string> stateOf;  // buffer of the part -> state
    for (const PlanBuffer& b : part.plan->buffers) {
      if (b.kind == PlanBuffer::Input)
        stateOf[b.name] =
            part.inputs[static_cast<size_t>(std::ranges::find(inputs, b.value) - inputs.begin())]
                .buffer;
      if (b.kind == PlanBuffer::Output)
        stateOf[b.name] = part.outputs[outputOf(*part.plan, b)][0].buffer;
    }
    for (const TileList& list : part.plan->lists) {
      if (list.sync >= 0) return false;
      for (const Stage& s : list.stages)
        if (!readsOwnStates(s, stateOf)) return false;
    }
    return true;
  }
  bool readsOwnStates(const Stage& s, const std::map<std::string, std::string>& stateOf) const {
    for (const Expr& e : loadsOf(s)) {
      const Load& l = *e.as<Load>();
      const auto state = stateOf.find(l.buffer);
      if (state == stateOf.end() || !state->second.starts_with("state")) continue;
      const auto own = [&](const StageStore& store) {
        const auto to = stateOf.find(store.buffer);
        return to != stateOf.end() && to->second == state->second && store.index == l.index &&
               !store.guard;
      };
      if (std::ranges::none_of(s.inner, own) && std::ranges::none_of(s.outer, own)) return false;
    }
    return true;
  }

  void cost() {
    plan_.carried = isCarried();
    Cost& c = out_.cost;
    const auto parts = [&](const std::vector<ScanPart>& list, double times, bool inside) {
      for (const ScanPart& p : list) {
        const Cost& one = p.plan->cost;
        c.seconds += (one.seconds - (inside ? target_.launchSeconds : 0)) * times;
        c.flops += one.flops * times;
        c.slots += one.slots * times;
        c.recompute = std::max(c.recompute, one.recompute);
        c.scratchBytes = std::max(c.scratchBytes, one.scratchBytes);
        c.registers = std::max(c.registers, one.registers);
      }
      c.gridSyncs += static_cast<int64_t>(inside ? 1 : times * static_cast<double>(list.size()));
    };
    parts(plan_.first, 1, false);
    parts(plan_.each, static_cast<double>(plan_.steps), plan_.carried);
    parts(plan_.last, 1, false);
    c.launches = 1;
    for (const PlanBuffer& b : out_.buffers) {
      const auto n = static_cast<int64_t>(bytesOf(b.type));
      if (b.kind == PlanBuffer::Output)
        c.bytesWritten += n;
      else if (b.kind != PlanBuffer::Scratch)
        c.bytesRead += n;
    }
    std::map<const void*, int64_t> inside;
    for (const Node& n : scan_.body->nodes)
      if (const Const* k = n.as<Const>(); k && k->data)
        inside[k->data.get()] = static_cast<int64_t>(k->data->bytes);
    for (const auto& [data, n] : inside) c.bytesRead += n;
  }
};

}  // namespace

bool isKernelScan(const Node& node) {
  const Scan* scan = node.as<Scan>();
  const auto isStatic = [](const Node& n) {
    return std::ranges::all_of(n.results, &TensorType::isStatic);
  };
  return scan && isStatic(node) && std::ranges::all_of(scan->body->nodes, [&](const Node& n) {
           return isStatic(n) && !n.as<Call>() && nestedGraphs(n).empty();
         });
}

PlanResult planScan(const Graph& body, const Target& target, const FusionOptions& options) {
  const Node* scan = nullptr;
  for (const Node& n : body.nodes) {
    if (n.as<Input>() || n.as<Const>()) continue;
    if (scan || !isKernelScan(n)) return {nullptr, {Reason::ControlFlow, 0, 0, n.origin}};
    scan = &n;
  }
  return ScanPlanner(body, *scan, target, options).run();
}

}  // namespace tektite
