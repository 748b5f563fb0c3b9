#include "ir/assumptions.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tektite {
namespace {

constexpr int64_t kLargest = int64_t{1} << 56;  // facts with larger numbers are left out
constexpr size_t kMostFacts = 3000;             // of an elimination: beyond it, nothing is proved
constexpr int kMostSplits = 6;                  // cases of min, max and select, one in another

int64_t floorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

bool isInt(const Expr& e) { return e.type() == DType::I64; }

/// A select, min or max of i64 in `e`, if there is one.
Expr splittable(const Expr& e) {
  Expr found;
  visit(e, [&](const Expr& x) {
    const Apply* a = x.as<Apply>();
    if (!found && a && isInt(x) && (a->op == Op::Select || a->op == Op::Min || a->op == Op::Max))
      found = x;
  });
  return found;
}

Expr replaceBy(const Expr& in, const Expr& what, const Expr& by) {
  return rewrite(in, [&](const Expr& e) { return e == what ? by : Expr(); });
}

}  // namespace

// ---- sums

Assumptions::Sum Assumptions::add(const Sum& a, const Sum& b, int64_t scale) {
  Sum out;
  const auto clamp = [](__int128 v) {
    return static_cast<int64_t>(
        std::clamp<__int128>(v, -4 * __int128{kLargest}, 4 * __int128{kLargest}));
  };
  out.constant = clamp(__int128{a.constant} + __int128{b.constant} * scale);
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    const bool left =
        j == b.terms.size() || (i < a.terms.size() && a.terms[i].first <= b.terms[j].first);
    const bool right =
        i == a.terms.size() || (j < b.terms.size() && b.terms[j].first <= a.terms[i].first);
    const int term = left ? a.terms[i].first : b.terms[j].first;
    __int128 c = left ? a.terms[i].second : 0;
    if (right) c += __int128{b.terms[j].second} * scale;
    i += left;
    j += right;
    if (c != 0) out.terms.emplace_back(term, clamp(c));
  }
  return out;
}

/// Divides by the coefficients' common divisor. False where numbers are too large to rely on.
bool Assumptions::tighten(Sum& s) {
  int64_t common = 0;
  for (auto [term, c] : s.terms) {
    if (std::abs(c) >= kLargest) return false;
    common = std::gcd(common, c);
  }
  if (std::abs(s.constant) >= kLargest) return false;
  if (common <= 1) return true;
  for (auto& [term, c] : s.terms) c /= common;
  s.constant = floorDivide(s.constant, common);
  return true;
}

Assumptions::Sum Assumptions::sumOf(const Expr& e) {
  if (const auto i = asInteger(e)) return {{}, *i};
  const Apply* a = e.as<Apply>();
  if (!a) return termOf(e);
  switch (a->op) {
    case Op::Add: return add(sumOf(a->args[0]), sumOf(a->args[1]), 1);
    case Op::Sub: return add(sumOf(a->args[0]), sumOf(a->args[1]), -1);
    case Op::Neg: return add({}, sumOf(a->args[0]), -1);
    case Op::Mul: {
      const Sum left = sumOf(a->args[0]), right = sumOf(a->args[1]);
      if (right.terms.empty()) return add({}, left, right.constant);
      if (left.terms.empty()) return add({}, right, left.constant);
      return termOf(e);
    }
    case Op::Mod: {
      const auto c = asInteger(a->args[1]);
      if (c && *c > 0) return add(sumOf(a->args[0]), sumOf(floorDiv(a->args[0], a->args[1])), -*c);
      return termOf(e);
    }
    default: return termOf(e);
  }
}

Assumptions::Sum Assumptions::termOf(const Expr& e) {
  auto [it, fresh] = terms_.try_emplace(e.hash(), static_cast<int>(definitions_.size()));
  const int term = it->second;
  if (fresh) {
    definitions_.emplace_back();
    parts_.emplace_back();
    define(e, term);
  }
  return {{{term, 1}}, 0};
}

/// What is true of a term by itself.
void Assumptions::define(const Expr& e, int term) {
  const Sum self{{{term, 1}}, 0};
  std::vector<Sum> known;
  opaque_.resize(definitions_.size());
  if (!e.as<Var>()) opaque_[term] = e;
  const auto between = [&](int64_t low, int64_t high) {
    known.push_back(add(self, {{}, -low}, 1));
    known.push_back(add({{}, high}, self, -1));
  };
  if (const Cast* c = e.as<Cast>()) {
    const DType from = c->arg.type();
    const int width = bits(from);
    if (from == DType::Bool)
      between(0, 1);
    else if (isInteger(from) && width < 64)
      between(isSigned(from) ? -(int64_t{1} << (width - 1)) : 0,
              (int64_t{1} << (isSigned(from) ? width - 1 : width)) - 1);
  } else if (const Apply* a = e.as<Apply>()) {
    if (a->op == Op::FloorDiv) {
      const auto c = asInteger(a->args[1]);
      if (c && *c > 0) {
        const Sum of = sumOf(a->args[0]);
        known.push_back(add(of, self, -*c));
        known.push_back(add(add({{}, *c - 1}, self, *c), of, -1));
      }
    } else if (a->op == Op::Min || a->op == Op::Max) {
      for (const Expr& arg : a->args)
        known.push_back(a->op == Op::Min ? add(sumOf(arg), self, -1) : add(self, sumOf(arg), -1));
    }
  }
  std::vector<int> parts = {term};
  for (const Sum& s : known)
    for (auto [t, c] : s.terms)
      if (t != term) parts.insert(parts.end(), parts_[t].begin(), parts_[t].end());
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  parts_[term] = std::move(parts);
  definitions_[term] = std::move(known);
}

// ---- facts

void Assumptions::rewind(size_t mark) {
  facts_.resize(mark);
  while (!ranges_.empty() && std::get<0>(ranges_.back()) >= mark) ranges_.pop_back();
}

void Assumptions::range(const std::string& variable, int64_t low, int64_t high) {
  ranges_.emplace_back(facts_.size(), variable, Interval{low, high});
  const Sum v = sumOf(var(variable));
  facts_.push_back(add(v, {{}, -low}, 1));
  facts_.push_back(add({{}, high}, v, -1));
}

void Assumptions::loop(const std::string& variable, const Expr& extent) {
  if (const auto n = asInteger(extent)) return range(variable, 0, *n - 1);
  Ranges ranges;
  for (const auto& [at, name, interval] : ranges_) ranges[name] = interval;
  ranges_.emplace_back(facts_.size(), variable,
                       Interval{0, std::max<int64_t>(boundsOf(extent, ranges).high, 1) - 1});
  const Sum v = sumOf(var(variable));
  facts_.push_back(v);
  facts_.push_back(add(add(sumOf(extent), v, -1), {{}, -1}, 1));
  // That it runs is also said of what the extent counts blocks of: goals may speak of that alone.
  const Apply* blocks = extent.as<Apply>();
  const auto size =
      blocks && blocks->op == Op::FloorDiv ? asInteger(blocks->args[1]) : std::nullopt;
  if (size && *size > 0) facts_.push_back(add(sumOf(blocks->args[0]), {{}, -*size}, 1));
}

void Assumptions::assume(const Expr& condition, bool holds) {
  const Apply* a = condition.as<Apply>();
  if (!a) {
    if (asInteger(condition) == !holds) facts_.push_back({{}, -1});
    return;
  }
  if (a->op == Op::Not && condition.type() == DType::Bool) return assume(a->args[0], !holds);
  if (a->op == (holds ? Op::And : Op::Or) && condition.type() == DType::Bool) {
    for (const Expr& x : a->args) assume(x, holds);
    return;
  }
  if (!isInt(a->args[0]) || info(a->op).rule != TypeRule::Cmp) return;
  const Sum x = sumOf(a->args[0]), y = sumOf(a->args[1]);
  const auto less = [&](const Sum& l, const Sum& r, int64_t by) {
    facts_.push_back(add(add(r, l, -1), {{}, -by}, 1));
  };
  if (a->op == Op::Lt) holds ? less(x, y, 1) : less(y, x, 0);
  if (a->op == Op::Le) holds ? less(x, y, 0) : less(y, x, 1);
  if (a->op == Op::Eq && holds) {
    less(x, y, 0);
    less(y, x, 0);
  }
}

// ---- proofs

bool Assumptions::contradictory() { return refutes({}); }
bool Assumptions::proves(const Expr& condition, bool holds) { return prove(condition, holds, 0); }

bool Assumptions::prove(const Expr& condition, bool holds, int depth) {
  if (const auto i = asInteger(condition)) return (*i != 0) == holds;
  const Apply* a = condition.as<Apply>();
  if (!a || condition.type() != DType::Bool) return false;
  if (a->op == Op::Not) return prove(a->args[0], !holds, depth);
  if (a->op == Op::And || a->op == Op::Or) {
    if ((a->op == Op::And) == holds)
      return prove(a->args[0], holds, depth) && prove(a->args[1], holds, depth);
    const size_t before = mark();
    assume(a->args[0], !holds);  // either side suffices
    const bool proved = prove(a->args[1], holds, depth) || contradictory();
    rewind(before);
    return proved || prove(a->args[0], holds, depth);
  }
  if (info(a->op).rule != TypeRule::Cmp || !isInt(a->args[0])) return false;
  return provesCompare(a->op, a->args[0], a->args[1], holds, depth);
}

bool Assumptions::provesCompare(Op op, const Expr& x, const Expr& y, bool holds, int depth) {
  const Sum difference = add(sumOf(y), sumOf(x), -1);  // y - x
  const auto least = [&](const Sum& s, int64_t low) {
    return provesNonNegative(add(s, {{}, -low}, 1));
  };
  const Sum negative = add({}, difference, -1);
  bool proved = false;
  switch (op) {
    case Op::Lt: proved = holds ? least(difference, 1) : least(negative, 0); break;
    case Op::Le: proved = holds ? least(difference, 0) : least(negative, 1); break;
    case Op::Eq:
      proved = holds ? least(difference, 0) && least(negative, 0)
                     : least(difference, 1) || least(negative, 1);
      break;
    default: break;
  }
  if (proved || depth >= kMostSplits) return proved;
  const Expr pair = apply(op, {x, y}), inside = splittable(pair);
  if (!inside) return false;
  const Apply& a = *inside.as<Apply>();
  const bool choice = a.op == Op::Select;
  const Expr condition = choice            ? a.args[0]
                         : a.op == Op::Min ? le(a.args[0], a.args[1])
                                           : le(a.args[1], a.args[0]);
  for (bool first : {true, false}) {
    const size_t before = mark();
    assume(condition, first);
    const Expr& arm = a.args[choice ? (first ? 1 : 2) : (first ? 0 : 1)];
    assume(eq(inside, arm));  // for the facts that speak of it
    const bool here = contradictory() || prove(replaceBy(pair, inside, arm), holds, depth + 1);
    rewind(before);
    if (!here) return false;
  }
  return true;
}

void Assumptions::insert(System& system, Sum s, bool& contradiction) {
  if (!tighten(s)) return;
  if (s.terms.empty())
    contradiction |= s.constant < 0;
  else if (auto [it, fresh] = system.try_emplace(s.terms, s.constant); !fresh)
    it->second = std::min(it->second, s.constant);
}

/// Do the facts and `negated` >= 0 contradict each other?
bool Assumptions::refutes(const Sum& negated) {
  System system;
  bool contradiction = collect(negated, system);
  while (!contradiction && !system.empty()) {
    eliminate(system, contradiction);
    if (system.size() > kMostFacts) return false;
  }
  return contradiction;
}

/// The facts that are connected with a goal. True where one contradicts itself.
bool Assumptions::collect(const Sum& negated, System& system) {
  bool contradiction = false;
  std::vector<int> todo;
  std::vector<char> known(definitions_.size()), used(facts_.size());
  const auto take = [&](const Sum& s) {
    insert(system, s, contradiction);
    for (auto [term, c] : s.terms)
      if (!known[term]) known[term] = 1, todo.push_back(term);
  };
  const auto touches = [&](const Sum& s) {
    return negated.terms.empty() || s.terms.empty() ||
           std::any_of(s.terms.begin(), s.terms.end(), [&](auto t) {
             return std::any_of(parts_[t.first].begin(), parts_[t.first].end(),
                                [&](int part) { return known[part] != 0; });
           });
  };
  Ranges ranges;
  for (const auto& [at, variable, interval] : ranges_) ranges[variable] = interval;
  take(negated);
  for (bool more = true; more;) {
    more = false;
    while (!todo.empty()) {
      const int term = todo.back();
      todo.pop_back();
      for (const Sum& s : definitions_[term]) take(s);
      if (!opaque_[term]) continue;
      const Interval in = boundsOf(opaque_[term], ranges);
      insert(system, {{{term, 1}}, -in.low}, contradiction);
      insert(system, {{{term, -1}}, in.high}, contradiction);
    }
    for (size_t f = 0; f < facts_.size(); f++) {
      if (used[f] || !touches(facts_[f])) continue;
      used[f] = more = true;
      take(facts_[f]);
    }
  }
  return contradiction;
}

/// Takes out a term, each pair of an upper and a lower bound of it joined: one that leaves few facts, and before all one whose
/// bounds of one side are all free of a factor, as nothing is lost over the integers then.
void Assumptions::eliminate(System& system, bool& contradiction) const {
  struct Uses {
    int64_t above = 0, below = 0;
    bool exactAbove = true, exactBelow = true;
    std::pair<bool, int64_t> rank() const { return {!exactAbove && !exactBelow, above * below}; }
  };
  std::map<int, Uses> uses;
  for (const auto& [terms, constant] : system)
    for (auto [term, c] : terms) {
      Uses& u = uses[term];
      (c > 0 ? u.above : u.below)++;
      if (std::abs(c) != 1) (c > 0 ? u.exactAbove : u.exactBelow) = false;
    }
  const int out = std::min_element(uses.begin(), uses.end(), [](const auto& a, const auto& b) {
                    return a.second.rank() < b.second.rank();
                  })->first;
  std::vector<std::pair<Sum, int64_t>> above, below;
  for (auto it = system.begin(); it != system.end();) {
    const auto use =
        std::find_if(it->first.begin(), it->first.end(), [&](auto t) { return t.first == out; });
    if (use == it->first.end()) {
      ++it;
      continue;
    }
    (use->second > 0 ? above : below).push_back({{it->first, it->second}, std::abs(use->second)});
    it = system.erase(it);
  }
  for (const auto& [a, fa] : above)
    for (const auto& [b, fb] : below) {
      const int64_t common = std::gcd(fa, fb);
      insert(system, add(add({}, a, fb / common), b, fa / common), contradiction);
    }
}

}  // namespace tektite
