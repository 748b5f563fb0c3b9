#include "lower/read_through.h"

#include <algorithm>
#include <optional>

#include "fusion/orders.h"
#include "fusion/stages.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"

namespace tektite {
namespace {

constexpr int64_t kFewUses =
    64;  // multiplications an element: so many, and a copy costs next to nothing

/// m[axes] = select(inside, value of source[...], fill), the only store of a stage.
struct PaddedCopy {
  size_t stage, reader;
  std::string buffer;
  std::vector<Expr> axes;  ///< what the copy is stored at: variables, or 0
  Expr inside, value, fill, source;
};

bool isAxisOrZero(const Expr& e) { return e.as<Var>() || isConstant(e, 0); }

int64_t pointsOf(const Stage& s) {
  int64_t n = 1;
  for (const StageAxis& a : s.axes) n *= sizeOf(a);
  return n;
}

std::optional<PaddedCopy> copyAt(const GroupPlan& plan, const TileList& list, size_t k) {
  const Stage& s = list.stages[k];
  if (!s.accumulators.empty() || !s.outer.empty() || s.inner.size() != 1 || s.after) return {};
  const StageStore& store = s.inner[0];
  const Apply* value = store.value.as<Apply>();
  const PlanBuffer& b = plan.buffer(store.buffer);
  if (b.kind != PlanBuffer::Scratch || b.ring >= 0 || !isFloat(b.type.dtype) || store.guard ||
      !store.combine.empty() || !value || value->op != Op::Select || !value->args[2].as<Imm>() ||
      !std::ranges::all_of(store.index, isAxisOrZero))
    return {};
  PaddedCopy out{k,
                 list.stages.size(),
                 store.buffer,
                 store.index,
                 value->args[0],
                 value->args[1],
                 value->args[2],
                 {}};
  for (const Expr& e : loadsOf(out.value)) {
    if (plan.buffer(e.as<Load>()->buffer).kind == PlanBuffer::Constant) continue;
    if (out.source) return {};
    out.source = e;
  }
  if (!out.source || !loadsOf(out.inside).empty()) return {};
  for (const TileList& other : plan.lists)
    for (size_t r = 0; r < other.stages.size(); r++) {
      if (!buffersOf(other.stages[r]).count(out.buffer) || (&other == &list && r == k)) continue;
      if (&other != &list || out.reader < list.stages.size()) return {};
      out.reader = r;
    }
  if (out.reader <= k || out.reader == list.stages.size()) return {};
  const Stage& reader = list.stages[out.reader];
  if (!reader.contraction || reader.depth != s.depth || reader.after || !reader.inner.empty() ||
      pointsOf(reader) * bytes(b.type.dtype) > kFewUses * memoryBytes(b))
    return {};
  return out;
}

/// The stage that alone stores a scratch buffer, once, where only `reader` reads it.
std::optional<size_t> makerOf(const GroupPlan& plan, const TileList& list, const std::string& name,
                              size_t reader) {
  std::optional<size_t> maker;
  for (const TileList& other : plan.lists)
    for (size_t k = 0; k < other.stages.size(); k++) {
      if (!buffersOf(other.stages[k]).count(name) || (&other == &list && k == reader)) continue;
      if (&other != &list || k > reader || maker) return {};
      maker = k;
    }
  return maker;
}

/// Lets the stage that stores the source do what the copy does with it: its axes are the copy's, moved.
bool moveToMaker(const GroupPlan& plan, TileList& list, PaddedCopy& copy) {
  const Load& source = *copy.source.as<Load>();
  if (plan.buffer(source.buffer).kind != PlanBuffer::Scratch) return false;
  const auto maker = makerOf(plan, list, source.buffer, copy.stage);
  if (!maker) return false;
  Stage& stage = list.stages[*maker];
  StageStore* store = nullptr;
  for (auto* stores : {&stage.inner, &stage.outer})
    for (StageStore& s : *stores)
      if (s.buffer == source.buffer) {
        if (store) return false;
        store = &s;
      }
  for (const Expr& e : loadsOf(stage))
    if (e.as<Load>()->buffer == source.buffer) return false;
  if (!store || !store->combine.empty() || store->guard || copy.value.type() != copy.source.type())
    return false;
  std::unordered_map<std::string, Expr> there;
  for (size_t d = 0; d < source.index.size(); d++) {
    const Linear at = linearOf(source.index[d]);
    const Var* v =
        at.terms.size() == 1 && at.terms[0].second == 1 ? at.terms[0].first.as<Var>() : nullptr;
    if (v) there[v->name] = store->index[d] - Expr(at.constant);
  }
  const std::string name = "moved";
  const Expr rest = rewrite(
      copy.value, [&](const Expr& x) { return x == copy.source ? var(name, x.type()) : Expr(); });
  for (const std::string& v : freeVars(rest))
    if (v != name && !there.count(v)) return false;
  there[name] = store->value;
  store->value = simplify(substitute(rest, there), {});
  copy.value = copy.source;
  return true;
}

void readSource(Stage& reader, const PaddedCopy& copy) {
  Ranges ranges;
  for (const StageAxis& a : reader.axes) ranges[a.var] = {0, std::max<int64_t>(a.extent - 1, 0)};
  change(reader, [&](const Expr& e) {
    return rewrite(e, [&](const Expr& x) -> Expr {
      const Load* l = x.as<Load>();
      if (!l || l->buffer != copy.buffer) return {};
      return simplify(
          substitute(select(copy.inside, copy.value, copy.fill), axesAt(copy.axes, l->index)),
          ranges);
    });
  });
}

/// Would guards steer lanes? Then each vector would be masked.
bool guardsLanes(const GroupPlan& plan, const TileList& list, const Stage& reader,
                 const Target& target) {
  const StageSchedule s = chooseStage(plan, list, reader, target);
  if (s.vectorAxis < 0) return true;
  bool guarded = false;
  for (const Expr& value : reader.accumulators[0].values)
    visit(value, [&](const Expr& e) {
      const Apply* a = e.as<Apply>();
      if (!a || a->op != Op::Select) return;
      const auto vars = freeVars(a->args[0]);
      guarded |= std::ranges::count(vars, reader.axes[static_cast<size_t>(s.vectorAxis)].var) > 0;
    });
  return guarded;
}

bool readThroughAt(GroupPlan& plan, size_t l, size_t k, const Target& target) {
  GroupPlan tried = plan;
  TileList& list = tried.lists[l];
  auto copy = copyAt(tried, list, k);
  if (!copy) return false;
  if (!copy->value.as<Load>() && !moveToMaker(tried, list, *copy)) return false;
  readSource(list.stages[copy->reader], *copy);
  list.stages.erase(list.stages.begin() + static_cast<int64_t>(k));
  if (list.sync > static_cast<int>(k)) list.sync--;
  std::erase_if(tried.buffers, [&](const PlanBuffer& b) { return b.name == copy->buffer; });
  GroupPlan laid = tried;
  std::vector<Stage> stages;
  for (const TileList& other : laid.lists)
    stages.insert(stages.end(), other.stages.begin(), other.stages.end());
  spreadOrders(laid.buffers, stages);
  if (guardsLanes(laid, laid.lists[l], laid.lists[l].stages[copy->reader - 1], target))
    return false;
  plan = std::move(tried);
  return true;
}

}  // namespace

void readThrough(GroupPlan& plan, const Target& target) {
  if (target.kind != "cpu") return;
  for (size_t l = 0; l < plan.lists.size(); l++)
    for (size_t k = 0; k < plan.lists[l].stages.size();)
      if (!readThroughAt(plan, l, k, target)) k++;
}

}  // namespace tektite
