#include "fusion/layouts.h"

#include <algorithm>
#include <numeric>

#include "fusion/plan.h"
#include "fusion/stages.h"
#include "ir/mentions.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLeastLanes = 8;  // fewer results of a product lie along vectors in vain

/// Without axes of extent 1 at the end.
int rankOf(const TensorType& t) {
  int rank = t.rank();
  while (rank > 0 && t.extent(rank - 1) == 1) rank--;
  return rank;
}

class Layouts {
 public:
  Layouts(Graph& g, const Replan& replan) : g_(g), replan_(replan) {}

  void run() {
    collect();
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++)
      if (g_.nodes[n].as<Group>()) visitGroup(n);
    decide();
    for (Node& n : g_.nodes)
      if (n.as<Group>()) write(n);
  }

 private:
  Graph& g_;
  const Replan& replan_;
  std::map<Value, int> number_;  // values whose layout is free
  std::vector<Value> values_;
  std::vector<int> parent_;
  std::vector<std::map<int, double>> votes_;  // axis -> bytes of traffic that want it innermost
  std::map<Value, std::vector<int>> order_;
  std::map<std::pair<const GroupPlan*, std::string>, std::shared_ptr<const GroupPlan>> written_;

  void collect() {
    std::map<Value, bool> free;
    for (int n = 0; n < static_cast<int>(g_.nodes.size()); n++) {
      const Group* found = g_.nodes[n].as<Group>();
      const bool group = found && !found->plan->scan;  // a scan's values stay row-major
      for (const Value& v : g_.nodes[n].operands)
        if (!group) free[v] = false;
      if (!group) continue;
      for (int r = 0; r < static_cast<int>(g_.nodes[n].results.size()); r++)
        if (rankOf(g_.nodes[n].results[r]) >= 3) free.emplace(Value{n, r}, true);
    }
    for (const Value& v : g_.outputs) free[v] = false;
    for (const auto& [v, is] : free) {
      if (!is) continue;
      number_[v] = static_cast<int>(values_.size());
      values_.push_back(v);
    }
    parent_.resize(values_.size());
    std::iota(parent_.begin(), parent_.end(), 0);
    votes_.resize(values_.size());
  }
  int find(int x) { return parent_[x] == x ? x : parent_[x] = find(parent_[x]); }

  /// The graph's value behind a buffer of a group's plan.
  std::optional<Value> valueOf(int n, const PlanBuffer& b) const {
    const Node& node = g_.nodes[n];
    const Graph& body = *node.as<Group>()->body;
    if (b.kind == PlanBuffer::Output) {
      const auto it = std::ranges::find(body.outputs, b.value);
      return Value{n, static_cast<int>(it - body.outputs.begin())};
    }
    if (b.kind != PlanBuffer::Input) return {};
    const std::vector<Value> inputs = body.inputs();
    return node.operands[static_cast<size_t>(std::ranges::find(inputs, b.value) - inputs.begin())];
  }

  void visitGroup(int n) {
    const GroupPlan& plan = *g_.nodes[n].as<Group>()->plan;
    std::map<std::string, int> named;
    std::map<int, int> ofRank;  // one value of each rank that the group touches
    for (const PlanBuffer& b : plan.buffers) {
      const auto v = valueOf(n, b);
      const auto it = v ? number_.find(*v) : number_.end();
      if (it == number_.end()) continue;
      named[b.name] = it->second;
      const auto [first, isNew] = ofRank.emplace(rankOf(b.type), it->second);
      if (!isNew) parent_[find(it->second)] = find(first->second);
    }
    for (const TileList& list : plan.lists) vote(plan, list, named);
  }

  /// Lanes of a product run along the space axis of its constant operand: what it stores is wanted so, and what stages behind it make of that.
  void vote(const GroupPlan& plan, const TileList& list, const std::map<std::string, int>& named) {
    std::map<std::string, size_t> lanes;  // the dimension of a scratch buffer
    for (const Stage& s : list.stages) {
      const std::string wanted = s.contraction ? lanesOf(plan, s) : lanesOf(lanes, s);
      if (wanted.empty()) continue;
      for (const auto* stores : {&s.inner, &s.outer})
        for (const StageStore& store : *stores)
          for (size_t d = 0; d < store.index.size(); d++) {
            if (!mentions(store.index[d], wanted)) continue;
            const PlanBuffer& b = plan.buffer(store.buffer);
            if (b.kind == PlanBuffer::Scratch) lanes[b.name] = d;
            if (const auto it = named.find(b.name); it != named.end())
              votes_[it->second][static_cast<int>(d)] += static_cast<double>(b.type.elements());
          }
    }
  }
  std::string lanesOf(const GroupPlan& plan, const Stage& s) const {
    std::string wanted;  // the last of several
    for (const Expr& e : loadsOf(s.accumulators[0].values[0])) {
      if (plan.buffer(e.as<Load>()->buffer).kind != PlanBuffer::Constant) continue;
      for (const std::string& v : freeVars(e))
        for (const StageAxis& a : s.axes)
          if (a.var == v && !a.reduce && std::min(a.extent, a.region.size) >= kLeastLanes)
            wanted = v;
    }
    return wanted;
  }
  /// The axis along which a stage reads such buffers.
  std::string lanesOf(const std::map<std::string, size_t>& lanes, const Stage& s) const {
    for (const Expr& e : loadsOf(s)) {
      const Load& l = *e.as<Load>();
      const auto it = lanes.find(l.buffer);
      if (it == lanes.end()) continue;
      const Var* v = l.index[it->second].as<Var>();
      for (const StageAxis& a : s.axes)
        if (v && v->name == a.var && !a.reduce) return a.var;
    }
    return {};
  }

  void decide() {
    std::map<int, std::map<int, double>> total;
    for (size_t i = 0; i < values_.size(); i++)
      for (const auto& [axis, bytes] : votes_[i]) total[find(static_cast<int>(i))][axis] += bytes;
    for (size_t i = 0; i < values_.size(); i++) {
      const int rank = rankOf(g_.type(values_[i]));
      int best = rank - 1;
      double most = 0;
      for (const auto& [axis, bytes] : total[find(static_cast<int>(i))])
        if (bytes > most) most = bytes, best = axis;
      if (best >= rank - 1) continue;
      std::vector<int>& order = order_[values_[i]];
      for (int axis = 0; axis < rank; axis++)
        if (axis != best) order.push_back(axis);
      order.push_back(best);
      for (int axis = rank; axis < g_.type(values_[i]).rank(); axis++) order.push_back(axis);
    }
  }

  /// Tiles of maps and reductions follow memory; those of products are cut by what registers and caches hold, whatever the order.
  std::shared_ptr<const GroupPlan> inOrders(const GroupPlan& plan, const Graph& body,
                                            const Orders& orders) const {
    const bool product = std::ranges::any_of(plan.lists, [](const TileList& list) {
      return std::ranges::any_of(list.stages, &Stage::contraction);
    });
    if (!product) {
      PlanResult again = replan_(body, orders);
      TEKTITE_CHECK(again.plan, "a group is refused in another layout");
      return again.plan;
    }
    auto copy = std::make_shared<GroupPlan>(plan);
    for (PlanBuffer& b : copy->buffers)
      if (const auto it = orders.find(b.value); it != orders.end() && b.kind != PlanBuffer::Scratch)
        b.order = it->second;
    return copy;
  }

  void write(Node& node) {
    const int n = static_cast<int>(&node - g_.nodes.data());
    Group group = *node.as<Group>();
    Orders orders;
    std::string key;
    for (const PlanBuffer& b : group.plan->buffers) {
      const auto v = valueOf(n, b);
      const auto it = v ? order_.find(*v) : order_.end();
      key += '/';
      if (it == order_.end()) continue;
      orders[b.value] = it->second;
      key += std::to_string(it->second.back());
    }
    if (orders.empty()) return;
    auto& shared = written_[{group.plan.get(), key}];
    if (!shared) shared = inOrders(*group.plan, *group.body, orders);
    group.plan = shared;
    node.kind = std::move(group);
  }
};

}  // namespace

void chooseLayouts(Graph& g, const Replan& replan) { Layouts(g, replan).run(); }

}  // namespace tektite
