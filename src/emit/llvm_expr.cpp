#include <algorithm>
#include <cstdlib>

#include "emit/llvm_body.h"
#include "emit/prepare.h"
#include "ops/math/math.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite::llvm_text {

bool Body::varies(const Expr& e) {
  if (!lanes_) return false;
  if (const auto it = varies_.find(e.hash()); it != varies_.end()) return it->second;
  const auto any = [&](const std::vector<Expr>& list) {
    return std::any_of(list.begin(), list.end(), [&](const Expr& x) { return varies(x); });
  };
  const bool answer = std::visit(
      overloaded{[](const Imm&) { return false; },
                 [&](const Var& v) {
                   if (v.name == laneVariable_) return true;
                   const auto it = variables_.find(v.name);
                   return it != variables_.end() && it->second.lanes > 0;
                 },
                 [&](const Load& l) { return placeOf(l.buffer).perLane > 0 || any(l.index); },
                 [&](const Cast& c) { return varies(c.arg); },
                 [&](const Apply& a) { return any(a.args); }},
      e->kind);
  return varies_[e.hash()] = answer;
}

uint64_t Body::readsOf(const Expr& e) {
  return buffersRead(e, [&](const std::string& buffer) { return placeOf(buffer).bit; }, reads_);
}

Value Body::emit(const Expr& e) {
  if (const Imm* i = e.as<Imm>()) return scalars_.number(*i, e.type());
  const Hash key = varies(e) ? Hasher().add(e.hash()).add(lanes_).finish() : e.hash();
  if (const Value* known = memo_.find(key)) return *known;
  const Value value = compute(e);
  memo_.add(key, value, readsOf(e));
  return value;
}

Expr Body::ready(const Expr& e) {
  return mode_ == FastMath::Fast ? expandMath(now(e), true, &exact_) : now(e);
}

Value Body::compute(const Expr& e) {
  return std::visit(
      overloaded{[&](const Imm& i) { return scalars_.number(i, e.type()); },
                 [&](const Var& v) {
                   if (lanes_ && v.name == laneVariable_)
                     return scalars_.laneNumbers(lanes_, DType::I64);
                   const auto it = variables_.find(v.name);
                   TEKTITE_CHECK(it != variables_.end(), "no variable '{}'", v.name);
                   return it->second;
                 },
                 [&](const Load& l) { return loadFrom(address({l.buffer, l.index})); },
                 [&](const Cast& c) { return castTo(e, c); },
                 [&](const Apply& a) { return applyOp(e, a); }},
      e->kind);
}

/// Where lanes differ by a constant, a conversion of a 64-bit index is one of its scalar part, in the narrow type.
Value Body::castTo(const Expr& e, const Cast& c) {
  const DType to = e.type();
  if (c.arg.type() == DType::I64 && varies(c.arg) && to != DType::Bool) {
    const Linear sum = linearOf(c.arg);
    const int64_t step = sum.coefficientOf(laneVariable_);
    Linear rest{{}, sum.constant};
    bool same = true;
    for (const auto& [term, by] : sum.terms) {
      const Var* v = term.as<Var>();
      if (v && v->name == laneVariable_) continue;
      same &= !varies(term);
      rest.terms.push_back({term, by});
    }
    const Interval range = facts().bounds(c.arg);
    const bool small = range.low >= INT32_MIN && range.high <= INT32_MAX;
    const DType narrow = isFloat(to) ? DType::I32 : to;
    if (same && bits(narrow) <= 32 && bits(narrow) > 4 && (small || !isFloat(to))) {
      const Value base = scalars_.cast(narrow, emit(toExpr(rest)));
      const Value sumOfBoth =
          scalars_.apply(Op::Add, {base, scalars_.laneNumbers(lanes_, narrow, step)});
      return scalars_.cast(to, sumOfBoth);
    }
  }
  return scalars_.cast(to, emit(c.arg));
}

/// base + step * l < bound for lanes l, compared in 32 bits: l < clamp(limit, 0, lanes), or not.
std::optional<Value> Body::compareLanes(Op op, const Expr& a, const Expr& b) {
  if (a.type() != DType::I64 || (op != Op::Lt && op != Op::Le) || (!varies(a) && !varies(b)))
    return std::nullopt;
  Linear rest = plus(linearOf(b), linearOf(a), -1);  // b - a, without the lane
  int64_t step = 0;
  std::erase_if(rest.terms, [&](const auto& term) {
    const Var* v = term.first.template as<Var>();
    if (!v || v->name != laneVariable_) return false;
    step = term.second;
    return true;
  });
  if (!step) return std::nullopt;
  for (const auto& [term, by] : rest.terms)
    if (varies(term)) return std::nullopt;
  // step -s: s * l < rest, l < ceil(rest / s); le: l < floor(rest / s) + 1. step s: -rest < s * l, not (l < floor(-rest / s) + 1);
  // le: not (l < ceil(-rest / s))
  const bool below = step < 0;
  const int64_t by = std::abs(step);
  if (!below) rest = times(rest, -1);
  const bool up = (op == Op::Lt) == below;
  if (up) rest.constant += by - 1;
  Expr limit = floorDiv(toExpr(rest), Expr(by));
  if (!up) limit = limit + Expr(1);
  if (!facts().proves(le(limit, Expr(lanes_)))) limit = min(limit, Expr(lanes_));
  if (!facts().proves(le(Expr(0), limit))) limit = max(limit, Expr(0));
  const Value narrow = scalars_.splat(scalars_.cast(DType::I32, emit(limit)), lanes_),
              numbers = scalars_.laneNumbers(lanes_, DType::I32);
  return Value{out_.set("on", "icmp {} {}, {}", below ? "ult" : "uge", typed(numbers), narrow.text),
               DType::Bool, lanes_};
}

Value Body::applyOp(const Expr& e, const Apply& a) {
  if (a.op == Op::Select) return choose(a);
  if (a.args.size() == 2)
    if (auto mask = compareLanes(a.op, a.args[0], a.args[1])) return *mask;
  const bool divides =
      a.op == Op::FloorDiv || a.op == Op::Mod || a.op == Op::TruncDiv || a.op == Op::TruncMod;
  const bool nonNegative = divides && isSigned(e.type()) && facts().bounds(a.args[0]).low >= 0 &&
                           facts().bounds(a.args[1]).low > 0;
  std::vector<Value> args;
  for (const Expr& x : a.args) args.push_back(emit(x));
  scalars_.allowAlgebra(!exact_.count(e.hash()));
  Value out = scalars_.apply(a.op, std::move(args), nonNegative);
  scalars_.allowAlgebra(true);
  return out;
}

bool Body::isSafe(const Expr& e) {
  bool safe = true;
  visit(e, [&](const Expr& x) {
    if (const Load* l = x.as<Load>()) safe = safe && inRange(placeOf(l->buffer), l->index);
  });
  return safe;
}

Value Body::maskAnd(const Value& m) {
  const Value mask = scalars_.splat(m, lanes_);
  return mask_ ? scalars_.apply(Op::And, {mask_, mask}) : mask;
}

/// Only the arm that is taken touches memory: a branch where all lanes agree, else a mask.
Value Body::choose(const Apply& a) {
  if (auto read = loadOrZero(a)) return *read;
  const Expr &condition = a.args[0], &yes = a.args[1], &no = a.args[2];
  const bool yesSafe = isSafe(yes), noSafe = isSafe(no);
  if (!(yesSafe && noSafe) && !varies(condition)) return chooseBranch(condition, yes, no);
  const Value c = emit(condition);
  const auto arm = [&](const Expr& e, bool safe, bool truth) {
    if (safe) return emit(e);
    const Value outer = mask_;
    const bool some = someOn_;
    mask_ = maskAnd(truth ? c : scalars_.apply(Op::Not, {c}));
    someOn_ = false;
    memo_.push();
    const Value v = emit(e);
    memo_.pop();
    mask_ = outer;
    someOn_ = some;
    return v;
  };
  const Value y = arm(yes, yesSafe, true), n = arm(no, noSafe, false);
  return scalars_.select(c, y, n);
}

Value Body::chooseBranch(const Expr& condition, const Expr& yes, const Expr& no) {
  const Value c = emit(condition);
  const std::string then = out_.fresh("take"), otherwise = out_.fresh("other"),
                    done = out_.fresh("taken");
  const int lanes = varies(yes) || varies(no) ? lanes_ : 0;
  out_.branch(c.text, then, otherwise);
  const auto arm = [&](const std::string& label, const Expr& e) {
    out_.start(label);
    memo_.push();
    const Value v = scalars_.splat(emit(e), lanes);
    memo_.pop();
    out_.jump(done);
    return std::pair(v, out_.current());
  };
  const auto [y, yesEnd] = arm(then, yes);
  const auto [n, noEnd] = arm(otherwise, no);
  out_.start(done);
  return {out_.set("taken", "phi {} [ {}, %{} ], [ {}, %{} ]", typeOf(y), y.text, yesEnd, n.text,
                   noEnd),
          yes.type(), lanes};
}

}  // namespace tektite::llvm_text
