#include <algorithm>

#include "fusion/streaming.h"

namespace tektite {
namespace {

/// A stage that only multiplies (or divides) by what doesn't change along axes over which all its readers then sum: the factor
/// leaves the sums.
class Deferring {
 public:
  explicit Deferring(StageSet set) : set_(std::move(set)) {}
  StageSet run() {
    for (size_t s = 0; s < set_.stages.size(); s++)
      if (defer(s)) {
        std::erase_if(set_.buffers, [&](const PlanBuffer& b) {
          return b.name == set_.stages[s].inner[0].buffer;
        });
        set_.stages.erase(set_.stages.begin() + static_cast<long>(s--));
      }
    return std::move(set_);
  }

 private:
  StageSet set_;

  struct Product {
    Expr load, factor;
    Op op = Op::Mul;
  };
  static std::optional<Product> productOf(const Expr& e) {
    const Apply* a = e.as<Apply>();
    if (!a || (a->op != Op::Mul && a->op != Op::Div)) return {};
    if (a->args[0].as<Load>()) return Product{a->args[0], a->args[1], a->op};
    if (a->args[1].as<Load>() && a->op == Op::Mul) return Product{a->args[1], a->args[0], a->op};
    return {};
  }
  /// Either operand may be the one that leaves: the one that varies less.
  bool defer(size_t s) {
    const Stage& stage = set_.stages[s];
    if (!stage.accumulators.empty() || !stage.outer.empty() || stage.inner.size() != 1)
      return false;
    const StageStore& store = stage.inner[0];
    const auto buffer = std::ranges::find(set_.buffers, store.buffer, &PlanBuffer::name);
    if (store.guard || !store.combine.empty() || buffer->kind != PlanBuffer::Scratch ||
        !isFloat(buffer->type.dtype))
      return false;
    std::optional<Product> p = productOf(store.value);
    if (p && !(p->load.as<Load>()->index == store.index)) {
      std::swap(p->load, p->factor);
      if (p->op != Op::Mul || !p->load.as<Load>() || !(p->load.as<Load>()->index == store.index))
        return false;
    }
    if (!p) return false;
    for (const Expr& e : store.index)
      if (!e.as<Var>() && !isConstant(e, 0)) return false;
    std::vector<Stage> changed = set_.stages;
    bool read = false;
    for (size_t k = s + 1; k < changed.size(); k++) {
      const std::optional<bool> did = intoSums(changed[k], store, *p);
      if (!did) return false;
      read = read || *did;
    }
    if (read) set_.stages = std::move(changed);
    return read;
  }
  /// Did it read the buffer? Nothing: it does, but otherwise than as a factor of sums.
  static std::optional<bool> intoSums(Stage& reader, const StageStore& store, const Product& p) {
    std::vector<Expr> loads;
    for (const Expr& l : loadsOf(reader))
      if (l.as<Load>()->buffer == store.buffer) loads.push_back(l);
    if (loads.empty()) return false;
    for (const auto* stores : {&reader.inner, &reader.outer})
      for (const StageStore& other : *stores)
        if (readsAny(other.value, store.buffer)) return {};
    std::unordered_map<std::string, Expr> after;
    for (Accumulator& a : reader.accumulators) {
      if (std::ranges::none_of(a.values, [&](const Expr& e) { return readsAny(e, store.buffer); }))
        continue;
      if (a.combine.name != "sum" || a.values.size() != 1 || loads.size() != 1 ||
          timesIn(a.values[0], loads[0]) != 1)
        return {};
      const auto at = axesAt(store.index, loads[0].as<Load>()->index);
      const Expr factor = substitute(p.factor, at), base = substitute(p.load, at);
      for (const std::string& v : freeVars(factor))
        if (std::ranges::any_of(reader.axes,
                                [&](const StageAxis& x) { return x.reduce && x.var == v; }))
          return {};
      a.values[0] =
          rewrite(a.values[0], [&](const Expr& e) { return e == loads[0] ? base : Expr(); });
      const Expr sum = var(a.names[0], a.combine.types[0]);
      after[a.names[0]] = apply(p.op, {sum, factor});
    }
    for (StageStore& o : reader.outer) o.value = substitute(o.value, after);
    return true;
  }
  static bool readsAny(const Expr& e, const std::string& buffer) {
    return std::ranges::any_of(loadsOf(e),
                               [&](const Expr& l) { return l.as<Load>()->buffer == buffer; });
  }
  /// How often a product has the load as a factor; 0 where the expression is no product of it.
  static int timesIn(const Expr& e, const Expr& wanted) {
    if (e == wanted) return 1;
    const Apply* a = e.as<Apply>();
    if (a && a->op == Op::Mul) return timesIn(a->args[0], wanted) + timesIn(a->args[1], wanted);
    return readsAny(e, wanted.as<Load>()->buffer) ? 2 : 0;
  }
};

}  // namespace

StageSet deferFactors(StageSet set) { return Deferring(std::move(set)).run(); }

}  // namespace tektite
