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
constexpr int64_t kLeastSummed =
    16;  // fewer of an operand's elements side by side scatter what stores them

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
  std::map<Value, int> number_;  // the first of the axes of each value whose layout is free
  std::vector<int> parent_;      // of axes: of such values, then of scratch buffers, group by group
  std::vector<double> votes_;    // elements that a product stores with its lanes along the axis
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
    for (const auto& [v, is] : free)
      if (is) number_[v] = addAxes(g_.type(v));
  }
  int addAxes(const TensorType& t) {
    const int first = static_cast<int>(parent_.size());
    parent_.resize(first + t.rank());
    std::iota(parent_.begin() + first, parent_.end(), first);
    votes_.resize(parent_.size());
    return first;
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
    std::map<std::string, int> axes;  // the first one of each buffer
    for (const PlanBuffer& b : plan.buffers) {
      const auto v = valueOf(n, b);
      const auto it = v ? number_.find(*v) : number_.end();
      if (it != number_.end()) axes[b.name] = it->second;
      if (b.kind == PlanBuffer::Scratch) axes[b.name] = addAxes(b.type);
    }
    for (const TileList& list : plan.lists)
      for (const Stage& s : list.stages) visitStage(plan, s, axes);
  }

  /// Axes of buffers that one axis of the stage runs along are one.
  void visitStage(const GroupPlan& plan, const Stage& s, const std::map<std::string, int>& axes) {
    const std::string lanes = s.contraction ? lanesOf(plan, s) : "";
    std::map<std::string, int> along;
    const auto relate = [&](const std::string& buffer, const std::vector<Expr>& index) {
      const auto it = axes.find(buffer);
      if (it == axes.end()) return;
      for (size_t d = 0; d < index.size(); d++) {
        const StageAxis* a = walker(s, index[d]);
        if (!a) continue;
        const int axis = it->second + static_cast<int>(d);
        const bool summed = a->reduce && !lanes.empty();
        if (summed && a->extent < kLeastSummed) continue;
        parent_[find(axis)] = find(along.emplace(summed ? lanes : a->var, axis).first->second);
      }
    };
    for (const Expr& e : loadsOf(s)) relate(e.as<Load>()->buffer, e.as<Load>()->index);
    for (const auto* stores : {&s.inner, &s.outer})
      for (const StageStore& store : *stores) {
        relate(store.buffer, store.index);
        const auto it = axes.find(store.buffer);
        if (it == axes.end() || lanes.empty()) continue;
        for (size_t d = 0; d < store.index.size(); d++)
          if (mentions(store.index[d], lanes))
            votes_[it->second + d] +=
                static_cast<double>(plan.buffer(store.buffer).type.elements());
      }
  }
  /// The axis of a product's constant operand that goes over its results: its lanes run there.
  static std::string lanesOf(const GroupPlan& plan, const Stage& s) {
    std::string lanes;
    for (const Expr& e : loadsOf(s.accumulators[0].values[0])) {
      const Load& l = *e.as<Load>();
      if (plan.buffer(l.buffer).kind != PlanBuffer::Constant) continue;
      for (const Expr& index : l.index)
        if (const auto a = walker(s, index);
            a && !a->reduce && std::min(a->extent, a->region.size) >= kLeastLanes)
          lanes = a->var;
    }
    return lanes;
  }
  /// The axis that walks from neighbour to neighbour of an index: one of the results, where any is in it.
  static const StageAxis* walker(const Stage& s, const Expr& index) {
    const Linear linear = linearOf(index);
    const StageAxis* found = nullptr;
    for (const StageAxis& a : s.axes) {  // those of the results first
      if (a.reduce && found && !found->reduce) break;
      if (!mentions(index, a.var)) continue;
      if (found) return nullptr;
      found = &a;
    }
    return found && linear.coefficientOf(found->var) == 1 ? found : nullptr;
  }

  void decide() {
    std::vector<double> total(parent_.size());
    for (size_t i = 0; i < parent_.size(); i++) total[find(static_cast<int>(i))] += votes_[i];
    for (const auto& [v, first] : number_) {
      const TensorType& type = g_.type(v);
      const int rank = rankOf(type);
      int best = rank - 1;
      double most = 0;
      for (int axis = rank; axis-- > 0;)
        if (const double votes = total[find(first + axis)]; votes > most) most = votes, best = axis;
      if (best >= rank - 1) continue;
      std::vector<int>& order = order_[v];
      for (int axis = 0; axis < rank; axis++)
        if (axis != best) order.push_back(axis);
      order.push_back(best);
      for (int axis = rank; axis < type.rank(); axis++) order.push_back(axis);
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
