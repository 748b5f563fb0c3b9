#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/facts.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

constexpr int64_t kInf = int64_t{1} << 62;  // a bound here or beyond is none
constexpr int kDepth = 3;                   // nested quotients and minima that a proof looks into
constexpr int kBudget = 400;                // linear forms that one question may bound

int64_t clamp(__int128 v) { return v > kInf ? kInf : v < -kInf ? -kInf : static_cast<int64_t>(v); }
bool finite(int64_t v) { return v > -kInf && v < kInf; }
bool finite(Interval i) { return finite(i.low) && finite(i.high); }
int64_t floorQuotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t ceilQuotient(__int128 a, int64_t b) {  // b > 0
  const __int128 q = a / b;
  return clamp(q + (a % b > 0 ? 1 : 0));
}

Interval whole(DType t) {
  const int n = bits(t);
  if (t == DType::Bool) return {0, 1};
  if (isSigned(t))
    return n >= 63 ? Interval{-kInf, kInf}
                   : Interval{-(int64_t{1} << (n - 1)), (int64_t{1} << (n - 1)) - 1};
  return {0, n >= 62 ? kInf : (int64_t{1} << n) - 1};
}
Interval hull(Interval a, Interval b) { return {std::min(a.low, b.low), std::max(a.high, b.high)}; }
Interval added(Interval a, Interval b) {
  return {finite(a.low) && finite(b.low) ? clamp(__int128{a.low} + b.low) : -kInf,
          finite(a.high) && finite(b.high) ? clamp(__int128{a.high} + b.high) : kInf};
}
Interval negated(Interval a) { return {-a.high, -a.low}; }
Interval multiplied(Interval a, Interval b) {
  Interval out{kInf, -kInf};
  for (int64_t x : {a.low, a.high})
    for (int64_t y : {b.low, b.high}) {
      const int64_t p = clamp(__int128{x} * y);
      out = hull(out, {p, p});
    }
  return out;
}
Interval divided(Interval a, Interval by) {
  if (by.low < 1) {  // by zero gives zero; a negative divisor turns the sign
    const int64_t m = std::max(std::abs(a.low), std::abs(a.high));
    return {-m, m};
  }
  Interval out{kInf, -kInf};
  for (int64_t y : {by.low, by.high}) {
    const int64_t low = finite(a.low) ? (finite(y)   ? floorQuotient(a.low, y)
                                         : a.low < 0 ? -1
                                                     : 0)
                                      : -kInf;
    const int64_t high = finite(a.high) ? (finite(y)    ? floorQuotient(a.high, y)
                                           : a.high < 0 ? -1
                                                        : 0)
                                        : kInf;
    out = hull(out, {low, high});
  }
  return out;
}
Interval remainder(Interval a, Interval by) {
  if (by.low < 1) return hull(a, {std::min<int64_t>(by.low, 0), std::max<int64_t>(by.high, 0)});
  if (a.low >= 0 && a.high < by.low) return a;
  return {0, a.low >= 0 ? std::min(a.high, by.high - 1) : finite(by.high) ? by.high - 1 : kInf};
}
int64_t allOnes(int64_t v) {  // the least 2^n - 1 that is not below v
  int64_t m = 0;
  while (m < v && m < kInf) m = m * 2 + 1;
  return m;
}

bool isSum(Op op) { return op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Neg; }

}  // namespace

Facts::Facts(const Ranges& ranges, std::span<const Expr> assumed) : ranges_(&ranges) {
  for (const Expr& e : assumed) assume(simplify(e), true);
  simple_.clear();  // what was simplified before all facts were known
  known_.clear();
}

void Facts::assume(const Expr& e, bool truth) {
  truths_.emplace(e.hash(), truth);
  const Apply* a = e.as<Apply>();
  if (!a) return;
  if (a->op == (truth ? Op::And : Op::Or))
    for (const Expr& x : a->args) assume(x, truth);
  if (a->op == Op::Not) assume(a->args[0], !truth);
  if (a->op != Op::Lt && a->op != Op::Le && a->op != Op::Eq) return;
  const Expr& x = a->args[0];
  const Expr& y = a->args[1];
  if (x.type() != DType::I64 || wraps(x) || wraps(y)) return;
  Linear difference = plus(linear(y), linear(x), -1);
  if (a->op == Op::Eq && !truth) return;
  if (a->op == Op::Eq) assumeNonNegative(times(difference, -1));
  if (!truth) difference = times(difference, -1);
  if ((a->op == Op::Lt) == truth && a->op != Op::Eq) difference.constant -= 1;
  assumeNonNegative(std::move(difference));
}

/// A fact about one variable narrows its range, any other is kept.
void Facts::assumeNonNegative(Linear l) {
  if (l.terms.empty()) return;
  const auto& [e, k] = l.terms[0];
  if (const Var* v = e.as<Var>(); v && l.terms.size() == 1) {
    Interval in = known(e).in;
    if (k > 0)
      in.low = std::max(in.low, ceilQuotient(-__int128{l.constant}, k));
    else
      in.high = std::min(in.high, floorQuotient(l.constant, -k));
    if (!in.empty()) tighter_[v->name] = in;
    known_.clear();
  }
  nonNegative_.push_back(std::move(l));
}

const Facts::Known& Facts::known(const Expr& e) {
  if (const auto it = known_.find(e.hash()); it != known_.end()) return it->second;
  Known k = compute(e);
  return known_.insert_or_assign(e.hash(), k).first->second;
}

Facts::Known Facts::compute(const Expr& e) {
  const DType t = e.type();
  if (isFloat(t)) return {{-kInf, kInf}, true, false};
  return std::visit(
      overloaded{[&](const Imm& i) -> Known {
                   const int64_t v = t == DType::U64 && i.integer < 0 ? kInf : clamp(i.integer);
                   return {{v, v}, false, t == DType::I64 && !finite(v)};
                 },
                 [&](const Var& v) -> Known {
                   const auto t1 = tighter_.find(v.name);
                   const auto t2 = ranges_->find(v.name);
                   const bool ranged = t2 != ranges_->end();
                   Interval in = t1 != tighter_.end() ? t1->second : ranged ? t2->second : whole(t);
                   return {{clamp(in.low), clamp(in.high)}, !ranged && v.name[0] == '$', false};
                 },
                 [&](const Load&) -> Known { return {whole(t), true, false}; },
                 [&](const Cast& c) -> Known {
                   if (isFloat(c.arg.type())) return {whole(t), true, false};
                   const Known arg = known(c.arg);
                   const Interval w = whole(t);
                   const bool fits =
                       t == DType::Bool ? arg.in.low >= 0 && arg.in.high <= 1
                                        : arg.in.low >= w.low && arg.in.high <= w.high &&
                                              (finite(arg.in) || bits(t) < 64 || t == c.arg.type());
                   return {fits ? arg.in : w, arg.data, false};
                 },
                 [&](const Apply& a) -> Known { return computeApply(e, a); }},
      e->kind);
}

Facts::Known Facts::computeApply(const Expr& e, const Apply& a) {
  bool data = false;
  for (const Expr& x : a.args) data |= known(x).data;
  Interval in = intervalOf(e, a);
  const Interval w = whole(e.type());
  if (e.type() != DType::I64) {
    if (in.low < w.low || in.high > w.high || (isSum(a.op) && !finite(in))) in = w;
    return {in, data, false};
  }
  if (!isSum(a.op)) return {in, data, false};
  bool mayWrap = data && !finite(in);
  const Linear& l = linear(e);
  mayWrap |= !finite(l.constant);
  for (const auto& [term, k] : l.terms) mayWrap |= !finite(k);
  return {mayWrap ? w : in, data, mayWrap};
}

Interval Facts::intervalOf(const Expr& e, const Apply& a) {
  const auto at = [&](size_t i) { return known(a.args[i]).in; };
  if (e.type() == DType::I64 && isSum(a.op)) {
    const Linear& l = linear(e);
    if (l.terms.size() != 1 || !(l.terms[0].first == e)) return boundsOfLinear(l);
  }
  const Interval w = whole(e.type());
  switch (a.op) {
    case Op::Add: return added(at(0), at(1));
    case Op::Sub: return added(at(0), negated(at(1)));
    case Op::Neg: return negated(at(0));
    case Op::Mul: return multiplied(at(0), at(1));
    case Op::FloorDiv: return divided(at(0), at(1));
    case Op::Mod: return remainder(at(0), at(1));
    case Op::TruncDiv: return at(0).low >= 0 ? divided(at(0), at(1)) : w;
    case Op::TruncMod: return at(0).low >= 0 && at(1).low >= 1 ? remainder(at(0), at(1)) : w;
    case Op::Max: return {std::max(at(0).low, at(1).low), std::max(at(0).high, at(1).high)};
    case Op::Min: return {std::min(at(0).low, at(1).low), std::min(at(0).high, at(1).high)};
    case Op::Select: {
      const Interval c = at(0);
      return c.low == 1 ? at(1) : c.high == 0 ? at(2) : hull(at(1), at(2));
    }
    case Op::Abs:
      if (!finite(at(0))) return w;
      return at(0).low >= 0 ? at(0) : Interval{0, std::max(-at(0).low, at(0).high)};
    case Op::Sign:
      return {at(0).low > 0    ? 1
              : at(0).low == 0 ? 0
                               : -1,
              at(0).high < 0    ? -1
              : at(0).high == 0 ? 0
                                : 1};
    case Op::Lt:
    case Op::Le:
    case Op::Eq: {
      const auto d = decide(a.op, a.args[0], a.args[1]);
      return d ? Interval{*d, *d} : w;
    }
    case Op::Not: return e.type() == DType::Bool ? Interval{1 - at(0).high, 1 - at(0).low} : w;
    case Op::And:
      if (e.type() == DType::Bool)
        return {std::min(at(0).low, at(1).low), std::min(at(0).high, at(1).high)};
      return at(0).low >= 0 && at(1).low >= 0 ? Interval{0, std::min(at(0).high, at(1).high)} : w;
    case Op::Or:
    case Op::Xor:
      if (e.type() == DType::Bool && a.op == Op::Or)
        return {std::max(at(0).low, at(1).low), std::max(at(0).high, at(1).high)};
      return at(0).low >= 0 && at(1).low >= 0
                 ? Interval{0, std::max(allOnes(at(0).high), allOnes(at(1).high))}
                 : w;
    case Op::Shl:
      if (at(0).low >= 0 && at(0).high < int64_t{1} << 31 && at(1).low >= 0 && at(1).high < 31 &&
          bits(e.type()) == 64)
        return {at(0).low << at(1).low, at(0).high << at(1).high};
      return w;
    case Op::Shr:
      if (const auto by = asInteger(a.args[1]);
          by && *by >= 0 && *by < 62 && *by < bits(e.type()) && finite(at(0)))
        return {at(0).low >> *by, at(0).high >> *by};
      return w;
    default: return w;
  }
}

Interval Facts::bounds(const Expr& e) {
  budget_ = kBudget;
  return known(e).in;
}

Interval Facts::boundsOfLinear(const Linear& l) {
  const int outer = std::exchange(budget_, kBudget);
  const int64_t low = lowest(l, kDepth);
  const int64_t high = lowest(times(l, -1), kDepth);
  budget_ = outer;
  return {low, -high};
}

/// The best lower bound of a linear form: term by term, or with one quotient, remainder, minimum, maximum or choice replaced
/// by what bounds it, so that what it shares with other terms cancels.
int64_t Facts::lowest(const Linear& l, int depth) {
  __int128 sum = l.constant;
  bool open = false;
  for (const auto& [e, k] : l.terms) {
    const Interval in = known(e).in;
    const int64_t bound = k > 0 ? in.low : in.high;
    if (!finite(bound))
      open = true;
    else
      sum += __int128{k} * bound;
  }
  int64_t best = open ? -kInf : clamp(sum);
  if (depth == 0 || l.terms.size() < 2) return best;
  for (const auto& [e, k] : l.terms) {
    if (!e.as<Apply>() || --budget_ < 0) continue;
    best = std::max(best, lowestOfTerm(plus(l, linearTerm(e, k), -1), e, k, depth - 1));
  }
  return best;
}

int64_t Facts::lowestOfTerm(const Linear& rest, const Expr& term, int64_t by, int depth) {
  const Apply& a = *term.as<Apply>();
  const auto with = [&](const Expr& e) {
    return wraps(e) ? -kInf : lowest(plus(rest, linear(e), by), depth);
  };
  const auto least = [&](const Expr& x, const Expr& y) { return std::min(with(x), with(y)); };
  const auto most = [&](const Expr& x, const Expr& y) { return std::max(with(x), with(y)); };
  switch (a.op) {
    case Op::FloorDiv: {  // c * q <= e <= c * q + c - 1
      const auto c = asInteger(a.args[1]);
      if (!c || *c < 1 || *c > (int64_t{1} << 31) || wraps(a.args[0]) ||
          std::abs(by) > (int64_t{1} << 31))
        return -kInf;
      Linear scaled = plus(times(rest, *c), linear(a.args[0]), by);
      if (by > 0) scaled.constant -= by * (*c - 1);
      const int64_t low = lowest(scaled, depth);
      return finite(low) ? ceilQuotient(low, *c) : -kInf;
    }
    case Op::Mod:  // never above its dividend
      return by < 0 && known(a.args[0]).in.low >= 0 && known(a.args[1]).in.low >= 1
                 ? with(a.args[0])
                 : -kInf;
    case Op::Min: return by > 0 ? least(a.args[0], a.args[1]) : most(a.args[0], a.args[1]);
    case Op::Max: return by < 0 ? least(a.args[0], a.args[1]) : most(a.args[0], a.args[1]);
    case Op::Select: return least(a.args[1], a.args[2]);
    default: return -kInf;
  }
}

/// l >= 0, from bounds or with multiples of the assumed facts taken off.
bool Facts::nonNegative(const Linear& l, int depth) {
  if (lowest(l, kDepth) >= 0) return true;
  if (depth == 0) return false;
  for (const Linear& fact : nonNegative_) {
    for (const auto& [e, k] : l.terms) {
      const auto shared = std::find_if(fact.terms.begin(), fact.terms.end(),
                                       [&](const auto& t) { return t.first == e; });
      if (shared == fact.terms.end() || (shared->second > 0) != (k > 0) || --budget_ < 0) continue;
      const int64_t mine = std::abs(k), its = std::abs(shared->second), g = std::gcd(mine, its);
      if (mine > kInf / 4 || its / g > (int64_t{1} << 31) || mine / g > (int64_t{1} << 31))
        continue;
      if (nonNegative(plus(times(l, its / g), fact, -(mine / g)), depth - 1)) return true;
    }
  }
  return false;
}

/// What a comparison of integers comes to; nothing where it depends.
std::optional<bool> Facts::decide(Op op, const Expr& a, const Expr& b) {
  if (isFloat(a.type())) return std::nullopt;
  const Interval x = known(a).in, y = known(b).in;
  const auto below = [](int64_t low, int64_t high) {
    return finite(low) && finite(high) && low < high;
  };
  if (a.type() != DType::I64 || wraps(a) || wraps(b)) {
    const bool less = below(x.high, y.low), more = below(y.high, x.low);
    if (op == Op::Eq) return less || more ? std::optional(false) : std::nullopt;
    if (less) return true;
    if (more) return false;
    if (x.high == y.low && finite(x.high) && op == Op::Le) return true;
    if (y.high == x.low && finite(y.high) && op == Op::Lt) return false;
    return std::nullopt;
  }
  Linear up = plus(linear(b), linear(a), -1);  // b - a
  Linear down = times(up, -1);
  if (op == Op::Eq) {
    if (up.terms.empty()) return up.constant == 0;
    --up.constant, --down.constant;
    if (nonNegative(up) || nonNegative(down)) return false;
    ++up.constant, ++down.constant;
    return nonNegative(up) && nonNegative(down) ? std::optional(true) : std::nullopt;
  }
  --(op == Op::Lt ? up : down).constant;
  if (nonNegative(up)) return true;
  if (nonNegative(down)) return false;
  return std::nullopt;
}

bool Facts::proves(const Expr& condition) {
  budget_ = kBudget;
  const Expr simple = simplify(condition);
  return holds(simple, true);
}

bool Facts::holds(const Expr& e, bool truth) {
  if (const auto v = asInteger(e)) return (*v != 0) == truth;
  if (const auto it = truths_.find(e.hash()); it != truths_.end()) return it->second == truth;
  const Apply* a = e.as<Apply>();
  if (!a) return false;
  if (a->op == Op::Not) return holds(a->args[0], !truth);
  if (a->op == Op::And || a->op == Op::Or) {
    const bool l = holds(a->args[0], truth);
    return (a->op == Op::And) == truth ? l && holds(a->args[1], truth)
                                       : l || holds(a->args[1], truth);
  }
  if (a->op != Op::Lt && a->op != Op::Le && a->op != Op::Eq) return false;
  budget_ = kBudget;
  return decide(a->op, a->args[0], a->args[1]) == truth;
}

Interval boundsOf(const Expr& e, const Ranges& ranges) { return Facts(ranges).bounds(e); }
Expr simplify(const Expr& e, const Ranges& ranges) {
  if (e.as<Imm>()) return e;
  if (const Var* v = e.as<Var>()) {  // mostly an axis, which stays
    const auto range = ranges.find(v->name);
    if (range == ranges.end() || range->second.low != range->second.high) return e;
  }
  return Facts(ranges).simplify(e);
}
Expr simplify(const Expr& e, const Ranges& ranges, std::span<const Expr> facts) {
  return Facts(ranges, facts).simplify(e);
}
bool proves(const Expr& condition, const Ranges& ranges) { return Facts(ranges).proves(condition); }
bool proves(const Expr& condition, const Ranges& ranges, std::span<const Expr> facts) {
  return Facts(ranges, facts).proves(condition);
}

bool provenInside(Facts& facts, const std::vector<Expr>& shape, const std::vector<Expr>& index) {
  for (size_t i = 0; i < index.size(); i++) {
    const Interval in = facts.bounds(index[i]);
    if (in.low < 0 && !facts.proves(le(Expr(0), index[i]))) return false;
    const auto extent = asInteger(shape[i]);
    if (!(extent && in.high < *extent) && !facts.proves(lt(index[i], shape[i]))) return false;
  }
  return true;
}

}  // namespace tektite
