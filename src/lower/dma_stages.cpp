#include <algorithm>

#include "lower/dma_lowering.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Conditions a <= b and a < b as what must not be negative.
void conditions(const Expr& e, std::vector<Expr>& out, bool& plain) {
  const Apply* a = e.as<Apply>();
  if (a && a->op == Op::And) {
    conditions(a->args[0], out, plain);
    conditions(a->args[1], out, plain);
  } else if (a && (a->op == Op::Le || a->op == Op::Lt) && a->args[0].type() == DType::I64) {
    out.push_back(simplify(a->args[1] - a->args[0] - Expr(a->op == Op::Lt ? 1 : 0), {}));
  } else {
    plain = plain && asInteger(e) == 1;
  }
}

}  // namespace

Block DmaLowering::stage(const Stage& s, const StageSchedule& schedule) {
  if (const auto product = productOf(s, target_); product && isFed(*product))
    return lowerProduct(s, *product, buffers_, ranges_, grid(), target_, out_.module, outside_);
  if (const auto move = moveOf(s))
    if (auto copy = fromMain(s, *move)) return std::move(*copy);
  if (auto border = borders(s)) return std::move(*border);
  return lowerStage(s, schedule, buffers_, ranges_, out_.module);
}

bool DmaLowering::isFed(const Product& p) const {
  for (const Expr* e : {&p.left, &p.right}) {
    const PlanBuffer& b = plan_.buffer(e->as<Load>()->buffer);
    const std::string& to = e == &p.left ? target_.matrix.left : target_.matrix.right;
    if (b.space.empty() || !target_.path(b.space, to)) return false;
  }
  return true;
}

std::optional<Block> DmaLowering::borders(const Stage& s) const {
  if (s.inner.size() != 1 || !s.outer.empty() || !s.accumulators.empty()) return {};
  const StageStore& store = s.inner[0];
  const Apply* outside = store.guard ? store.guard.as<Apply>() : nullptr;
  if (!outside || outside->op != Op::Not || !store.value.as<Imm>()) return {};
  std::vector<Expr> inside;
  bool plain = true;
  conditions(outside->args[0], inside, plain);
  if (!plain) return {};
  Block out;
  for (const Expr& e : inside) {  // axis - low >= 0, or high - 1 - axis >= 0
    const Linear l = linearOf(e);
    const Var* v = l.terms.size() == 1 ? l.terms[0].first.as<Var>() : nullptr;
    const auto axis = v ? std::ranges::find(s.axes, v->name, &StageAxis::var) : s.axes.end();
    if (axis == s.axes.end() || std::abs(l.terms[0].second) != 1) return {};
    const bool before = l.terms[0].second == 1;
    strip(s, static_cast<size_t>(axis - s.axes.begin()), before,
          before ? -l.constant : l.constant + 1, out);
  }
  return out;
}

void DmaLowering::strip(const Stage& s, size_t along, bool before, int64_t bound,
                        Block& out) const {
  std::unordered_map<std::string, Expr> at;
  std::vector<std::pair<std::string, Expr>> loops;
  for (size_t a = 0; a < s.axes.size(); a++) {
    const StageAxis& axis = s.axes[a];
    Expr low = max(axis.region.base, 0);
    Expr end = min(axis.region.base + Expr(axis.region.size), axis.extent);
    if (a == along && before) end = min(end, Expr(bound));
    if (a == along && !before) low = max(low, Expr(bound));
    low = simplify(low, ranges_);
    const std::string v = fmt::format("b{}", a);
    at[axis.var] = low + var(v);
    loops.emplace_back(v, simplify(end - low, ranges_));
  }
  std::vector<Expr> index;
  for (const Expr& e : s.inner[0].index) index.push_back(substitute(e, at));
  index = buffers_.index(s.inner[0].buffer, index);
  for (Expr& e : index) e = simplify(e, ranges_);
  Block body;
  body.push_back({Store{{{s.inner[0].buffer, std::move(index)}}, "", {s.inner[0].value}}, ""});
  for (size_t a = loops.size(); a-- > 0;) {
    Block outer;
    outer.push_back({For{loops[a].first, loops[a].second, LoopMode::Serial, std::move(body)}, ""});
    body = std::move(outer);
  }
  for (Stmt& x : body) out.push_back(std::move(x));
}

std::optional<Block> DmaLowering::fromMain(const Stage& s, const MoveStage& move) const {
  const Load& l = *move.load.as<Load>();
  const PlanBuffer& from = plan_.buffer(l.buffer);
  const PlanBuffer& to = plan_.buffer(s.inner[0].buffer);
  if (from.kind == PlanBuffer::Scratch || to.kind != PlanBuffer::Scratch) return {};
  if (move.guard && !saysInRange(s, move, from)) return {};
  Copy c;
  std::unordered_map<std::string, Expr> at;
  for (size_t a = 0; a < s.axes.size(); a++) {
    const StageAxis& axis = s.axes[a];
    const Expr low = simplify(max(axis.region.base, 0), ranges_);
    const Expr n =
        simplify(min(axis.region.base + Expr(axis.region.size), axis.extent) - low, ranges_);
    const std::string v = fmt::format("c{}", a);
    if (isConstant(n, 1)) {
      at[axis.var] = low;
      continue;
    }
    at[axis.var] = low + var(v);
    c.axes.push_back({v, n});
  }
  if (c.axes.empty()) c.axes.push_back({"c", Expr(1)});
  const auto placed = [&](const std::vector<Expr>& index, const std::string& name) {
    std::vector<Expr> local;
    for (const Expr& e : index) local.push_back(substitute(e, at));
    local = buffers_.index(name, local);
    for (Expr& e : local) e = simplify(e, ranges_);
    return local;
  };
  c.from = {l.buffer, placed(l.index, l.buffer)};
  c.to = Ref{to.name, placed(s.inner[0].index, to.name)};
  c.fill = move.fill;
  c.queue = engine("main", to.space);
  Block out;
  const std::string queue = c.queue;
  out.push_back({std::move(c), ""});
  out.push_back({Sync{Sync::Queue, queue, 0}, ""});
  return out;
}

bool DmaLowering::saysInRange(const Stage& s, const MoveStage& move, const PlanBuffer& from) {
  std::vector<Expr> says, means;
  bool plain = true;
  conditions(move.guard, says, plain);
  if (!plain) return false;
  const Load& l = *move.load.as<Load>();
  for (size_t d = 0; d < l.index.size(); d++) {
    means.push_back(simplify(l.index[d], {}));
    means.push_back(simplify(from.type.shape[d] - Expr(1) - l.index[d], {}));
  }
  Ranges axes;
  for (const StageAxis& a : s.axes) axes[a.var] = {0, a.extent - 1};
  const auto among = [](const std::vector<Expr>& list, const Expr& e) {
    return std::ranges::any_of(list,
                               [&](const Expr& x) { return isConstant(simplify(x - e, {}), 0); });
  };
  return std::ranges::all_of(says, [&](const Expr& e) { return among(means, e); }) &&
         std::ranges::all_of(
             means, [&](const Expr& e) { return among(says, e) || proves(le(0, e), axes); });
}

}  // namespace tektite
