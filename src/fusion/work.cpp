#include <algorithm>

#include "fusion/stage_memory.h"
#include "ir/rewriter.h"
#include "support/check.h"
#include "support/hash_numbers.h"

namespace tektite {
namespace {

constexpr int kLanes = 16;  // where a stage's work is taken before a target is known

std::span<const Expr> operandsOf(const Expr& e) {
  if (const Apply* a = e.as<Apply>()) return a->args;
  if (const Cast* c = e.as<Cast>()) return {&c->arg, 1};
  if (const Load* l = e.as<Load>()) return l->index;
  return {};
}
/// The nodes of several expressions, each once, children first; of each root a walk of its own, which shows again what it shares with those
/// before.
class Nodes {
 public:
  explicit Nodes(const std::vector<Expr>& roots) {
    for (const Expr& root : roots) {
      visit(root, [&](const Expr& e) {
        size_t at = numbers_.find(e.hash());
        if (at == HashNumbers::kNone) {
          at = list.size();
          numbers_.add(e.hash());
          list.push_back(&e);
        }
        walk.push_back(at);
      });
      ends.push_back(walk.size());
    }
  }
  size_t of(const Expr& e) const { return numbers_.find(e.hash()); }
  std::vector<const Expr*> list;  ///< as seen first; the roots must outlive it
  std::vector<size_t> walk;       ///< numbers of nodes, root by root
  std::vector<size_t> ends;       ///< [root] in `walk`

 private:
  HashNumbers numbers_;
};

/// Vector registers that hold values at once, evaluating children first; loads are operands of instructions.
int registersOf(const std::vector<Expr>& roots, const Nodes& nodes) {
  const auto held = [](const Expr& e) { return e.as<Apply>() || e.as<Cast>(); };
  const auto children = [&](const Expr& e) {
    return held(e) ? operandsOf(e) : std::span<const Expr>();
  };
  std::vector<int> left(nodes.list.size());  // uses
  for (const Expr& root : roots) left[nodes.of(root)]++;
  for (const size_t at : nodes.walk)
    for (const Expr& c : children(*nodes.list[at])) left[nodes.of(c)]++;
  int live = 0, most = 0;
  size_t i = 0;
  for (size_t r = 0; r < roots.size(); r++) {
    for (; i < nodes.ends[r]; i++) {
      const Expr& e = *nodes.list[nodes.walk[i]];
      if (!held(e)) continue;
      live++;
      most = std::max(most, live);
      for (const Expr& c : children(e))
        if (held(c) && --left[nodes.of(c)] == 0) live--;
    }
    if (held(roots[r]) && --left[nodes.of(roots[r])] == 0) live--;
  }
  return most;
}

double chainOf(const Nodes& nodes) {
  std::vector<double> longest(nodes.list.size());
  double most = 0;
  for (size_t i = 0; i < nodes.list.size(); i++) {
    const Expr& e = *nodes.list[i];
    double below = 0;
    if (const Apply* a = e.as<Apply>()) {
      for (const Expr& c : a->args) below = std::max(below, longest[nodes.of(c)]);
      below += info(a->op).slots;
    } else if (const Cast* c = e.as<Cast>()) {
      below = longest[nodes.of(c->arg)] + 1;
    }
    longest[i] = below;
    most = std::max(most, below);
  }
  return most;
}

/// The buffers of a set by name: their kinds, and the dimension that is contiguous in memory.
class Layout {
 public:
  explicit Layout(const StageSet& set) {
    for (const PlanBuffer& b : set.buffers) {
      Place& place = places_[b.name];
      place.constant = b.kind == PlanBuffer::Constant;
      const size_t rank = b.type.shape.size();
      place.innermost = static_cast<int>(rank) - 1;
      for (size_t i = rank; i-- > 0;) {
        const int d = b.order.empty() ? static_cast<int>(i) : b.order[i];
        if (b.type.extent(d) <= 1) continue;
        place.innermost = d;
        break;
      }
    }
  }
  size_t innermost(const std::string& buffer, size_t rank) const {
    const auto it = places_.find(buffer);
    return it == places_.end() ? rank - 1 : static_cast<size_t>(it->second.innermost);
  }
  bool isConstant(const std::string& buffer) const {
    const auto it = places_.find(buffer);
    return it != places_.end() && it->second.constant;
  }
  /// Of all that is asked of these buffers.
  Hash hashOf(const std::vector<std::string>& buffers) const {
    Hasher h;
    for (const std::string& name : buffers) {
      const auto it = places_.find(name);
      if (it == places_.end())
        h.add(-2);
      else
        h.add(it->second.innermost).add(static_cast<int>(it->second.constant));
    }
    return h.finish();
  }

 private:
  struct Place {
    bool constant = false;
    int innermost = -1;
  };
  std::unordered_map<std::string_view, Place> places_;
};

/// A load with its index as sums of axes.
struct Loaded {
  const std::string& buffer;
  std::vector<AxisSum> index;
};
std::vector<Loaded> loadedBy(const std::vector<Expr>& roots, const Stage& s) {
  std::vector<Loaded> out;
  Walker look([&](const Expr& e) {
    const Load* l = e.as<Load>();
    if (!l) return;
    out.push_back({l->buffer, {}});
    for (const Expr& x : l->index) out.back().index.push_back(axisSum(x, s));
  });
  for (const Expr& root : roots) look(root);
  return out;
}

/// Loads of a list of expressions in lanes: a gather or a strided one counts for every lane.
double loadCost(const std::vector<Loaded>& loads, const Layout& layout, int vectorAxis, int lanes) {
  double cost = 0;
  for (const Loaded& l : loads) {
    double one = 1;
    const size_t innermost = layout.innermost(l.buffer, l.index.size());
    for (size_t d = 0; d < l.index.size(); d++) {
      if (!l.index[d].known) one = lanes;
      for (const auto& [axis, c] : l.index[d].terms)
        if (axis == vectorAxis && (d != innermost || c != 1)) one = lanes / 2.0;
    }
    cost += one;
  }
  return cost;
}

/// Slots of a point; what doesn't change along the innermost axis is hoisted and counts a little.
double slotsOfAll(const Nodes& nodes, const std::string& innermost) {
  double slots = 0;
  std::vector<bool> varies(nodes.list.size());
  for (size_t i = 0; i < nodes.list.size(); i++) {
    const Expr& e = *nodes.list[i];
    double own = 0;
    bool moves =
        std::ranges::any_of(operandsOf(e), [&](const Expr& x) { return varies[nodes.of(x)]; });
    if (const Var* v = e.as<Var>()) moves = v->name == innermost || v->name[0] == 's';
    if (e.as<Cast>()) own = 1;
    if (const Apply* a = e.as<Apply>()) own = e.type() == DType::I64 ? 0 : info(a->op).slots;
    varies[i] = moves;
    slots += moves ? own : own / 16;
  }
  return slots;
}

/// Is it a sum of products of what was stored as one of these types?
bool multiplies(const Accumulator& a, std::initializer_list<DType> types) {
  const Apply* product = a.values[0].as<Apply>();
  return product && product->op == Op::Mul &&
         std::ranges::all_of(product->args, [&](const Expr& e) {
           const Cast* c = e.as<Cast>();
           return std::ranges::count(types, c ? c->arg.type() : e.type()) > 0;
         });
}

StageWork workOf(const Stage& s, const Layout& layout) {
  StageWork w;
  w.contraction = s.contraction;
  if (s.contraction) {
    const Accumulator& a = s.accumulators[0];
    w.ofBytes = a.combine.types[0] == DType::I32 && multiplies(a, {DType::U8, DType::I8});
    w.ofHalves = multiplies(a, {DType::F16, DType::BF16});
  }
  w.accumulators = static_cast<int>(s.accumulators.size());
  std::vector<Expr> inner, outer;
  for (const StageStore& store : s.inner) inner.push_back(store.value);
  for (const Accumulator& a : s.accumulators)
    for (const Expr& e : a.values) inner.push_back(e), w.slots += 1;
  for (const StageStore& store : s.outer) outer.push_back(store.value);
  std::map<int, double> votes;  // an axis shorter than the lanes counts for what it fills of them
  const auto vote = [&](const AxisSum& index, double weight) {
    for (const auto& [axis, c] : index.terms)
      if (c == 1)
        votes[axis] += weight * std::min(1.0, static_cast<double>(s.axes[axis].extent) / kLanes);
  };
  const auto innermost = [&](const std::string& buffer, const auto& index) -> decltype(auto) {
    return index[layout.innermost(buffer, index.size())];
  };
  for (const Expr& e : inner)
    for (const Loaded& l : loadedBy({e}, s))
      if (!l.index.empty()) vote(innermost(l.buffer, l.index), 2);
  for (const auto* stores : {&s.inner, &s.outer})
    for (const StageStore& store : *stores) {
      if (!store.index.empty())
        vote(axisSum(innermost(store.buffer, store.index), s), s.contraction        ? 100
                                                               : stores == &s.inner ? 3
                                                                                    : 1);
      w.elementBytes = std::max(w.elementBytes, bytes(store.value.type()));
    }
  double best = 0;
  for (const auto& [axis, n] : votes)
    if (n > best && !(s.contraction && s.axes[axis].reduce)) best = n, w.vectorAxis = axis;
  if (s.contraction)  // lanes run over the constant's axis: it is packed at compile time
    for (const Loaded& l : loadedBy({s.accumulators[0].values[0]}, s))
      for (const AxisSum& e : l.index)
        for (const auto& [axis, c] : e.terms)
          if (layout.isConstant(l.buffer) && !s.axes[axis].reduce && s.axes[axis].extent >= 8)
            w.vectorAxis = axis;
  if (w.vectorAxis < 0 && !s.axes.empty()) w.vectorAxis = static_cast<int>(s.axes.size()) - 1;
  const std::string along = w.vectorAxis < 0 ? "" : s.axes[w.vectorAxis].var;
  const Nodes innerNodes(inner), outerNodes(outer);
  w.slots += slotsOfAll(innerNodes, along);
  w.outerSlots = slotsOfAll(outerNodes, along);
  w.loads = loadCost(loadedBy(inner, s), layout, w.vectorAxis, kLanes);
  w.outerLoads = loadCost(loadedBy(outer, s), layout, w.vectorAxis, kLanes);
  w.stores = static_cast<double>(s.inner.size());
  w.outerStores = static_cast<double>(s.outer.size());
  w.chain = s.contraction ? 0 : chainOf(innerNodes);
  w.registers = std::max(registersOf(inner, innerNodes) + static_cast<int>(s.accumulators.size()),
                         registersOf(outer, outerNodes));
  return w;
}

}  // namespace

std::vector<StageWork> worksOf(const StageSet& set, StageMemory& memory) {
  const Layout layout(set);
  std::vector<StageWork> out;
  for (size_t s = 0; s < set.stages.size(); s++) {
    const StageFacts& facts = *set.facts[s];
    if (facts.key == Hash{}) {
      out.push_back(workOf(set.stages[s], layout));
      continue;
    }
    const auto [at, isNew] = memory.works.try_emplace(
        Hasher().add(facts.key).add(layout.hashOf(facts.buffers)).finish());
    if (isNew) at->second = workOf(set.stages[s], layout);
    out.push_back(at->second);
  }
  return out;
}

}  // namespace tektite
