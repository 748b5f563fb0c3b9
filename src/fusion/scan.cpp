#include "fusion/scan.h"

#include <algorithm>

#include "fusion/cost.h"
#include "fusion/plan_body.h"
#include "ir/bytes.h"
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

/// A part's graph while it is made: what stands outside becomes an input with a place.
struct PartGraph {
  Graph body;
  std::map<Value, Value> to;
  std::vector<ScanPort> inputs;
  std::vector<std::vector<ScanPort>> outputs;
  void store(Value v, ScanPort place) {
    body.outputs.push_back(v);
    outputs.push_back({std::move(place)});
  }
};

class ScanPlanner {
 public:
  ScanPlanner(const Graph& g, const Target& target, const FusionOptions& options,
              PlanMemory& memory)
      : g_(g),
        target_(target),
        options_(options),
        memory_(memory),
        role_(g.nodes.size(), Before),
        launchSeconds_(target.launchSeconds) {
    options_.cut.clear();  // names are those of the graph around
    options_.force.clear();
    options_.modelCut.clear();
    options_.modelForce.clear();
    target_.launchSeconds =
        target.gridSyncSeconds;  // what a kernel of the body costs beside its work
  }

  PlanResult run() {
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++)
      if (!sort(n)) return {nullptr, {Reason::ControlFlow, 0, 0, g_.nodes[n].origin}};
    buffers();
    if (!begin() || !end())
      return {nullptr, {Reason::ControlFlow, 0, 0, g_.nodes[scans_[0].number].origin}};
    for (Layer& scan : scans_) each(scan);
    std::ranges::stable_sort(parts_, {}, [](const auto& p) { return p.first; });
    for (auto& [phase, part] : parts_) plan_.each.push_back(std::move(part));
    cost();
    out_.scan = std::make_shared<const ScanPlan>(std::move(plan_));
    return {std::make_shared<const GroupPlan>(std::move(out_)), {}, steps_};
  }

 private:
  enum Role : uint8_t {
    Before,
    Step,
    After
  };  // of a node: ahead of the steps, a scan, behind them
  struct Layer {
    int number, firstState;
    int64_t delay;
  };
  const Graph& g_;
  Target target_;
  FusionOptions options_;
  PlanMemory& memory_;
  std::vector<Role> role_;
  std::vector<Layer> scans_;
  const double launchSeconds_;
  std::vector<std::pair<int, ScanPart>> parts_;  // by phase of a step
  GroupPlan out_;
  ScanPlan plan_;
  int64_t steps_ = 0;

  const Node& nodeOf(const Layer& s) const { return g_.nodes[static_cast<size_t>(s.number)]; }
  const Scan& scanOf(const Layer& s) const { return *nodeOf(s).as<Scan>(); }
  bool isLeaf(Value v) const { return g_.node(v).as<Input>() || g_.node(v).as<Const>(); }
  static std::string stateName(int i) { return fmt::format("state{}", i); }
  std::string bufferOf(Value v) const {
    return fmt::format("{}{}{}", isLeaf(v) ? "x" : "y", v.node,
                       v.result ? fmt::format("_{}", v.result) : "");
  }
  bool isWanted(Value v) const { return std::ranges::count(g_.outputs, v) > 0; }
  static bool isReverse(const Scan& s, size_t flag) {
    return flag < s.reverse.size() && s.reverse[flag];
  }

  // ---- what runs when

  bool sort(int n) {
    const Node& node = g_.nodes[static_cast<size_t>(n)];
    if (node.as<Scan>()) return sortScan(n, node);
    if (node.as<Update>() || !nestedGraphs(node).empty() || node.as<Call>()) return false;
    for (const Value& v : node.operands)
      if (role_[v.node] != Before) role_[n] = After;
    return true;
  }
  bool sortScan(int n, const Node& node) {
    if (!isKernelScan(node)) return false;
    const Scan& scan = *node.as<Scan>();
    const auto states = static_cast<size_t>(scan.states),
               scanned = static_cast<size_t>(scan.scanned);
    const int64_t steps =
        scan.scanned ? g_.type(node.operands[states]).extent(0) : node.results[states].extent(0);
    if (!scans_.empty() && steps != plan_.steps) return false;
    plan_.steps = steps;
    Layer layer{n, 0, 0};
    for (const Layer& s : scans_) layer.firstState += scanOf(s).states;
    for (size_t i = 0; i < node.operands.size(); i++) {
      const Value v = node.operands[i];
      if (role_[v.node] == Before) continue;
      const auto from = std::ranges::find(scans_, v.node, &Layer::number);
      if (from == scans_.end() || i < states || i >= states + scanned) return false;
      const Scan& source = scanOf(*from);
      if (v.result < source.states ||
          isReverse(source, static_cast<size_t>(source.scanned + v.result - source.states)) !=
              isReverse(scan, i - states))
        return false;
      layer.delay = std::max(layer.delay, from->delay + 1);
    }
    plan_.delay = std::max(plan_.delay, layer.delay);
    role_[n] = Step;
    scans_.push_back(layer);
    return true;
  }

  // ---- buffers

  void add(PlanBuffer::Kind kind, std::string name, Value v, TensorType type) {
    if (std::ranges::find(out_.buffers, name, &PlanBuffer::name) != out_.buffers.end()) return;
    PlanBuffer b;
    b.kind = kind;
    b.name = std::move(name);
    b.value = v;
    b.type = std::move(type);
    if (kind == PlanBuffer::Scratch) b.space = "main";
    out_.buffers.push_back(std::move(b));
  }
  void buffers() {
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++)
      if (const Value v{n, 0}; isLeaf(v))
        add(g_.node(v).as<Const>() ? PlanBuffer::Constant : PlanBuffer::Input, bufferOf(v), v,
            g_.type(v));
    for (const Value& v : g_.outputs) add(PlanBuffer::Output, bufferOf(v), v, g_.type(v));
    for (const Layer& s : scans_)
      for (int i = 0; i < scanOf(s).states; i++) {
        TensorType two = nodeOf(s).results[static_cast<size_t>(i)];
        two.shape.insert(two.shape.begin(), 2);
        add(PlanBuffer::Scratch, stateName(s.firstState + i), {}, two);
      }
    for (const Node& n : g_.nodes)
      for (const Value& v : n.operands)
        if (isKept(v, n)) {
          TensorType type = g_.type(v);
          if (isRing(v)) type.shape[0] = 2;
          add(PlanBuffer::Scratch, bufferOf(v), {}, type);
        }
  }
  /// Slices that only scans a step behind read: two are enough.
  bool isRing(Value v) const {
    const auto from = std::ranges::find(scans_, v.node, &Layer::number);
    if (from == scans_.end() || isWanted(v)) return false;
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
      if (std::ranges::count(g_.nodes[n].operands, v) == 0) continue;
      const auto to = std::ranges::find(scans_, n, &Layer::number);
      if (to == scans_.end() || to->delay != from->delay + 1) return false;
    }
    return true;
  }
  /// Does a value that a node reads lie in memory for it?
  bool isKept(Value v, const Node& reader) const {
    if (isLeaf(v)) return false;
    const Role from = role_[v.node], to = role_[&reader - g_.nodes.data()];
    if (from == Before && to == Step) {
      const auto states = static_cast<size_t>(reader.as<Scan>()->states);
      return std::ranges::find(reader.operands.begin() + static_cast<long>(states),
                               reader.operands.end(), v) != reader.operands.end();
    }
    if (from == Step) return v.result >= g_.node(v).as<Scan>()->states;
    return from == Before && to == After;
  }

  // ---- before and after the steps

  /// The value in a part that computes the nodes of this role.
  Value in(PartGraph& p, Value v, Role role) {
    if (const auto it = p.to.find(v); it != p.to.end()) return it->second;
    const Node& node = g_.node(v);
    if (node.as<Const>()) return p.to[v] = p.body.add(node);
    if (!node.as<Input>() && role_[v.node] == role) {
      Node copy = node;
      for (Value& operand : copy.operands) operand = in(p, operand, role);
      const Value first = p.body.add(std::move(copy));
      for (int r = 0; r < static_cast<int>(node.results.size()); r++)
        p.to[Value{v.node, r}] = {first.node, r};
      return p.to[v];
    }
    const auto scan = std::ranges::find(scans_, v.node, &Layer::number);
    if (scan != scans_.end() && v.result < scanOf(*scan).states)
      p.inputs.push_back({stateName(scan->firstState + v.result), Expr(plan_.steps % 2)});
    else
      p.inputs.push_back({bufferOf(v), {}});
    return p.to[v] = p.body.add(input(g_.type(v)));
  }
  bool addPart(PartGraph p, std::vector<ScanPart>& to) {
    if (p.outputs.empty()) return true;
    const PlanResult r = planGroup(p.body, target_, options_);
    steps_ += r.steps;
    if (!r.plan) return false;
    to.push_back({std::make_shared<const Graph>(std::move(p.body)), r.plan, std::move(p.inputs),
                  std::move(p.outputs)});
    return true;
  }
  bool isStored(Value v) const {
    return std::ranges::find(out_.buffers, bufferOf(v), &PlanBuffer::name) != out_.buffers.end();
  }
  /// The states' first values, in slice 0, and what the steps read.
  bool begin() {
    PartGraph p;
    for (const Layer& s : scans_)
      for (int i = 0; i < scanOf(s).states; i++) {
        const Value from = in(p, nodeOf(s).operands[static_cast<size_t>(i)], Before);
        p.store(copyOf(p.body, from, nodeOf(s).origin), {stateName(s.firstState + i), Expr(0)});
      }
    storeAll(p, Before);
    return addPart(std::move(p), plan_.first);
  }
  void storeAll(PartGraph& p, Role role) {
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++)
      for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++)
        if (const Value v{n, r}; role_[n] == role && !isLeaf(v) && isStored(v))
          p.store(in(p, v, role), {bufferOf(v), {}});
  }
  bool end() {
    PartGraph p;
    for (const Layer& s : scans_)
      for (int i = 0; i < scanOf(s).states; i++)
        if (const Value v{s.number, i}; isWanted(v))
          p.store(copyOf(p.body, in(p, v, After), nodeOf(s).origin), {bufferOf(v), {}});
    storeAll(p, After);
    return addPart(std::move(p), plan_.last);
  }

  // ---- a step

  static Expr time(const Layer& s) { return var(kStepVariable) - Expr(s.delay); }
  Expr sliceAt(const Layer& s, size_t flag, Value v) const {
    if (isRing(v)) return floorMod(time(s), Expr(2));
    return isReverse(scanOf(s), flag) ? Expr(plan_.steps - 1) - time(s) : time(s);
  }
  /// The scan's body with the outputs that are wanted, each once and none of them an input; where each goes.
  Graph stepBody(const Layer& s, std::vector<std::vector<ScanPort>>& places) const {
    const Scan& scan = scanOf(s);
    Graph body = *scan.body;
    const std::vector<Value> all = body.outputs;
    body.outputs.clear();
    body.outputNames.clear();
    std::map<Value, size_t> known;
    for (int r = 0; r < static_cast<int>(all.size()); r++) {
      const Value result{s.number, r};
      if (r >= scan.states && !isStored(result)) continue;
      const ScanPort place =
          r < scan.states
              ? ScanPort{stateName(s.firstState + r), floorMod(time(s) + Expr(1), Expr(2))}
              : ScanPort{bufferOf(result),
                         sliceAt(s, static_cast<size_t>(scan.scanned + r - scan.states), result)};
      const Value from = all[static_cast<size_t>(r)];
      const auto [it, isNew] = known.emplace(from, places.size());
      if (isNew) {
        const bool leaf = body.node(from).operands.empty();
        body.outputs.push_back(leaf ? copyOf(body, from, nodeOf(s).origin) : from);
        places.emplace_back();
      }
      places[it->second].push_back(place);
    }
    return rebuild(body, [](Graph& out, Node n) { return keep(out, std::move(n)); });
  }
  ScanPort inputPort(const Layer& s, int i) const {
    const Scan& scan = scanOf(s);
    if (i < scan.states) return {stateName(s.firstState + i), floorMod(time(s), Expr(2))};
    const Value v = nodeOf(s).operands[static_cast<size_t>(i)];
    if (i >= scan.states + scan.scanned) return {bufferOf(v), {}};
    return {bufferOf(v), sliceAt(s, static_cast<size_t>(i - scan.states), v)};
  }
  std::shared_ptr<const Fused> fusedBody(const Graph& body) {
    Hasher h;
    h.add(body.hash());
    for (const Node& n : body.nodes) h.add(n.origin);  // stages are named by them
    std::shared_ptr<const Fused>& fused = memory_.bodies[h.finish()];
    if (!fused) {
      fused = std::make_shared<const Fused>(fuse(body, target_, options_));
      steps_ += fused->steps;
    }
    return fused;
  }
  void each(const Layer& s) {
    std::vector<std::vector<ScanPort>> places;
    const Fused& fused = *fusedBody(stepBody(s, places));
    std::map<Value, std::vector<ScanPort>> at;
    std::map<Value, int> phases;
    int inputs = 0;
    for (const Value& v : fused.graph.inputs()) at[v] = {inputPort(s, inputs++)};
    for (size_t i = 0; i < places.size(); i++) at[fused.graph.outputs[i]] = places[i];
    for (int n = 0; n < static_cast<int>(fused.graph.nodes.size()); n++) {
      const Node& node = fused.graph.nodes[static_cast<size_t>(n)];
      const Group* group = node.as<Group>();
      if (!group) continue;
      ScanPart p{group->body, group->plan, {}, {}, s.delay};
      int phase = 0;
      for (const Value& v : node.operands) {
        p.inputs.push_back(at.at(v)[0]);
        if (const auto it = phases.find(v); it != phases.end())
          phase = std::max(phase, it->second + 1);
      }
      for (int r = 0; r < static_cast<int>(node.results.size()); r++) {
        const Value v{n, r};
        phases[v] = phase;
        if (!at.count(v)) {
          at[v] = {{fmt::format("between{}", out_.buffers.size()), {}}};
          add(PlanBuffer::Scratch, at[v][0].buffer, {}, fused.graph.type(v));
        }
        p.outputs.push_back(at[v]);
      }
      parts_.emplace_back(phase, std::move(p));
    }
  }

  void addCost(const std::vector<ScanPart>& list, double times, int64_t syncs) {
    Cost& c = out_.cost;
    for (const ScanPart& p : list) {
      const Cost& one = p.plan->cost;
      c.seconds += (one.seconds - target_.launchSeconds) * times;
      c.flops += one.flops * times;
      c.slots += one.slots * times;
      c.recompute = std::max(c.recompute, one.recompute);
      c.scratchBytes = std::max(c.scratchBytes, one.scratchBytes);
      c.registers = std::max(c.registers, one.registers);
    }
    c.gridSyncs += syncs;
    c.seconds += static_cast<double>(syncs) * target_.gridSyncSeconds;
  }
  void cost() {
    plan_.carried = plan_.each.size() == 1 && !plan_.delay && readsOwnStates(plan_.each[0]);
    const double steps = static_cast<double>(plan_.steps);
    const int phases = parts_.empty() ? 0 : parts_.back().first + 1;
    addCost(plan_.first, 1, 1);
    addCost(plan_.each, steps, plan_.carried ? 1 : phases * (plan_.steps + plan_.delay));
    addCost(plan_.last, 1, 0);
    Cost& c = out_.cost;
    c.launches = 1;
    c.seconds += launchSeconds_ + outgrown() * steps;
    for (const PlanBuffer& b : out_.buffers) {
      const auto n = static_cast<int64_t>(bytesOf(b.type));
      if (b.kind == PlanBuffer::Output)
        c.bytesWritten += n;
      else if (b.kind != PlanBuffer::Scratch)
        c.bytesRead += n;
    }
  }
  /// What the constants of all parts cost a step more than each by itself, where together they leave the near caches. Counts their bytes.
  double outgrown() {
    std::map<const void*, double> constants;
    for (const ScanPart& p : plan_.each)
      for (const PlanBuffer& b : p.plan->buffers)
        if (b.kind == PlanBuffer::Constant)
          if (const Const* k = p.body->node(b.value).as<Const>(); k && k->data)
            constants[k->data.get()] = static_cast<double>(k->data->bytes);
    double all = 0, more = 0;
    for (const auto& [data, n] : constants) all += n;
    for (const auto& [data, n] : constants)
      more +=
          moveSeconds(n, all, target_.cores, target_) - moveSeconds(n, n, target_.cores, target_);
    out_.cost.bytesRead += static_cast<int64_t>(all);
    return std::max(more, 0.0);
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

PlanResult planScan(const Graph& body, const Target& target, const FusionOptions& options,
                    PlanMemory& memory) {
  const auto scans = std::ranges::count_if(body.nodes, [](const Node& n) { return n.as<Scan>(); });
  if (scans > 1 && target.cores == 1 && target.hasExplicitMemory())
    return planScansInTurn(body, target, options, memory);
  return ScanPlanner(body, target, options, memory).run();
}

}  // namespace tektite
