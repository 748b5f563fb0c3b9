#include <algorithm>
#include <compare>

#include "ir/facts.h"
#include "ir/wrapped.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

int sign(std::strong_ordering o) { return o < 0 ? -1 : o > 0 ? 1 : 0; }

/// d2 before d10: runs of digits compare as numbers.
int compareNames(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const size_t si = i, sj = j;
      while (i < a.size() && digit(a[i])) ++i;
      while (j < b.size() && digit(b[j])) ++j;
      if (i - si != j - sj) return i - si < j - sj ? -1 : 1;
      if (const int c = a.substr(si, i - si).compare(b.substr(sj, j - sj))) return c < 0 ? -1 : 1;
      continue;
    }
    if (a[i] != b[j]) return a[i] < b[j] ? -1 : 1;
    ++i, ++j;
  }
  return sign(a.size() - i <=> b.size() - j);
}

std::string_view leftmostName(const Expr& e) {
  for (const ExprNode* n = e.get();;) {
    if (const Apply* a = std::get_if<Apply>(&n->kind))
      n = a->args[0].get();
    else if (const Cast* c = std::get_if<Cast>(&n->kind))
      n = c->arg.get();
    else if (const Load* l = std::get_if<Load>(&n->kind))
      return l->buffer;
    else if (const Var* v = std::get_if<Var>(&n->kind))
      return v->name;
    else
      return "";
  }
}

int compareLists(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (const int c = compareTerms(a[i], b[i])) return c;
  return sign(a.size() <=> b.size());
}

constexpr size_t kMostProductTerms = 16;  // products of sums are multiplied out up to here

void collectFactors(const Expr& e, std::vector<Expr>& out) {
  if (const Apply* a = e.as<Apply>(); a && a->op == Op::Mul)
    for (const Expr& x : a->args) collectFactors(x, out);
  else
    out.push_back(e);
}

/// The product of two terms, its factors in order.
Expr monomial(const Expr& a, const Expr& b) {
  std::vector<Expr> factors;
  collectFactors(a, factors);
  collectFactors(b, factors);
  std::stable_sort(factors.begin(), factors.end(),
                   [](const Expr& x, const Expr& y) { return compareTerms(x, y) < 0; });
  Expr out = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) out = out * factors[i];
  return out;
}

Linear product(const Linear& a, const Linear& b) {
  Linear out = plus(times(a, b.constant), times(Linear{b.terms, 0}, a.constant));
  for (const auto& [x, k] : a.terms)
    for (const auto& [y, m] : b.terms)
      out = plus(out, linearTerm(monomial(x, y), wrappedMul(k, m)));
  return out;
}

Linear decompose(const Expr& e, std::unordered_map<Hash, Linear>& memo) {
  if (e.type() != DType::I64) return linearTerm(e);
  if (const Imm* i = e.as<Imm>()) return linearConstant(i->integer);
  const Apply* a = e.as<Apply>();
  if (!a || (a->op != Op::Add && a->op != Op::Sub && a->op != Op::Mul && a->op != Op::Neg))
    return linearTerm(e);
  if (const auto it = memo.find(e.hash()); it != memo.end()) return it->second;
  Linear x = decompose(a->args[0], memo), out;
  if (a->op == Op::Neg) {
    out = times(x, -1);
  } else {
    const Linear y = decompose(a->args[1], memo);
    if (a->op != Op::Mul)
      out = plus(x, y, a->op == Op::Add ? 1 : -1);
    else if (x.terms.empty())
      out = times(y, x.constant);
    else if (y.terms.empty())
      out = times(x, y.constant);
    else if (x.terms.size() * y.terms.size() <= kMostProductTerms)
      out = product(x, y);
    else
      out = linearTerm(e);
  }
  return memo.emplace(e.hash(), std::move(out)).first->second;
}

Expr scaled(const Expr& term, int64_t by) { return by == 1 ? term : term * Expr(by); }

}  // namespace

int compareTerms(const Expr& a, const Expr& b) {
  if (a == b) return 0;
  if (const int c = compareNames(leftmostName(a), leftmostName(b))) return c;
  if (a->kind.index() != b->kind.index()) return a->kind.index() < b->kind.index() ? -1 : 1;
  if (a.type() != b.type()) return a.type() < b.type() ? -1 : 1;
  const int inside = std::visit(
      overloaded{[&](const Imm& x) { return sign(x.integer <=> b.as<Imm>()->integer); },
                 [](const Var&) { return 0; },
                 [&](const Load& x) { return compareLists(x.index, b.as<Load>()->index); },
                 [&](const Cast& x) { return compareTerms(x.arg, b.as<Cast>()->arg); },
                 [&](const Apply& x) {
                   const Apply& y = *b.as<Apply>();
                   if (x.op != y.op) return x.op < y.op ? -1 : 1;
                   return compareLists(x.args, y.args);
                 }},
      a->kind);
  return inside ? inside : a.hash() < b.hash() ? -1 : 1;
}

Linear linearConstant(int64_t value) { return {{}, value}; }
Linear linearTerm(const Expr& e, int64_t coefficient) {
  if (coefficient == 0) return {};
  return {{{e, coefficient}}, 0};
}

Linear plus(const Linear& a, const Linear& b, int64_t by) {
  Linear out;
  out.constant = wrappedAdd(a.constant, wrappedMul(b.constant, by));
  out.terms.reserve(a.terms.size() + b.terms.size());
  size_t i = 0, j = 0;
  const auto push = [&](const Expr& e, int64_t k) {
    if (k != 0) out.terms.emplace_back(e, k);
  };
  while (i < a.terms.size() || j < b.terms.size()) {
    const int c = i == a.terms.size()   ? 1
                  : j == b.terms.size() ? -1
                                        : compareTerms(a.terms[i].first, b.terms[j].first);
    if (c < 0)
      push(a.terms[i].first, a.terms[i].second), ++i;
    else if (c > 0)
      push(b.terms[j].first, wrappedMul(b.terms[j].second, by)), ++j;
    else
      push(a.terms[i].first, wrappedAdd(a.terms[i].second, wrappedMul(b.terms[j].second, by))), ++i,
          ++j;
  }
  return out;
}

Linear times(const Linear& a, int64_t by) { return plus({}, a, by); }

int64_t Linear::coefficientOf(const std::string& variable) const {
  for (const auto& [e, k] : terms)
    if (const Var* v = e.as<Var>(); v && v->name == variable) return k;
  return 0;
}

Linear linearOf(const Expr& e) {
  std::unordered_map<Hash, Linear> memo;
  return decompose(e, memo);
}

const Linear& Facts::linear(const Expr& e) {
  if (const auto it = linear_.find(e.hash()); it != linear_.end()) return it->second;
  Linear l = decompose(e, linear_);
  return linear_.insert_or_assign(e.hash(), std::move(l)).first->second;
}

/// What is added first, then what is taken away, the constant last: 5 - i; i * 2 - j + 3.
Expr toExpr(const Linear& l) {
  Expr out;
  for (const auto& [e, k] : l.terms)
    if (k > 0) out = out ? out + scaled(e, k) : scaled(e, k);
  bool constantUsed = false;
  if (!out && l.constant > 0) out = Expr(l.constant), constantUsed = true;
  for (const auto& [e, k] : l.terms)
    if (k < 0) {
      if (out)
        out = k == INT64_MIN ? out + scaled(e, k) : apply(Op::Sub, {out, scaled(e, -k)});
      else
        out = k == -1 ? apply(Op::Neg, {e}) : scaled(e, k);
    }
  if (!out) return Expr(l.constant);
  return constantUsed || l.constant == 0 ? out : out + Expr(l.constant);
}

}  // namespace tektite
