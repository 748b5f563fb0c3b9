#include "ir/dims.h"

#include <algorithm>
#include <map>

#include "ir/wrapped.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

// ---- polynomials: coefficient of each product of atoms, atoms ordered by their text

struct Atom {
  std::string text;
  Expr expr;
  friend bool operator==(const Atom& a, const Atom& b) { return a.text == b.text; }
  friend bool operator<(const Atom& a, const Atom& b) { return a.text < b.text; }
};
using Monomial = std::vector<Atom>;
using Poly = std::map<Monomial, int64_t>;

Poly constant(int64_t value) { return value ? Poly{{{}, value}} : Poly{}; }
void addTo(Poly& p, const Monomial& m, int64_t coefficient) {
  if (int64_t& c = p[m] = wrappedAdd(p[m], coefficient); !c) p.erase(m);
}
Poly sum(Poly a, const Poly& b, int64_t factor) {
  for (const auto& [m, c] : b) addTo(a, m, wrappedMul(c, factor));
  return a;
}
Poly times(const Poly& a, const Poly& b) {
  Poly out;
  for (const auto& [m, c] : a)
    for (const auto& [n, d] : b) {
      Monomial both;
      std::merge(m.begin(), m.end(), n.begin(), n.end(), std::back_inserter(both));
      addTo(out, both, wrappedMul(c, d));
    }
  return out;
}

Expr toExpr(const Poly& p) {
  // Positive terms first and the constant last, so that sums read as people write them.
  Expr out;
  const auto term = [&](const Monomial& m, int64_t c) {
    Expr e;
    for (const Atom& a : m) e = e ? e * a.expr : a.expr;
    if (c != 1) e = e ? e * Expr(c) : Expr(c);
    out = out ? out + e : e;
  };
  for (const auto& [m, c] : p)
    if (!m.empty() && c > 0) term(m, c);
  for (const auto& [m, c] : p)
    if (!m.empty() && c < 0) term(m, c);
  if (const auto it = p.find({}); it != p.end())
    out = out ? out + Expr(it->second) : Expr(it->second);
  return out ? out : Expr(0);
}

Poly polyOf(const Expr& e);

int64_t floorOf(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // b > 0

/// p // d where d is one monomial: the divisible part leaves the division, by a number as much of each coefficient as can, so that
/// (N - 1) // 16 and (N + 15) // 16 - 1 are one. Exact where nothing remains.
std::pair<Poly, Poly> divide(const Poly& p, const Monomial& by, int64_t coefficient) {
  Poly quotient, rest;
  for (const auto& [m, c] : p) {
    Monomial left;
    const bool divides = std::includes(m.begin(), m.end(), by.begin(), by.end());
    if (divides)
      std::set_difference(m.begin(), m.end(), by.begin(), by.end(), std::back_inserter(left));
    const int64_t whole = !divides          ? 0
                          : by.empty()      ? floorOf(c, coefficient)
                          : c % coefficient ? 0
                                            : c / coefficient;
    if (whole) addTo(quotient, left, whole);
    if (c - whole * coefficient) addTo(rest, m, c - whole * coefficient);
  }
  return {quotient, rest};
}

Poly atom(const Expr& e) { return {{{Atom{toText(e), e}}, 1}}; }

Poly applied(const Apply& a, const Expr& whole) {
  if (a.op == Op::Add) return sum(polyOf(a.args[0]), polyOf(a.args[1]), 1);
  if (a.op == Op::Sub) return sum(polyOf(a.args[0]), polyOf(a.args[1]), -1);
  if (a.op == Op::Neg) return sum({}, polyOf(a.args[0]), -1);
  if (a.op == Op::Mul) return times(polyOf(a.args[0]), polyOf(a.args[1]));
  if (a.op == Op::FloorDiv || a.op == Op::Mod) {
    const Poly p = polyOf(a.args[0]), d = polyOf(a.args[1]);
    if (d.size() == 1 && d.begin()->second > 0) {
      auto [quotient, rest] = divide(p, d.begin()->first, d.begin()->second);
      const Expr r = toExpr(rest), by = toExpr(d);
      if (a.op == Op::FloorDiv)
        return rest.empty() ? quotient : sum(quotient, atom(floorDiv(r, by)), 1);
      return rest.empty() ? Poly{} : atom(floorMod(r, by));
    }
  }
  std::vector<Expr> args;
  for (const Expr& x : a.args) args.push_back(x.type() == DType::I64 ? normalDim(x) : x);
  const Expr e = apply(a.op, std::move(args));
  return e == whole || !e.as<Imm>() ? atom(e) : constant(*asInteger(e));
}

Poly polyOf(const Expr& e) {
  return std::visit(
      overloaded{[&](const Imm& i) { return constant(i.integer); },
                 [&](const Var&) { return atom(e); }, [&](const Load&) { return atom(e); },
                 [&](const Cast&) { return atom(e); },
                 [&](const Apply& a) { return applied(a, e); }},
      e->kind);
}

// ---- bounds over coordinates

class Bounds {
 public:
  Bounds(const std::vector<Expr>& shape, const Ranges& dims) : shape_(shape), dims_(dims) {}

  Expr of(const Expr& e, bool upper) {
    if (const Var* v = e.as<Var>()) return variable(*v, e, upper);
    const Apply* a = e.as<Apply>();
    if (!a || e.type() != DType::I64) return e;
    const auto same = [&](int i) { return of(a->args[i], upper); };
    const auto other = [&](int i) { return of(a->args[i], !upper); };
    switch (a->op) {
      case Op::Add: return same(0) + same(1);
      case Op::Sub: return same(0) - other(1);
      case Op::Neg: return -1 * other(0);
      case Op::Max: return max(same(0), same(1));
      case Op::Min: return min(same(0), same(1));
      case Op::Select: return upper ? max(same(1), same(2)) : min(same(1), same(2));
      case Op::Mul: return multiplied(*a, e, upper);
      case Op::FloorDiv:
        return free(a->args[1]) && positive(a->args[1]) ? floorDiv(same(0), a->args[1]) : e;
      case Op::Mod: return remainder(*a, e, upper);
      default: return e;
    }
  }

 private:
  int axisOf(const std::string& name) const {
    for (int i = 0; i < static_cast<int>(shape_.size()); i++)
      if (coordinate(i) == name) return i;
    return -1;
  }
  Expr variable(const Var& v, const Expr& e, bool upper) const {
    const int axis = axisOf(v.name);
    return axis < 0 ? e : upper ? shape_[axis] - 1 : Expr(0);
  }
  bool free(const Expr& e) const {  // of coordinates
    for (const std::string& name : freeVars(e))
      if (axisOf(name) >= 0) return false;
    return true;
  }
  bool positive(const Expr& e) const { return nonNegative(e - 1, dims_); }
  Expr multiplied(const Apply& a, const Expr& e, bool upper) {
    for (int i = 0; i < 2; i++) {
      if (!free(a.args[i])) continue;
      if (nonNegative(a.args[i], dims_)) return of(a.args[1 - i], upper) * a.args[i];
      if (nonNegative(-1 * a.args[i], dims_)) return of(a.args[1 - i], !upper) * a.args[i];
    }
    const Expr l = of(a.args[0], false), m = of(a.args[1], false);
    if (nonNegative(l, dims_) && nonNegative(m, dims_))
      return of(a.args[0], upper) * of(a.args[1], upper);
    return e;
  }
  Expr remainder(const Apply& a, const Expr& e, bool upper) {
    if (!free(a.args[1]) || !positive(a.args[1])) return e;
    if (!upper) return 0;
    const Expr whole = of(a.args[0], true);
    const bool counts = nonNegative(of(a.args[0], false), dims_);
    return counts ? min(whole, a.args[1] - 1) : a.args[1] - 1;
  }

  const std::vector<Expr>& shape_;
  const Ranges& dims_;
};

/// The ranges where a tensor of this shape has an element: a dim that is a factor of an extent is at least 1.
Ranges nonEmpty(const std::vector<Expr>& shape, const Ranges& dims) {
  Ranges out = dims;
  for (const Expr& e : shape)
    if (const Poly p = polyOf(e); p.size() == 1)
      for (const Atom& a : p.begin()->first)
        if (const Var* v = a.expr.as<Var>())
          if (const auto it = out.find(v->name); it != out.end())
            it->second.low = std::max<int64_t>(it->second.low, 1);
  return out;
}

/// Replaces one atom of a polynomial.
Poly replaced(const Poly& p, const Atom& what, const Expr& by) {
  Poly out;
  const Poly value = polyOf(by);
  for (const auto& [m, c] : p) {
    Poly term = constant(c);
    for (const Atom& a : m) term = times(term, a == what ? value : Poly{{{a}, 1}});
    out = sum(out, term, 1);
  }
  return out;
}

int64_t lowOf(const Atom& a, const Ranges& dims) { return boundsOf(a.expr, dims).low; }

using Wide = __int128;
constexpr Wide kWide = Wide{1} << 60;  // past this only the sign is known

/// The least value of c * m where every atom keeps to its own bounds.
Wide leastOf(const Monomial& m, int64_t c, const Ranges& dims) {
  Wide low = c, high = c;
  bool counts = c > 0;
  for (const Atom& a : m) {
    const Interval i = boundsOf(a.expr, dims);
    counts = counts && i.low >= 0;
    const Wide ends[] = {low * i.low, low * i.high, high * i.low, high * i.high};
    low = std::clamp(*std::min_element(ends, ends + 4), -kWide, kWide);
    high = std::clamp(*std::max_element(ends, ends + 4), -kWide, kWide);
  }
  if (low > -kWide && high < kWide) return low;
  return counts ? std::max<Wide>(low, 0) : -(Wide{1} << 120);
}

bool provenBy(const Poly& p, const Ranges& dims, int depth) {
  Wide least = 0;
  for (const auto& [m, c] : p) least += leastOf(m, c, dims);
  if (least >= 0) return true;
  if (depth == 0) return false;
  // min, max and select by cases; N * (something >= 0) by the terms that share N.
  for (const auto& [m, c] : p)
    for (const Atom& a : m) {
      const Apply* op = a.expr.as<Apply>();
      if (!op || (op->op != Op::Max && op->op != Op::Min && op->op != Op::Select)) continue;
      const int first = op->op == Op::Select;
      const bool either =
          m.size() == 1 && ((op->op == Op::Max && c > 0) || (op->op == Op::Min && c < 0));
      const bool left = provenBy(replaced(p, a, op->args[first]), dims, depth - 1);
      if (either ? left : !left) return left;
      return provenBy(replaced(p, a, op->args[first + 1]), dims, depth - 1);
    }
  // Each dim at its low plus a non-negative rest: N -> low + N' makes N - 1 >= 0 plain.
  for (const auto& [m, c] : p)
    for (const Atom& a : m)
      if (const int64_t low = lowOf(a, dims);
          a.expr.as<Var>() && low > 0 && low < (int64_t{1} << 40)) {
        const std::string rest = a.expr.as<Var>()->name + "'";
        Ranges wider = dims;
        wider[rest] = {0, std::max<int64_t>(0, boundsOf(a.expr, dims).high - low)};
        return provenBy(replaced(p, a, var(rest) + Expr(low)), wider, depth - 1);
      }
  // q = e // c: c * q <= e, so a negative coefficient of q may give way to e.
  for (const auto& [m, c] : p) {
    const Apply* op = m.size() == 1 ? m[0].expr.as<Apply>() : nullptr;
    if (!op || op->op != Op::FloorDiv) continue;
    const auto by = asInteger(op->args[1]);
    if (!by || *by <= 0) continue;
    Poly scaled = sum({}, p, *by);
    addTo(scaled, m, -c * *by);
    const Expr bound = c < 0 ? op->args[0] : op->args[0] - Expr(*by - 1);
    if (provenBy(sum(scaled, polyOf(bound), c), dims, depth - 1)) return true;
  }
  return false;
}

}  // namespace

Expr normalDim(const Expr& e) { return e.as<Imm>() || e.as<Var>() ? e : toExpr(polyOf(e)); }

namespace {

/// The first term that is a number times one min or max, with the rest of the sum.
struct Extreme {
  const Apply* op;
  int64_t by;
  Poly rest;
};
std::optional<Extreme> extremeOf(const Poly& p) {
  for (const auto& [m, c] : p) {
    const Apply* a = m.size() == 1 ? m[0].expr.as<Apply>() : nullptr;
    if (!a || (a->op != Op::Max && a->op != Op::Min)) continue;
    Poly rest = p;
    rest.erase(m);
    return Extreme{a, c, std::move(rest)};
  }
  return std::nullopt;
}

/// Sums moved into min and max: N - min(1, N) and max(N - 1, 0) are one. Grows with each of them: at most `depth`.
std::string spread(const Poly& p, int depth) {
  const auto e = depth > 0 ? extremeOf(p) : std::nullopt;
  if (!e) return toText(toExpr(p));
  std::string args[2];
  for (int i = 0; i < 2; i++)
    args[i] = spread(sum(e->rest, polyOf(e->op->args[i]), e->by), depth - 1);
  if (args[0] > args[1]) std::swap(args[0], args[1]);
  const bool largest = (e->op->op == Op::Max) == (e->by > 0);
  return fmt::format("{}({}, {})", largest ? "max" : "min", args[0], args[1]);
}

}  // namespace

bool sameDim(const Expr& a, const Expr& b) {
  if (a == b) return true;
  if (a.as<Imm>() && b.as<Imm>()) return false;
  const Poly p = polyOf(a), q = polyOf(b);
  return p == q || ((extremeOf(p) || extremeOf(q)) && spread(p, 3) == spread(q, 3));
}

bool sameShape(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), sameDim);
}

Expr product(const std::vector<Expr>& shape) {
  Poly p = constant(1);
  for (const Expr& e : shape) p = times(p, polyOf(e));
  return toExpr(p);
}

std::optional<Expr> exactQuotient(const Expr& a, const Expr& b) {
  const Poly p = polyOf(a), d = polyOf(b);
  if (p == d && !d.empty()) return Expr(1);
  if (d.empty()) return std::nullopt;
  // Long division by the divisor's last monomial; exact or nothing.
  Poly rest = p, quotient;
  const auto lead = std::prev(d.end());
  for (int step = 0; step < 64 && !rest.empty(); step++) {
    const auto [m, c] = *std::prev(rest.end());
    if (c % lead->second ||
        !std::includes(m.begin(), m.end(), lead->first.begin(), lead->first.end()))
      return std::nullopt;
    Monomial left;
    std::set_difference(m.begin(), m.end(), lead->first.begin(), lead->first.end(),
                        std::back_inserter(left));
    const Poly term{{left, c / lead->second}};
    quotient = sum(quotient, term, 1);
    rest = sum(rest, times(term, d), -1);
  }
  return rest.empty() ? std::optional(toExpr(quotient)) : std::nullopt;
}

Expr upperBound(const Expr& index, const std::vector<Expr>& shape, const Ranges& dims) {
  return Bounds(shape, dims).of(index, true);
}
Expr lowerBound(const Expr& index, const std::vector<Expr>& shape, const Ranges& dims) {
  return Bounds(shape, dims).of(index, false);
}

bool nonNegative(const Expr& e, const Ranges& dims) {
  if (const auto value = asInteger(e)) return *value >= 0;
  return provenBy(polyOf(e), dims, 6);
}

bool inRange(const Expr& index, const Expr& extent, const std::vector<Expr>& shape,
             const Ranges& dims) {
  if (const Var* v = index.as<Var>())
    for (size_t i = 0; i < shape.size(); i++)
      if (v->name == coordinate(static_cast<int>(i))) {
        if (sameDim(shape[i], extent)) return true;
        break;
      }
  for (const Expr& e : shape)
    if (isConstant(e, 0)) return true;
  const Ranges present = nonEmpty(shape, dims);
  const Expr high = upperBound(index, shape, present), low = lowerBound(index, shape, present);
  for (const std::string& name : freeVars(high + low))  // a coordinate that no bound is known of
    for (size_t i = 0; i < shape.size(); i++)
      if (name == coordinate(static_cast<int>(i))) return false;
  return nonNegative(low, present) && nonNegative(extent - 1 - high, present);
}

}  // namespace tektite
