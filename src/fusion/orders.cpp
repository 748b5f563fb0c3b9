#include "fusion/orders.h"

#include <algorithm>

#include "fusion/stages.h"

namespace tektite {
namespace {

constexpr int64_t kLeastRun = 8;  // neighbours that are worth an order of their own

/// Does the load walk with the store, axis by axis, at whatever steps, up to what the reduction walks over? Axes behind the shorter one's
/// have no place in the other: they are of one element.
bool samePlace(const std::vector<Expr>& loaded, const std::vector<Expr>& stored,
               const Stage& stage) {
  const auto walks = [&](const Expr& e) {
    std::vector<std::string> vars = freeVars(e);
    std::erase_if(vars, [&](const std::string& v) {
      return !std::ranges::any_of(stage.axes,
                                  [&](const StageAxis& a) { return !a.reduce && a.var == v; });
    });
    return vars;
  };
  for (size_t i = 0; i < std::max(loaded.size(), stored.size()); i++) {
    const auto l = i < loaded.size() ? walks(loaded[i]) : std::vector<std::string>();
    const auto s = i < stored.size() ? walks(stored[i]) : std::vector<std::string>();
    const bool reducedAway = i < loaded.size() && l.empty() && !freeVars(loaded[i]).empty();
    if (!reducedAway && l != s) return false;
  }
  return true;
}

/// The order of a buffer with more or fewer axes at the end, which have one element.
std::vector<int> orderFor(size_t rank, const std::vector<int>& order) {
  std::vector<int> out;
  for (int axis : order)
    if (axis < static_cast<int>(rank)) out.push_back(axis);
  for (size_t axis = order.size(); axis < rank; axis++) out.push_back(static_cast<int>(axis));
  return out;
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
        to->order = orderFor(to->type.rank(), from->order), changed = true;
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

std::vector<int> memoryOrder(const PlanBuffer& b) {
  std::vector<int> order = b.order;
  for (int axis = static_cast<int>(order.size()); axis < b.type.rank(); axis++)
    order.push_back(axis);
  return order;
}

/// Elements along an axis: of scratch those that are held, once that is known.
int64_t held(const PlanBuffer& b, int axis) {
  return b.region.empty() ? b.type.extent(axis) : b.region[axis].size;
}

/// The axis of more than one element whose neighbours are neighbours in memory; -1: none.
int innermost(const PlanBuffer& b) {
  const std::vector<int> order = memoryOrder(b);
  for (size_t i = order.size(); i-- > 0;)
    if (held(b, order[i]) > 1) return order[i];
  return -1;
}

/// Row-major, but for one axis that is innermost.
void putInnermost(PlanBuffer& b, int axis) {
  for (int i = 0; i < b.type.rank(); i++)
    if (i != axis) b.order.push_back(i);
  b.order.push_back(axis);
}

/// The buffers of a kernel and what its stages do with them.
class Orders {
 public:
  Orders(std::vector<PlanBuffer>& buffers, const std::vector<Stage>& stages)
      : buffers_(buffers), stages_(stages) {}

  void run() {
    for (const Stage& stage : stages_)
      if (stage.contraction) followResult(stage);
    spread();
    for (const Stage& stage : stages_)
      if (stage.accumulators.empty()) followSource(stage);
    spread();
  }

 private:
  PlanBuffer& named(const std::string& name) const {
    return *std::ranges::find(buffers_, name, &PlanBuffer::name);
  }
  void spread() {
    for (bool again = true; again;) {
      again = false;
      for (const Stage& stage : stages_) again |= spreadOrders(buffers_, stage);
    }
  }

  /// What a product reads along the axis that its result has innermost lies along it, too: lanes run there without gathering.
  void followResult(const Stage& stage) {
    for (const StageStore& store : stage.outer) {
      const PlanBuffer& to = named(store.buffer);
      if (to.order.empty() || innermost(to) < 0) continue;
      const Var* lanes = store.index[innermost(to)].as<Var>();
      if (!lanes) continue;
      for (const Expr& e : loadsOf(stage.accumulators[0].values[0])) {
        const Load& l = *e.as<Load>();
        PlanBuffer& from = named(l.buffer);
        if (from.kind != PlanBuffer::Scratch || !from.order.empty()) continue;
        for (size_t d = 0; d < l.index.size(); d++)
          if (linearOf(l.index[d]).coefficientOf(lanes->name) == 1) {
            putInnermost(from, static_cast<int>(d));
            break;
          }
      }
    }
  }

  /// What is made by a map has the axis innermost that its operand has, where nobody wants its own: it is stored as it is read.
  void followSource(const Stage& stage) {
    for (const auto* stores : {&stage.inner, &stage.outer})
      for (const StageStore& store : *stores) {
        PlanBuffer& to = named(store.buffer);
        if (to.kind != PlanBuffer::Scratch || !to.order.empty() || wanted(to)) continue;
        for (const Expr& e : loadsOf(store.value)) {
          const Load& l = *e.as<Load>();
          const int near = innermost(named(l.buffer));
          const Var* lanes = near < 0 ? nullptr : l.index[near].as<Var>();
          if (!lanes) continue;
          const auto place = std::ranges::find(store.index, Expr(var(lanes->name)));
          if (place == store.index.end()) continue;
          const int axis = static_cast<int>(place - store.index.begin());
          if (held(to, axis) < kLeastRun) continue;
          if (axis != innermost(to)) putInnermost(to, axis);
          break;
        }
      }
  }
  /// Do lanes of a reader run along the axis that is innermost? They do where its own results lie along it, and where it is no product.
  bool wanted(const PlanBuffer& b) const {
    const int near = innermost(b);
    if (near < 0) return true;
    for (const Stage& stage : stages_)
      for (const Expr& e : loadsOf(stage)) {
        const Load& l = *e.as<Load>();
        if (l.buffer != b.name) continue;
        if (!stage.contraction) return true;
        for (const StageStore& store : stage.outer) {
          const int results = innermost(named(store.buffer));
          const Var* lanes = results < 0 ? nullptr : store.index[results].as<Var>();
          if (lanes && std::ranges::count(freeVars(l.index[near]), lanes->name)) return true;
        }
      }
    return false;
  }

  std::vector<PlanBuffer>& buffers_;
  const std::vector<Stage>& stages_;
};

}  // namespace

void spreadOrders(std::vector<PlanBuffer>& buffers, const std::vector<Stage>& stages) {
  Orders(buffers, stages).run();
}

}  // namespace tektite
