#include "fusion/record.h"

#include <algorithm>
#include <numeric>

#include "fusion/fences.h"
#include "fusion/scan.h"
#include "ir/bytes.h"
#include "support/check.h"

namespace tektite {
namespace {

class Recorder {
 public:
  Recorder(const Graph& g, const Clusters& clusters, const Refusals& refusals,
           const std::function<std::shared_ptr<const GroupPlan>(const Clusters::Body&)>& plan,
           const std::function<Refusal(int, int)>& why)
      : g_(g),
        clusters_(clusters),
        refusals_(refusals),
        plan_(plan),
        why_(why),
        users_(usersOf(g)) {}

  Fused run() {
    out_.graph.dims = g_.dims;
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
      const Node& node = g_.nodes[n];
      if (node.as<Input>()) to_[Value{n, 0}] = out_.graph.add(node);
    }
    for (int c : clusters_.order()) add(c);
    for (const Value& v : g_.outputs) out_.graph.outputs.push_back(valueOf(v));
    out_.graph.outputNames = g_.outputNames;
    edges();
    return std::move(out_);
  }

 private:
  const Graph& g_;
  const Clusters& clusters_;
  const Refusals& refusals_;
  const std::function<std::shared_ptr<const GroupPlan>(const Clusters::Body&)>& plan_;
  const std::function<Refusal(int, int)>& why_;
  std::vector<std::vector<int>> users_;
  Fused out_;
  std::map<Value, Value> to_;
  std::map<int, std::pair<std::shared_ptr<const GroupPlan>, std::map<Value, Value>>>
      plans_;  // cluster -> plan, graph value -> body value

  Value valueOf(const Value& v) {
    if (const auto it = to_.find(v); it != to_.end()) return it->second;
    TEKTITE_CHECK(g_.node(v).as<Const>(), "value %{} of no group", v.node);
    return to_[v] = out_.graph.add(g_.node(v));
  }
  void add(int c) {
    const Cluster& cluster = clusters_.list[c];
    if (cluster.host) {
      Node copy = g_.nodes[cluster.nodes[0]];
      for (Value& v : copy.operands) v = valueOf(v);
      const size_t results = copy.results.size();
      const Value first = out_.graph.add(std::move(copy));
      for (size_t r = 0; r < results; r++)
        to_[Value{cluster.nodes[0], static_cast<int>(r)}] = {first.node, static_cast<int>(r)};
      return;
    }
    Clusters::Body body = clusters_.bodyOf(cluster.nodes);
    Node group;
    auto& [plan, names] = plans_[c];
    plan = plan_(body);
    for (size_t i = 0; i < body.from.size(); i++)
      for (size_t r = 0; r < body.graph.nodes[i].results.size(); r++)
        names[Value{body.from[i], static_cast<int>(r)}] = {static_cast<int>(i),
                                                           static_cast<int>(r)};
    for (const Value& v : body.inputs) group.operands.push_back(valueOf(v));
    for (const Value& v : body.outputs) group.results.push_back(g_.type(v));
    std::vector<std::string> origins;
    for (int n : cluster.nodes)
      if (const std::string& o = g_.nodes[n].origin;
          !o.empty() && std::ranges::find(origins, o) == origins.end())
        origins.push_back(o);
    for (const std::string& o : origins) group.origin += (group.origin.empty() ? "" : "+") + o;
    const std::vector<Value> outputs = body.outputs;
    group.kind = Group{std::make_shared<const Graph>(std::move(body.graph)), plan};
    const Value first = out_.graph.add(std::move(group));
    for (size_t r = 0; r < outputs.size(); r++) to_[outputs[r]] = {first.node, static_cast<int>(r)};
  }

  // ---- the ledger

  /// The cluster that computes a node for a reader: its own, or the reader's where it is repeated there.
  void edges() {
    std::vector<int> joined(g_.nodes.size());
    std::iota(joined.begin(), joined.end(), 0);
    const std::function<int(int)> find = [&](int x) {
      return joined[x] == x ? x : joined[x] = find(joined[x]);
    };
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
      std::vector<Value> seen;
      for (const Value& v : g_.nodes[n].operands) {
        const Node& from = g_.nodes[v.node];
        if (from.as<Input>() || from.as<Const>() || std::ranges::find(seen, v) != seen.end())
          continue;
        seen.push_back(v);
        Edge e{.from = v, .to = n, .fromName = ledgerName(g_, v.node), .toName = ledgerName(g_, n)};
        judge(e);
        if (e.verdict != Verdict::Unfused && find(v.node) != find(n)) {
          e.launchesSaved = 1;
          joined[find(v.node)] = find(n);
        }
        out_.ledger.edges.push_back(std::move(e));
      }
    }
  }
  void judge(Edge& e) {
    const int64_t size = bytesOf(g_.type(e.from));
    if (clusters_.repeated(e.from.node)) {
      e.verdict = Verdict::Inlined;
      e.bytesSaved = 2 * size;
      return;
    }
    const int a = clusters_.of[e.from.node];
    if (clusters_.repeated(e.to)) {  // copied into its readers
      const int other = readerElsewhere(e.to, a);
      e.verdict = other < 0 ? Verdict::Inlined : Verdict::Unfused;
      e.bytesSaved = other < 0 ? size : 0;
      if (other >= 0) e.refusal = reasonOf(e.from.node, other);
      return;
    }
    const int b = clusters_.of[e.to];
    if (a == b && !clusters_.list[a].host) {
      const auto& [plan, names] = plans_.at(a);
      const Value inBody = names.at(e.from);
      const auto buffer = std::ranges::find_if(
          plan->buffers, [&](const PlanBuffer& x) { return x.value == inBody; });
      const bool scratch = buffer != plan->buffers.end() && buffer->kind == PlanBuffer::Scratch;
      const bool output = buffer != plan->buffers.end() && buffer->kind == PlanBuffer::Output;
      e.verdict = scratch ? Verdict::Placed : output ? Verdict::Merged : Verdict::Inlined;
      e.bytesSaved = output ? size : 2 * size;
      return;
    }
    e.verdict = Verdict::Unfused;
    e.refusal = reasonOf(e.from.node, e.to);
  }
  /// A node of another cluster than `a` that reads a repeated node, directly or through others; -1: none.
  int readerElsewhere(int repeated, int a) const {
    for (int user : users_[repeated]) {
      const int found = clusters_.repeated(user)  ? readerElsewhere(user, a)
                        : clusters_.of[user] != a ? user
                                                  : -1;
      if (found >= 0) return found;
    }
    return -1;
  }
  Refusal reasonOf(int from, int to) const {
    for (int n : {from, to}) {
      const Node& node = g_.nodes[n];
      if (node.as<Branch>() || node.as<Loop>() || (node.as<Scan>() && !isKernelScan(node)))
        return {Reason::ControlFlow, 0, 0, ledgerName(g_, n)};
      if (const Call* c = node.as<Call>()) return {Reason::OpaqueCall, 0, 0, c->routine};
      if (node.as<Update>())
        return {Reason::TargetLacks, 0, 0, "a scatter in the middle of a kernel"};
    }
    if (const auto it = refusals_.find({from, to}); it != refusals_.end()) return it->second;
    const int a = clusters_.of[from], b = clusters_.of[to];
    for (int m : clusters_.list[b].nodes)
      for (const Value& v : clusters_.sources(m))
        if (clusters_.of[v.node] == a)
          if (const auto it = refusals_.find({v.node, m}); it != refusals_.end()) return it->second;
    return why_(a, b);
  }
};

}  // namespace

Fused record(const Graph& g, const Clusters& clusters, const Refusals& refusals,
             const std::function<std::shared_ptr<const GroupPlan>(const Clusters::Body&)>& plan,
             const std::function<Refusal(int, int)>& why) {
  return Recorder(g, clusters, refusals, plan, why).run();
}

}  // namespace tektite
