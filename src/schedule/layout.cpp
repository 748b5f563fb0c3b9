#include "schedule/layout.h"

#include <numeric>

#include "support/check.h"

namespace tektite {
namespace {

std::vector<int> orderOf(const PlanBuffer& b) {
  if (!b.order.empty()) return b.order;
  std::vector<int> order(b.type.rank());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Does every index of the load move with the store's index of the same axis, up to a shift?
bool samePlace(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); i++) {
    Linear l = linearOf(a[i]), r = linearOf(b[i]);
    l.constant = r.constant = 0;
    if (!(toExpr(l) == toExpr(r))) return false;
  }
  return true;
}

}  // namespace

std::vector<int64_t> memoryShape(const PlanBuffer& b) {
  if (b.kind != PlanBuffer::Scratch) return b.type.extents();
  std::vector<int64_t> shape;
  for (const Region& r : b.region) shape.push_back(r.size);
  return shape;
}

std::vector<int64_t> memoryStrides(const PlanBuffer& b) {
  const auto shape = memoryShape(b);
  const auto order = orderOf(b);
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

bool mentions(const std::vector<Expr>& index, const std::string& var) {
  for (const Expr& e : index)
    for (const std::string& v : freeVars(e))
      if (v == var) return true;
  return false;
}

std::optional<int64_t> strideAlong(const PlanBuffer& b, const std::vector<Expr>& index, const std::string& var) {
  const auto strides = memoryStrides(b);
  int64_t step = 0;
  for (size_t d = 0; d < index.size(); d++) {
    for (const auto& [term, coefficient] : linearOf(index[d]).terms) {
      const Var* v = term.as<Var>();
      if (v && v->name == var) step += coefficient * strides[d];
      if (!v && mentions({term}, var)) return std::nullopt;
    }
  }
  return step;
}

GroupPlan withScratchOrders(GroupPlan plan) {
  for (const TileList& list : plan.lists)
    for (const Stage& stage : list.stages)
      for (const auto* stores : {&stage.inner, &stage.outer})
        for (const StageStore& s : *stores)
          for (PlanBuffer& b : plan.buffers) {
            if (b.name != s.buffer || b.kind != PlanBuffer::Scratch || !b.order.empty()) continue;
            for (const Expr& e : loadsOf(s.value)) {
              const Load& l = *e.as<Load>();
              const PlanBuffer& from = plan.buffer(l.buffer);
              if (!from.order.empty() && samePlace(l.index, s.index)) b.order = from.order;
            }
          }
  return plan;
}

}  // namespace tektite
