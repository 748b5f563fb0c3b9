#include <algorithm>
#include <unordered_set>

#include "fusion/explicit.h"

namespace tektite {
namespace {

/// A scratch buffer, the only store into it, and all that reads it.
struct Passed {
  StageStore* store = nullptr;
  Stage* writer = nullptr;
  std::vector<Stage*> readers;
};

std::optional<Passed> passedBy(StageSet& set, const std::string& buffer) {
  Passed out;
  for (Stage& s : set.stages) {
    for (auto* stores : {&s.inner, &s.outer})
      for (StageStore& store : *stores) {
        if (store.buffer != buffer) continue;
        if (out.store || store.guard || !store.combine.empty()) return {};
        out.store = &store;
        out.writer = &s;
      }
    if (std::ranges::any_of(loadsOf(s),
                            [&](const Expr& l) { return l.as<Load>()->buffer == buffer; }))
      out.readers.push_back(&s);
  }
  if (!out.store || out.readers.empty() || std::ranges::count(out.readers, out.writer)) return {};
  return out;
}

/// The axes of a reader as the writer's, where it reads the element at a constant distance.
std::unordered_map<std::string, Expr> placesOf(const Load& read, const StageStore& store) {
  std::unordered_map<std::string, Expr> out;
  for (size_t d = 0; d < read.index.size(); d++) {
    const Linear l = linearOf(read.index[d]);
    const Var* v = l.terms.size() == 1 ? l.terms[0].first.as<Var>() : nullptr;
    if (v && l.terms[0].second == 1)
      out.emplace(v->name, simplify(store.index[d] - Expr(l.constant), {}));
  }
  return out;
}

class Narrowing {
 public:
  Narrowing(StageSet& set, PlanBuffer& buffer) : set_(set), buffer_(buffer) {}

  void run() {
    const std::optional<Passed> passed = passedBy(set_, buffer_.name);
    if (!passed) return;
    std::vector<std::vector<std::pair<Expr, Expr>>> all;  // as read, and as the writer says it
    for (const Stage* reader : passed->readers) all.push_back(candidates(*reader, *passed));
    for (size_t i = all[0].size(); i-- > 0;) {
      const Expr& value = all[0][i].second;
      std::vector<Stage> changed;
      for (size_t r = 0; r < all.size(); r++)
        if (auto one = without(*passed->readers[r], all[r], value)) changed.push_back(*one);
      if (changed.size() != all.size()) continue;
      for (size_t r = 0; r < all.size(); r++) *passed->readers[r] = std::move(changed[r]);
      const Expr before = passed->store->value;
      passed->store->value =
          rewrite(value, [&](const Expr& e) { return isRead(e) ? before : Expr(); });
      buffer_.type.dtype = value.type();
      return;
    }
  }

 private:
  StageSet& set_;
  PlanBuffer& buffer_;

  bool isRead(const Expr& e) const {
    const Load* l = e.as<Load>();
    return l && l->buffer == buffer_.name;
  }
  bool isScratch(const std::string& name) const {
    return std::ranges::find(set_.buffers, name, &PlanBuffer::name)->kind == PlanBuffer::Scratch;
  }
  /// Narrower values that follow from one element, the innermost first.
  std::vector<std::pair<Expr, Expr>> candidates(const Stage& reader, const Passed& passed) const {
    std::vector<Expr> reads;
    for (const Expr& l : loadsOf(reader))
      if (isRead(l)) reads.push_back(l);
    if (reads.size() != 1) return {};
    const auto places = placesOf(*reads[0].as<Load>(), *passed.store);
    std::vector<std::pair<Expr, Expr>> out;
    std::unordered_set<const ExprNode*> follow, fixed;  // from the element; from nothing else
    const auto see = [&](const Expr& e) {
      const auto in = [&](const std::vector<Expr>& args) {
        return std::ranges::all_of(
            args, [&](const Expr& a) { return follow.count(a.get()) || fixed.count(a.get()); });
      };
      const auto some = [&](const std::vector<Expr>& args) {
        return std::ranges::any_of(args, [&](const Expr& a) { return follow.count(a.get()) > 0; });
      };
      bool carries = isRead(e), known = carries;
      if (e.as<Imm>()) known = true;
      if (const Var* v = e.as<Var>()) known = places.count(v->name) > 0;
      if (const Load* l = e.as<Load>(); l && !carries)
        known = !isScratch(l->buffer) && in(l->index) && !some(l->index);
      if (const Cast* c = e.as<Cast>()) known = in({c->arg}), carries = some({c->arg});
      if (const Apply* a = e.as<Apply>()) {
        carries = some(a->args);
        known = in(a->args) && !(carries && a->op == Op::Select);  // a branch is not always taken
      }
      if (known) (carries ? follow : fixed).insert(e.get());
      if (!known || !carries || bytes(e.type()) >= bytes(buffer_.type.dtype)) return;
      const Expr value = simplify(substitute(e, places), {});
      if (isInside(value, *passed.writer)) out.emplace_back(e, value);
    };
    for (const auto* stores : {&reader.inner, &reader.outer})
      for (const StageStore& s : *stores) visit(s.value, see);
    for (const Accumulator& a : reader.accumulators)
      for (const Expr& e : a.values) visit(e, see);
    return out;
  }
  /// Do all operands lie inside of their tensors wherever the writer stores?
  bool isInside(const Expr& value, const Stage& writer) const {
    Ranges ranges;
    for (const StageAxis& a : writer.axes) ranges[a.var] = {0, a.extent - 1};
    for (const Expr& e : loadsOf(value)) {
      const Load& l = *e.as<Load>();
      const auto& shape = std::ranges::find(set_.buffers, l.buffer, &PlanBuffer::name)->type.shape;
      for (size_t d = 0; d < l.index.size() && !isRead(e); d++)
        if (!proves(logicalAnd(le(0, l.index[d]), lt(l.index[d], shape[d])), ranges)) return false;
    }
    return true;
  }
  /// The reader where the value lies in the buffer already; nothing where it wants more than that.
  std::optional<Stage> without(const Stage& reader, const std::vector<std::pair<Expr, Expr>>& all,
                               const Expr& value) const {
    const auto at = std::ranges::find_if(all, [&](const auto& c) { return c.second == value; });
    if (at == all.end()) return {};
    Stage out = mapped(reader, [&](const Expr& root) {
      return rewrite(root, [&](const Expr& e) -> Expr {
        if (!(e == at->first)) return {};
        for (const Expr& l : loadsOf(e))
          if (isRead(l)) return load(buffer_.name, e.type(), l.as<Load>()->index);
        return {};
      });
    });
    for (const Expr& l : loadsOf(out))
      if (isRead(l) && l.type() == buffer_.type.dtype) return {};
    return out;
  }
};

}  // namespace

void narrowScratch(StageSet& set) {
  for (PlanBuffer& b : set.buffers)
    if (b.kind == PlanBuffer::Scratch) Narrowing(set, b).run();
}

}  // namespace tektite
