#include "fusion/orders.h"

#include <algorithm>
#include <unordered_map>

#include "fusion/stages.h"
#include "ir/mentions.h"
#include "ir/rewriter.h"

namespace tektite {
namespace {

constexpr int64_t kLeastRun = 8;  // neighbours that are worth an order of their own

/// For each index of an access the axes of the stage's results that it walks over, and whether it walks at all.
struct Walks {
  struct Along {
    std::vector<std::string> axes;
    bool any = false;
  };
  std::vector<Along> along;

  Walks(const std::vector<Expr>& index, const Stage& stage) {
    for (const Expr& e : index) {
      Along& a = along.emplace_back();
      a.axes = freeVars(e);
      a.any = !a.axes.empty();
      std::erase_if(a.axes, [&](const std::string& v) {
        return !std::ranges::any_of(stage.axes,
                                    [&](const StageAxis& x) { return !x.reduce && x.var == v; });
      });
    }
  }
};

/// Does the load walk with the store, axis by axis, at whatever steps, up to what the reduction walks over? Axes behind the shorter one's
/// have no place in the other: they are of one element.
bool samePlace(const Walks& loaded, const Walks& stored) {
  static const Walks::Along none;
  for (size_t i = 0; i < std::max(loaded.along.size(), stored.along.size()); i++) {
    const Walks::Along& l = i < loaded.along.size() ? loaded.along[i] : none;
    const Walks::Along& s = i < stored.along.size() ? stored.along[i] : none;
    const bool reducedAway = l.axes.empty() && l.any;
    if (!reducedAway && l.axes != s.axes) return false;
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
      : buffers_(buffers), stages_(stages) {
    for (size_t b = 0; b < buffers.size(); b++) number_[buffers[b].name] = b;
    for (const Stage& stage : stages) {
      findBeside(stage);
      for (const Expr& e : loadsOf(stage)) readers_[e.as<Load>()->buffer].emplace_back(&stage, e);
    }
  }

  void run() {
    for (const Stage& stage : stages_)
      if (stage.contraction) followResult(stage);
    spread();
    for (const Stage& stage : stages_)
      if (stage.accumulators.empty()) followSource(stage);
    spread();
  }

 private:
  PlanBuffer& named(const std::string& name) const { return buffers_[number_.at(name)]; }

  /// Buffers that the stage stores at the place where it reads others.
  void findBeside(const Stage& stage) {
    std::vector<std::pair<size_t, Walks>> loads;
    Walker collect([&](const Expr& e) {
      if (const Load* l = e.as<Load>())
        loads.emplace_back(number_.at(l->buffer), Walks(l->index, stage));
    });
    for (const Accumulator& a : stage.accumulators)
      for (const Expr& e : a.values) collect(e);
    for (const auto* stores : {&stage.inner, &stage.outer})
      for (const StageStore& s : *stores) collect(s.value);
    for (const auto* stores : {&stage.inner, &stage.outer})
      for (const StageStore& s : *stores) {
        const Walks stored(s.index, stage);
        for (const auto& [from, walks] : loads)
          if (samePlace(walks, stored)) beside_.emplace_back(from, number_.at(s.buffer));
      }
  }

  /// Gives an order to the scratch buffers that lie beside one that has one.
  void spread() {
    for (bool again = true; again;) {
      again = false;
      for (const auto& [a, b] : beside_)
        for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
          PlanBuffer& open = buffers_[to];
          if (buffers_[from].order.empty() || !open.order.empty() ||
              open.kind != PlanBuffer::Scratch || lanesRunHere(open))
            continue;
          open.order = orderFor(open.type.rank(), buffers_[from].order);
          again |= !open.order.empty();  // one element has none
        }
    }
  }

  /// Do products' lanes run along the axis that is innermost, because a result whose order is known lies along it?
  bool lanesRunHere(const PlanBuffer& b) const {
    const auto readers = readers_.find(b.name);
    return readers != readers_.end() && std::ranges::any_of(readers->second, [&](const auto& r) {
             const auto& [stage, load] = r;
             return stage->contraction && std::ranges::any_of(stage->outer, [&](const auto& store) {
                      const PlanBuffer& to = named(store.buffer);
                      return (to.kind != PlanBuffer::Scratch || !to.order.empty()) &&
                             followsLanes(store, load, b);
                    });
           });
  }
  /// Does the load move along the buffer's innermost axis when the stored index moves along its own?
  bool followsLanes(const StageStore& store, const Expr& load, const PlanBuffer& b) const {
    const PlanBuffer& to = named(store.buffer);
    const int results = innermost(to), near = innermost(b);
    const Var* lanes = results < 0 || near < 0 ? nullptr : store.index[results].as<Var>();
    return lanes && mentions(load.as<Load>()->index[near], lanes->name);
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
    const auto readers = readers_.find(b.name);
    if (readers == readers_.end()) return false;
    for (const auto& [stage, load] : readers->second) {
      if (!stage->contraction) return true;
      for (const StageStore& store : stage->outer)
        if (followsLanes(store, load, b)) return true;
    }
    return false;
  }

  std::vector<PlanBuffer>& buffers_;
  const std::vector<Stage>& stages_;
  std::unordered_map<std::string, size_t> number_;
  std::unordered_map<std::string, std::vector<std::pair<const Stage*, Expr>>> readers_;
  std::vector<std::pair<size_t, size_t>> beside_;  ///< numbers of buffers: read, stored
};

}  // namespace

void spreadOrders(std::vector<PlanBuffer>& buffers, const std::vector<Stage>& stages) {
  Orders(buffers, stages).run();
}

}  // namespace tektite
