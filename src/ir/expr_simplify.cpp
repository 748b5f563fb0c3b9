#include <algorithm>
#include <numeric>

#include "ir/facts.h"

namespace tektite {

/// A linear form as times * part + rest.
struct Facts::Parts {
  int64_t times;
  Linear part, rest;
};

namespace {

constexpr int64_t kInf = int64_t{1} << 62;
constexpr int64_t kMostDivisor =
    int64_t{1} << 40;  // larger ones are left alone: products of two stay in 64 bits or are caught

int64_t floorQuotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floorRemainder(int64_t a, int64_t b) { return a - floorQuotient(a, b) * b; }
bool isI64(const Expr& e) { return e.type() == DType::I64; }
const Apply* asApply(const Expr& e, Op op) {
  const Apply* a = e.as<Apply>();
  return a && a->op == op ? a : nullptr;
}
/// The constant divisor of a quotient or remainder, 0 where it has none.
int64_t divisorOf(const Apply* a) {
  if (!a) return 0;
  const auto c = asInteger(a->args[1]);
  return c && *c > 0 && *c <= kMostDivisor ? *c : 0;
}
int64_t commonDivisor(const Linear& l) {
  int64_t g = 0;
  for (const auto& [e, k] : l.terms) g = std::gcd(g, k);
  return g;
}

/// l = by * whole + rest: the terms that `by` divides leave, the others stay as they are; the rest's constant is in [0, by).
void splitBy(const Linear& l, int64_t by, Linear& whole, Linear& rest) {
  for (const auto& [e, k] : l.terms)
    (k % by ? rest : whole).terms.emplace_back(e, k % by ? k : k / by);
  whole.constant = floorQuotient(l.constant, by);
  rest.constant = floorRemainder(l.constant, by);
}

void collectFactors(const Expr& e, std::vector<Expr>& out) {
  if (const Apply* a = asApply(e, Op::Mul))
    for (const Expr& x : a->args) collectFactors(x, out);
  else
    out.push_back(e);
}
/// term / by where every factor of `by` is one of the term's; null where not.
Expr withoutFactors(const Expr& term, const Expr& by) {
  std::vector<Expr> have, want;
  collectFactors(term, have);
  collectFactors(by, want);
  for (const Expr& w : want) {
    const auto it = std::find(have.begin(), have.end(), w);
    if (it == have.end()) return {};
    have.erase(it);
  }
  Expr out(1);
  for (const Expr& h : have) out = out * h;
  return out;
}
/// The same by a divisor that is one term times a coefficient.
bool splitBySymbol(const Linear& l, const Linear& by, Linear& whole, Linear& rest) {
  if (by.terms.size() != 1 || by.constant != 0) return false;
  const auto& [symbol, times] = by.terms[0];
  for (const auto& [e, k] : l.terms) {
    const Expr quotient = k % times == 0 ? withoutFactors(e, symbol) : Expr();
    if (quotient)
      whole = plus(whole, linearOf(quotient), k / times);
    else
      rest.terms.emplace_back(e, k);
  }
  rest.constant = l.constant;
  return true;
}

}  // namespace

Expr Facts::simplify(const Expr& root) {
  if (!root) return root;
  if (const auto it = simple_.find(root.hash()); it != simple_.end()) return it->second;
  Expr out = rewrite(root, [&](const Expr& e) { return step(e); });
  simple_.emplace(root.hash(), out);
  simple_.emplace(out.hash(), out);
  return out;
}

/// One node whose children are in normal form.
Expr Facts::step(const Expr& e) {
  if (isFloat(e.type()) && !asApply(e, Op::Select)) return {};
  budget_ = 400;
  if (const auto it = truths_.find(e.hash()); it != truths_.end() && e.type() == DType::Bool)
    return boolean(it->second);
  const Interval in = isFloat(e.type()) ? Interval{-kInf, kInf} : known(e).in;
  if (in.low == in.high && in.high < kInf && in.low > -kInf) return immInteger(e.type(), in.low);
  if (const Cast* c = e.as<Cast>()) {  // a round trip that loses nothing
    const Cast* inner = c->arg.as<Cast>();
    if (!inner || inner->arg.type() != e.type() || isFloat(c->arg.type()) || isFloat(e.type()))
      return {};
    const Interval a = known(inner->arg).in, b = known(c->arg).in;
    return a.low == b.low && a.high == b.high && a.high < kInf && a.low > -kInf ? inner->arg
                                                                                : Expr();
  }
  const Apply* a = e.as<Apply>();
  if (!a) return {};
  if (a->op == Op::Select) {
    const Apply* negated = asApply(a->args[0], Op::Not);
    return negated ? apply(Op::Select, {negated->args[0], a->args[2], a->args[1]}) : Expr();
  }
  if (e.type() == DType::Bool) return stepBool(e, *a);
  if (isI64(e)) return stepIndex(e, *a);
  if (a->op == Op::Max || a->op == Op::Min) {
    const auto less = decide(Op::Le, a->args[0], a->args[1]);
    if (less) return a->args[*less == (a->op == Op::Max)];
  }
  return {};
}

Expr Facts::stepIndex(const Expr& e, const Apply& a) {
  const Expr& x = a.args[0];
  const Expr& y = a.args.size() > 1 ? a.args[1] : x;
  const auto natural = [&] { return known(x).in.low >= 0 && known(y).in.low >= 0; };
  switch (a.op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Neg: return sum(linear(e));
    case Op::FloorDiv: return divide(x, y);
    case Op::Mod: return modulo(x, y);
    case Op::TruncDiv: return natural() ? divide(x, y) : Expr();
    case Op::TruncMod: return natural() ? modulo(x, y) : Expr();
    case Op::Max:
    case Op::Min: {
      if (const auto less = decide(Op::Le, x, y)) return a.args[*less == (a.op == Op::Max)];
      if (decide(Op::Le, y, x) == true) return a.args[a.op == Op::Min];
      return compareTerms(x, y) > 0 && !asInteger(y) ? apply(a.op, {y, x}) : Expr();
    }
    default: return {};
  }
}

Expr Facts::sum(Linear l) { return toExpr(recombined(std::move(l))); }

/// x // c * c + x % c -> x, and what else of digits makes a number again.
Linear Facts::recombined(Linear l) {
  for (bool again = true; again && l.terms.size() > 1;) {
    again = false;
    for (size_t i = 0; i < l.terms.size() && !again; ++i) {
      const Apply* a = l.terms[i].first.as<Apply>();
      if (a && a->op == Op::Mod)
        again = recombineModulo(l, i);
      else if (a && a->op == Op::FloorDiv)
        again = recombineQuotient(l, i);
    }
  }
  return l;
}

/// k * (y % c) with k * c * (y // c) -> k * y; with k * c * (y // c % a) -> k * (y % (a * c)).
bool Facts::recombineModulo(Linear& l, size_t i) {
  const auto [term, k] = l.terms[i];
  const Apply& a = *term.as<Apply>();
  const int64_t c = divisorOf(&a);
  if (c == 0 || std::abs(k) > kMostDivisor) return false;
  const Expr y = a.args[0];
  const Expr quotient = divideBy(y, c);
  Linear whole = plus(l, linearTerm(term), -k);
  whole = plus(whole, linear(quotient), -k * c);
  whole = plus(whole, linear(y), k);
  if (whole.terms.size() < l.terms.size()) {
    l = std::move(whole);
    return true;
  }
  for (const auto& [other, m] : l.terms) {
    const Apply* digit = asApply(other, Op::Mod);
    const int64_t d = divisorOf(digit);
    if (d == 0 || d > kMostDivisor / c || m != k * c || !(digit->args[0] == quotient)) continue;
    l = plus(plus(plus(l, linearTerm(term), -k), linearTerm(other), -m), linear(moduloBy(y, c * d)),
             k);
    return true;
  }
  return false;
}

/// k * x - k * c * (x // c) -> k * (x % c), where all of x is there.
bool Facts::recombineQuotient(Linear& l, size_t i) {
  const auto [term, m] = l.terms[i];
  const Apply& a = *term.as<Apply>();
  const int64_t c = divisorOf(&a);
  if (c == 0 || m % c != 0 || wraps(a.args[0])) return false;
  const int64_t k = -(m / c);
  Linear rest = plus(plus(l, linearTerm(term), -m), linear(a.args[0]), -k);
  if (rest.terms.size() + 1 >= l.terms.size()) return false;
  l = plus(rest, linear(moduloBy(a.args[0], c)), k);
  return true;
}

/// m where the form stays in [m * size, m * size + size).
std::optional<int64_t> Facts::block(const Linear& l, int64_t size) {
  const Interval in = boundsOfLinear(l);
  if (in.low <= -kInf || in.high >= kInf) return std::nullopt;
  const int64_t m = floorQuotient(in.low, size);
  return m == floorQuotient(in.high, size) ? std::optional(m) : std::nullopt;
}

/// times * part + rest where times divides `within` and the rest stays in [0, times): then the rest never carries.
std::optional<Facts::Parts> Facts::factored(const Linear& l, int64_t within) {
  std::vector<int64_t> candidates;
  for (const auto& [e, k] : l.terms)
    if (const int64_t g = std::gcd(k, within); g > 1) candidates.push_back(g);
  if (!candidates.empty()) candidates.push_back(std::gcd(commonDivisor(l), within));
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (const int64_t g : candidates) {
    if (g <= 1) continue;
    Parts p{g, {}, {}};
    for (const auto& [e, k] : l.terms)
      (k % g ? p.rest : p.part).terms.emplace_back(e, k % g ? k : k / g);
    p.part.constant = floorQuotient(l.constant, g);
    p.rest.constant = floorRemainder(l.constant, g);
    const auto m = block(p.rest, g);
    if (!m || p.part.terms.empty()) continue;
    p.part.constant += *m;
    p.rest.constant -= *m * g;
    return p;
  }
  return std::nullopt;
}

Expr Facts::divide(const Expr& a, const Expr& by) {
  if (const auto c = asInteger(by))
    return *c > 0 && *c <= kMostDivisor ? divideBy(a, *c) : *c == 0 ? by : floorDiv(a, by);
  if (wraps(a) || wraps(by)) return floorDiv(a, by);
  Linear whole, rest, divisor = linear(by);
  if (!splitBySymbol(linear(a), divisor, whole, rest)) rest = linear(a), whole = {};
  const bool positive = known(by).in.low >= 1;
  if (rest.terms.empty() && rest.constant == 0 && positive) return sum(whole);
  Linear room = plus(divisor, rest, -1);
  room.constant -= 1;
  if (nonNegative(rest) && nonNegative(room)) return sum(whole);
  if (!positive || whole.terms.empty()) return floorDiv(a, by);
  return sum(plus(whole, linearTerm(floorDiv(toExpr(rest), by))));
}

Expr Facts::modulo(const Expr& a, const Expr& by) {
  if (const auto c = asInteger(by))
    return *c > 0 && *c <= kMostDivisor ? moduloBy(a, *c) : *c == 0 ? a : floorMod(a, by);
  if (wraps(a) || wraps(by)) return floorMod(a, by);
  Linear whole, rest, divisor = linear(by);
  if (!splitBySymbol(linear(a), divisor, whole, rest)) rest = linear(a);
  if (rest.terms.empty() && rest.constant == 0) return Expr(0);  // by 0 too: the dividend is 0 then
  Linear room = plus(divisor, rest, -1);
  room.constant -= 1;
  if (nonNegative(rest) && nonNegative(room)) return sum(rest);
  return known(by).in.low >= 1 ? floorMod(toExpr(rest), by) : floorMod(a, by);
}

Expr Facts::divideBy(const Expr& a, int64_t c) {
  if (c == 1 || wraps(a)) return floorDiv(a, Expr(c));
  Linear whole, rest;
  splitBy(linear(a), c, whole, rest);
  if (const auto m = block(rest, c)) {
    whole.constant += *m;
    return sum(std::move(whole));
  }
  if (const auto p = factored(rest, c))
    return sum(plus(whole, linear(divideBy(sum(p->part), c / p->times))));
  if (rest.terms.size() == 1 && rest.terms[0].second == 1) {
    const Expr& only = rest.terms[0].first;
    const Apply* quotient = asApply(only, Op::FloorDiv);
    if (const int64_t d = divisorOf(quotient);
        d && d <= kMostDivisor / c && !wraps(quotient->args[0])) {
      Linear inner = linear(quotient->args[0]);
      inner.constant += rest.constant * d;
      return sum(plus(whole, linear(divideBy(toExpr(inner), c * d))));
    }
    const Apply* remainder = asApply(only, Op::Mod);
    if (const int64_t d = divisorOf(remainder); d && d % c == 0 && rest.constant == 0)
      return sum(plus(whole, linear(moduloBy(divideBy(remainder->args[0], c), d / c))));
  }
  return sum(plus(whole, linearTerm(floorDiv(toExpr(rest), Expr(c)))));
}

Expr Facts::moduloBy(const Expr& a, int64_t c) {
  if (c == 1 || wraps(a)) return floorMod(a, Expr(c));
  Linear whole, rest;
  splitBy(linear(a), c, whole, rest);
  if (const auto m = block(rest, c)) {
    rest.constant -= *m * c;
    return sum(std::move(rest));
  }
  for (const auto& [e, k] : rest.terms) {  // (y % m) % c -> y % c where c divides m
    const Apply* inner = asApply(e, Op::Mod);
    const int64_t d = divisorOf(inner);
    if (d && std::abs(k) <= kMostDivisor / d && k * d % c == 0 && !wraps(inner->args[0]))
      return moduloBy(toExpr(plus(plus(rest, linearTerm(e), -k), linear(inner->args[0]), k)), c);
  }
  if (const auto p = factored(rest, c)) {
    const Expr digit = moduloBy(sum(p->part), c / p->times);
    return sum(plus(p->rest, linear(digit), p->times));
  }
  return floorMod(toExpr(rest), Expr(c));
}

Expr Facts::stepBool(const Expr& e, const Apply& a) {
  switch (a.op) {
    case Op::Lt:
    case Op::Le:
    case Op::Eq: return compared(a.op, a.args[0], a.args[1], e);
    case Op::And: return conjunction(e);
    case Op::Not: {
      const Apply* inner = a.args[0].as<Apply>();
      if (inner && inner->op == Op::Not) return inner->args[0];
      if (!inner || !isI64(inner->args[0])) return {};
      if (inner->op == Op::Lt) return compared(Op::Le, inner->args[1], inner->args[0], {});
      return inner->op == Op::Le ? compared(Op::Lt, inner->args[1], inner->args[0], {}) : Expr();
    }
    default: return {};
  }
}

Expr Facts::compared(Op op, const Expr& a, const Expr& b, const Expr& whole) {
  if (!isI64(a) || wraps(a) || wraps(b)) return whole ? Expr() : apply(op, {a, b});
  Linear difference = plus(linear(b), linear(a), -1);
  if (op == Op::Eq) return equalZero(std::move(difference), whole);
  if (op == Op::Lt) difference.constant -= 1;
  return atLeastZero(std::move(difference));
}

/// The normal form of l >= 0: decided, divided by what its coefficients share, without quotients, as i < 5, 3 <= i or i <= j + 2.
Expr Facts::atLeastZero(Linear l) {
  if (nonNegative(l)) return boolean(true);
  Linear below = times(l, -1);
  below.constant -= 1;
  if (nonNegative(below)) return boolean(false);
  if (const auto p = factored(l, 0)) return atLeastZero(p->part);
  if (l.terms.size() == 1 && std::abs(l.terms[0].second) == 1) {
    const Apply* quotient = asApply(l.terms[0].first, Op::FloorDiv);
    if (const int64_t c = divisorOf(quotient);
        c && !wraps(quotient->args[0]) && std::abs(l.constant) <= kMostDivisor) {
      const bool up = l.terms[0].second ==
                      1;  // e // c >= -k: e + k * c >= 0;  e // c <= k: k * c + c - 1 - e >= 0
      Linear inner = times(linear(quotient->args[0]), up ? 1 : -1);
      inner.constant += l.constant * c + (up ? 0 : c - 1);
      return atLeastZero(std::move(inner));
    }
  }
  Linear left, right;
  for (const auto& [e, k] : l.terms) (k < 0 ? left : right).terms.emplace_back(e, k < 0 ? -k : k);
  if (right.terms.empty()) return lt(toExpr(left), Expr(l.constant + 1));
  if (left.terms.empty()) return le(Expr(-l.constant), toExpr(right));
  if (l.constant == -1) return lt(toExpr(left), toExpr(right));
  (l.constant < 0 ? left : right).constant = std::abs(l.constant);
  return le(toExpr(left), toExpr(right));
}

Expr Facts::equalZero(Linear l, const Expr& whole) {
  if (l.terms.empty()) return boolean(l.constant == 0);
  const int64_t g = commonDivisor(l);
  if (l.constant % g != 0) return boolean(false);
  if (l.terms[0].second < 0) l = times(l, -1);
  Linear left, right;
  for (const auto& [e, k] : l.terms) (k < 0 ? right : left).terms.emplace_back(e, std::abs(k) / g);
  right.constant = -l.constant / g;
  const Expr a = toExpr(left), b = toExpr(right);
  if (const auto d = decide(Op::Eq, a, b)) return boolean(*d);
  const Expr out = eq(a, b);
  return whole && out == whole ? Expr() : out;
}

/// Conjuncts that say the same, or less than another, are dropped.
Expr Facts::conjunction(const Expr& e) {
  struct Conjunct {
    Expr e;
    std::optional<Linear> form;  // form >= 0
  };
  std::vector<Conjunct> kept;
  const std::function<bool(const Expr&)> take = [&](const Expr& x) {
    if (const Apply* a = asApply(x, Op::And)) return take(a->args[0]) && take(a->args[1]);
    Conjunct c{x, std::nullopt};
    const Apply* a = x.as<Apply>();
    if (a && (a->op == Op::Lt || a->op == Op::Le) && isI64(a->args[0]) && !wraps(a->args[0]) &&
        !wraps(a->args[1])) {
      c.form = plus(linear(a->args[1]), linear(a->args[0]), -1);
      if (a->op == Op::Lt) c.form->constant -= 1;
    }
    bool placed = false;
    for (Conjunct& k : kept) {
      if (k.e == x) return true;
      if (!k.form || !c.form) continue;
      if (k.form->terms == c.form->terms) {  // one bound is the tighter
        if (c.form->constant >= k.form->constant) return true;
        k = c;
        placed = true;
        continue;
      }
      const Linear both = plus(*k.form, *c.form);
      if (both.terms.empty() && both.constant < 0) return false;
    }
    if (!placed) kept.push_back(std::move(c));
    return true;
  };
  if (!take(e)) return boolean(false);
  Expr out = kept[0].e;
  for (size_t i = 1; i < kept.size(); ++i) out = logicalAnd(out, kept[i].e);
  return out;
}

}  // namespace tektite
