#include <algorithm>

#include "fusion/plan_body.h"
#include "fusion/scan.h"
#include "ir/bytes.h"

namespace tektite {
namespace {

/// Cuts a body behind each of its scans and plans the pieces, each as a kernel would be.
class Sequence {
 public:
  Sequence(const Graph& g, const Target& target, const FusionOptions& options, PlanMemory& memory)
      : g_(g), target_(target), options_(options), memory_(memory) {}

  PlanResult run() {
    const int count = static_cast<int>(g_.nodes.size());
    for (int n = 0; n < count; n++)
      if (const Value v{n, 0}; isLeaf(v))
        add(g_.node(v).as<Const>() ? PlanBuffer::Constant : PlanBuffer::Input, v);
    for (const Value& v : g_.outputs) add(PlanBuffer::Output, v);
    int first = 0;
    for (int n = 0; n < count; n++)
      if (g_.nodes[n].as<Scan>() || n + 1 == count) {
        if (const Refusal* r = piece(first, n + 1)) return {nullptr, *r};
        first = n + 1;
      }
    finish();
    return {std::make_shared<const GroupPlan>(std::move(out_)), {}, steps_};
  }

 private:
  const Graph& g_;
  const Target& target_;
  const FusionOptions& options_;
  PlanMemory& memory_;
  GroupPlan out_;
  ScanPlan plan_;
  Refusal refusal_;
  int64_t steps_ = 0;

  bool isLeaf(Value v) const { return g_.node(v).as<Input>() || g_.node(v).as<Const>(); }
  std::string nameOf(Value v) const {
    return fmt::format("{}{}_{}", isLeaf(v) ? "x" : "y", v.node, v.result);
  }
  void add(PlanBuffer::Kind kind, Value v) {
    const std::string name = nameOf(v);
    if (std::ranges::find(out_.buffers, name, &PlanBuffer::name) != out_.buffers.end()) return;
    PlanBuffer b;
    b.kind = kind;
    b.name = name;
    b.value = v;
    b.type = g_.type(v);
    if (kind == PlanBuffer::Scratch) b.space = "main";
    out_.buffers.push_back(std::move(b));
  }
  /// Does a value leave the nodes before `end`?
  bool leaves(Value v, int end) const {
    if (std::ranges::count(g_.outputs, v)) return true;
    for (size_t n = static_cast<size_t>(end); n < g_.nodes.size(); n++)
      if (std::ranges::count(g_.nodes[n].operands, v)) return true;
    return false;
  }
  const Refusal* piece(int first, int end) {
    Graph body;
    ScanPart part;
    std::map<Value, Value> to;
    for (int n = first; n < end; n++) {
      if (isLeaf({n, 0})) continue;
      Node copy = g_.nodes[static_cast<size_t>(n)];
      for (Value& v : copy.operands) {
        if (!to.count(v)) {
          const bool constant = g_.node(v).as<Const>();
          if (!constant) part.inputs.push_back({nameOf(v), {}});
          to[v] = body.add(constant ? g_.node(v) : Node{Input{}, {}, {g_.type(v)}, "", ""});
        }
        v = to.at(v);
      }
      const int results = static_cast<int>(copy.results.size());
      const Value made = body.add(std::move(copy));
      for (int r = 0; r < results; r++) to[Value{n, r}] = {made.node, r};
    }
    for (const auto& [v, inside] : to) {
      if (v.node < first || isLeaf(v) || !leaves(v, end)) continue;
      add(PlanBuffer::Scratch, v);  // unless it is an output
      body.outputs.push_back(inside);
      part.outputs.push_back({{nameOf(v), {}}});
    }
    if (body.outputs.empty()) return nullptr;
    const PlanResult r = planBody(body, accessesOf(body), target_, options_, memory_);
    steps_ += r.steps;
    if (!r.plan) return &(refusal_ = r.refusal);
    part.body = std::make_shared<const Graph>(std::move(body));
    part.plan = r.plan;
    plan_.first.push_back(std::move(part));
    return nullptr;
  }
  void finish() {
    Cost& c = out_.cost;
    c.launches = 1;
    c.seconds = target_.launchSeconds;
    for (const ScanPart& p : plan_.first) {
      const Cost& one = p.plan->cost;
      c.seconds += one.seconds - target_.launchSeconds + target_.gridSyncSeconds;
      c.flops += one.flops;
      c.slots += one.slots;
      c.gridSyncs += one.gridSyncs;
      c.recompute = std::max(c.recompute, one.recompute);
      c.scratchBytes = std::max(c.scratchBytes, one.scratchBytes);
    }
    const Level &near = *target_.level(target_.scratch), &main = target_.levels.back();
    const double rate = std::max(main.sharedBytesPerSecond, main.bytesPerSecond);
    for (const PlanBuffer& b : out_.buffers) {
      const int64_t n = bytesOf(b.type);
      if (b.kind == PlanBuffer::Scratch && rate > 0 && n + c.scratchBytes <= near.bytes)
        c.seconds -= 2 * static_cast<double>(n) / rate;  // it stays on the core
      if (b.kind == PlanBuffer::Output) c.bytesWritten += n;
      if (b.kind == PlanBuffer::Input || b.kind == PlanBuffer::Constant) c.bytesRead += n;
    }
    out_.scan = std::make_shared<const ScanPlan>(std::move(plan_));
  }
};

}  // namespace

PlanResult planScansInTurn(const Graph& body, const Target& target, const FusionOptions& options,
                           PlanMemory& memory) {
  return Sequence(body, target, options, memory).run();
}

}  // namespace tektite
