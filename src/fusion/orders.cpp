#include "fusion/orders.h"

#include <algorithm>

namespace tektite {
namespace {

/// Does the load walk with the store, axis by axis, up to shifts and what the reduction walks over?
bool samePlace(const std::vector<Expr>& loaded, const std::vector<Expr>& stored,
               const Stage& stage) {
  if (loaded.size() != stored.size()) return false;
  const auto spaceTerms = [&](const Expr& e) {
    Linear l = linearOf(e);
    l.constant = 0;
    std::erase_if(l.terms, [&](const auto& term) {
      const Var* v = term.first.template as<Var>();
      return v && std::ranges::any_of(
                      stage.axes, [&](const StageAxis& a) { return a.reduce && a.var == v->name; });
    });
    return l;
  };
  for (size_t i = 0; i < loaded.size(); i++) {
    const Linear l = spaceTerms(loaded[i]), r = spaceTerms(stored[i]);
    const bool reducedAway = l.terms.empty() && !linearOf(loaded[i]).terms.empty();
    if (!reducedAway && !(toExpr(l) == toExpr(r))) return false;
  }
  return true;
}

/// Gives an order to the scratch buffers that this stage stores beside, or reads at the place of, a buffer that has one. Did any get one?
bool spreadOrders(std::vector<PlanBuffer>& buffers, const Stage& stage) {
  bool changed = false;
  const auto named = [&](const std::string& name) {
    return std::ranges::find(buffers, name, &PlanBuffer::name);
  };
  const auto share = [&](const std::string& a, const std::string& b) {
    for (const auto& [from, to] : {std::pair{named(a), named(b)}, std::pair{named(b), named(a)}})
      if (!from->order.empty() && to->order.empty() && to->kind == PlanBuffer::Scratch)
        to->order = from->order, changed = true;
  };
  std::vector<Expr> loads;
  const auto collect = [&](const Expr& e) {
    for (Expr& l : loadsOf(e)) loads.push_back(std::move(l));
  };
  for (const Accumulator& a : stage.accumulators)
    for (const Expr& e : a.values) collect(e);
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores) collect(s.value);
  for (const auto* stores : {&stage.inner, &stage.outer})
    for (const StageStore& s : *stores)
      for (const Expr& e : loads)
        if (samePlace(e.as<Load>()->index, s.index, stage)) share(e.as<Load>()->buffer, s.buffer);
  return changed;
}

/// What a product reads along the axis that its result has innermost lies along it, too: lanes run there without gathering.
void followResult(std::vector<PlanBuffer>& buffers, const Stage& stage) {
  const auto named = [&](const std::string& name) {
    return std::ranges::find(buffers, name, &PlanBuffer::name);
  };
  for (const StageStore& store : stage.outer) {
    const PlanBuffer& to = *named(store.buffer);
    size_t innermost = to.order.size();
    while (innermost > 0 && to.type.extent(to.order[innermost - 1]) == 1) innermost--;
    if (innermost == 0) continue;
    const Var* lanes = store.index[to.order[innermost - 1]].as<Var>();
    if (!lanes) continue;
    for (const Expr& e : loadsOf(stage.accumulators[0].values[0])) {
      const Load& l = *e.as<Load>();
      const auto from = named(l.buffer);
      if (from->kind != PlanBuffer::Scratch || !from->order.empty()) continue;
      for (size_t d = 0; d < l.index.size(); d++) {
        if (linearOf(l.index[d]).coefficientOf(lanes->name) != 1) continue;
        for (int i = 0; i < static_cast<int>(l.index.size()); i++)
          if (i != static_cast<int>(d)) from->order.push_back(i);
        from->order.push_back(static_cast<int>(d));
        break;
      }
    }
  }
}

}  // namespace

void spreadOrders(std::vector<PlanBuffer>& buffers, const std::vector<Stage>& stages) {
  for (const Stage& stage : stages)
    if (stage.contraction) followResult(buffers, stage);
  for (bool again = true; again;) {
    again = false;
    for (const Stage& stage : stages) again |= spreadOrders(buffers, stage);
  }
}

}  // namespace tektite
