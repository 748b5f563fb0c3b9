#include <algorithm>

#include "fusion/explicit.h"
#include "fusion/product_tile.h"
#include "fusion/region.h"
#include "ir/mentions.h"
#include "ir/rewriter.h"

namespace tektite {
namespace {

const Expr* stripped(const Expr* e) {
  while (const Cast* c = e->as<Cast>()) e = &c->arg;
  return e;
}

}  // namespace

bool storesBeside(const Target& t) {
  return t.path("main", t.scratch)->engine != t.path(t.scratch, "main")->engine;
}

bool storesItself(const Stage& s) {
  if (s.outer.size() != 1 || s.outer[0].guard || !s.outer[0].combine.empty()) return false;
  const Expr* value = &s.outer[0].value;
  const auto constant = [](const Expr& e) { return e.as<Imm>() != nullptr; };
  for (;;) {
    if (const Cast* c = value->as<Cast>()) {
      value = &c->arg;
    } else if (const Apply* a = value->as<Apply>();
               a && (a->op == Op::Max || a->op == Op::Min) && constant(a->args[1])) {
      value = &a->args[0];
    } else {
      break;
    }
  }
  return value->as<Var>() && value->as<Var>()->name == s.accumulators[0].names[0];
}

bool scalesSums(const Stage& s, const Product& p, const Target& target) {
  if (!outputPath(target) || s.outer.size() != 1 || s.outer[0].guard || !s.outer[0].combine.empty())
    return false;
  constexpr Op kOps[] = {Op::Add, Op::Sub, Op::Mul,   Op::Div,   Op::Min,   Op::Max,
                         Op::Lt,  Op::Le,  Op::Round, Op::Floor, Op::Select};
  bool fits = true;
  Walker look([&](const Expr& e) {
    if (const Apply* a = e.as<Apply>(); a && e.type() != DType::I64)
      fits = fits && std::ranges::count(kOps, a->op) > 0;
    const Load* l = e.as<Load>();
    if (!l) return;
    fits = fits && l->buffer != s.outer[0].buffer;
    for (const Expr& i : l->index) {
      fits = fits && axisSum(i, s).known;
      for (const int a : p.rows) fits = fits && !mentions(i, s.axes[static_cast<size_t>(a)].var);
    }
  });
  look(s.outer[0].value);
  for (const Expr& i : s.outer[0].index) fits = fits && axisSum(i, s).known;
  const auto plain = [&](const Expr& e, const auto& self) -> bool {  // no coordinates as values
    if (e.as<Load>() || e.as<Imm>()) return true;
    if (const Var* v = e.as<Var>()) return v->name == s.accumulators[0].names[0];
    if (const Cast* c = e.as<Cast>()) return self(c->arg, self);
    const Apply* a = e.as<Apply>();
    return a && std::ranges::all_of(a->args, [&](const Expr& x) { return self(x, self); });
  };
  return fits && plain(s.outer[0].value, plain);
}

std::string addsTo(const Stage& s, const Product& p) {
  if (s.outer.size() != 1 || p.rows.empty() || p.columns.empty()) return {};
  const StageStore& store = s.outer[0];
  const Apply* sum = store.value.as<Apply>();
  if (!sum || sum->op != Op::Add || store.guard || !store.combine.empty()) return {};
  const std::string& acc = s.accumulators[0].names[0];
  for (const bool swapped : {false, true}) {
    const Load* before = sum->args[swapped ? 1 : 0].as<Load>();
    const Var* added = sum->args[swapped ? 0 : 1].as<Var>();
    if (!before || !added || added->name != acc || before->buffer != store.buffer ||
        !(before->index == store.index) || store.index.size() < 2)
      continue;
    const Var* row = store.index[store.index.size() - 2].as<Var>();
    const Var* column = store.index.back().as<Var>();
    const auto one = [&](const Var* v, const std::vector<int>& axes) {
      return v && axes.size() == 1 && s.axes[axes[0]].var == v->name;
    };
    if (one(row, p.rows) && one(column, p.columns)) return store.buffer;
  }
  return {};
}

void nestLives(std::vector<Life>& list) {
  // The latest first: whom one overlaps is as long as it gets already, and none beyond starts inside of it and outlives it.
  std::vector<Life*> order;
  for (Life& l : list) order.push_back(&l);
  std::ranges::sort(order, {}, [](const Life* l) { return std::pair(l->first, -l->last); });
  const auto behind = [&](int place) {
    return std::ranges::upper_bound(order, place, {}, &Life::first) - order.begin();
  };
  for (size_t i = order.size(); i-- > 0;) {
    Life& a = *order[i];
    for (auto k = behind(a.first); k < std::ssize(order) && order[k]->first <= a.last;
         k = behind(std::max(order[k]->first, order[k]->last)))
      a.last = std::max(a.last, order[k]->last);
  }
}

std::optional<MoveStage> moveOf(const Stage& s) {
  if (!s.accumulators.empty() || s.inner.size() != 1 || !s.outer.empty()) return {};
  const StageStore& store = s.inner[0];
  if (store.guard || !store.combine.empty()) return {};
  MoveStage move{store.value, {}, {}};
  const Apply* a = store.value.as<Apply>();
  if (a && a->op == Op::Select && a->args[2].as<Imm>()) move = {a->args[1], a->args[0], a->args[2]};
  const Load* from = move.load.as<Load>();
  if (!from || (move.guard && !loadsOf(move.guard).empty())) return {};
  for (const Expr& e : from->index)
    if (!loadsOf(e).empty()) return {};
  for (const StageAxis& axis : s.axes)  // what repeats is brought once, and repeated on the chip
    if (axis.extent > 1 && !mentions(from->index, axis.var)) return {};
  return move;
}

std::optional<Product> productOf(const Stage& s, const Target& target) {
  if (!s.contraction || target.matrix.engine.empty() || s.accumulators.size() != 1 ||
      !s.inner.empty())
    return {};
  const Accumulator& acc = s.accumulators[0];
  const Apply* mul = acc.values[0].as<Apply>();
  if (!mul || mul->op != Op::Mul || acc.values.size() != 1) return {};
  Product p{*stripped(&mul->args[0]), *stripped(&mul->args[1]), {}, {}, {}, {}};
  const Load *l = p.left.as<Load>(), *r = p.right.as<Load>();
  if (!l || !r || l->buffer == r->buffer || p.left.type() == DType::I64) return {};
  for (const Load* load : {l, r})
    for (const Expr& e : load->index)
      if (!axisSum(e, s).known) return {};
  for (size_t a = 0; a < s.axes.size(); a++) {
    const bool left = mentions(l->index, s.axes[a].var), right = mentions(r->index, s.axes[a].var);
    (s.axes[a].reduce ? p.depth
     : left == right  ? p.batch
     : left           ? p.rows
                      : p.columns)
        .push_back(static_cast<int>(a));
  }
  if (depthwisePath(target) && p.rows.empty() && !p.batch.empty())  // columns of their own: rows
    std::swap(p.left, p.right), std::swap(p.rows, p.columns);
  return p;
}

void foldPads(StageSet& set) {
  for (size_t s = 0; s < set.stages.size(); s++) {
    const auto move = moveOf(set.stages[s]);
    if (!move || !move->guard) continue;
    const Load* from = move->load.as<Load>();
    const auto source = std::ranges::find(set.buffers, from->buffer, &PlanBuffer::name);
    if (source->kind != PlanBuffer::Scratch) continue;
    // One writer, stores at points of its own axes, and no other reader.
    int writers = 0, readers = 0;
    Stage* writer = nullptr;
    bool outer = true;
    for (size_t k = 0; k < set.stages.size(); k++) {
      for (const Expr& l : loadsOf(set.stages[k])) readers += l.as<Load>()->buffer == from->buffer;
      for (auto* stores : {&set.stages[k].inner, &set.stages[k].outer})
        for (const StageStore& store : *stores)
          if (store.buffer == from->buffer)
            writers++, writer = &set.stages[k], outer = stores == &set.stages[k].outer;
    }
    StageStore& pad = set.stages[s].inner[0];
    if (writers != 1 || readers != 1 || writer == &set.stages[s]) continue;
    StageStore* store = nullptr;
    for (StageStore& one : outer ? writer->outer : writer->inner)
      if (one.buffer == from->buffer) store = &one;
    if (store->guard || !store->combine.empty()) continue;
    // The pad reads each element at its own place plus a constant.
    std::vector<Expr> place;
    bool shifts = true;
    for (size_t d = 0; d < pad.index.size() && shifts; d++) {
      const Expr shift = simplify(pad.index[d] - from->index[d], {});
      shifts = asInteger(shift).has_value();
      if (shifts) place.push_back(simplify(store->index[d] + shift, {}));
    }
    if (!shifts) continue;
    store->buffer = pad.buffer;
    store->index = std::move(place);
    pad.guard = apply(Op::Not, {move->guard});
    pad.value = move->fill;
    const std::string gone = from->buffer;
    std::erase_if(set.buffers, [&](const PlanBuffer& b) { return b.name == gone; });
  }
}

}  // namespace tektite
