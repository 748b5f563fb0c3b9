#include "fusion/change.h"

#include <algorithm>

#include "support/overloaded.h"

namespace tektite {
namespace {

bool sameTerms(const std::vector<Change::Term>& a, const std::vector<Change::Term>& b) {
  return std::ranges::equal(a, b, [](const Change::Term& x, const Change::Term& y) {
    return x.carried == y.carried && x.index == y.index && x.k == y.k;
  });
}

class Algebra {
 public:
  explicit Algebra(const Carried& carried) : carried_(carried) {}

  const std::optional<Change>& change(const Expr& e) {
    if (const auto it = memo_.find(e.hash()); it != memo_.end()) return it->second;
    std::optional<Change> c =
        std::visit(overloaded{[](const Imm& i) -> std::optional<Change> {
                                return Change{{}, {}, i.real == 0 && i.integer == 0};
                              },
                              [](const Var&) -> std::optional<Change> { return Change{}; },
                              [&](const Load& l) { return ofLoad(l); },
                              [&](const Cast& x) { return fixed({x.arg}); },
                              [&](const Apply& a) { return ofApply(a); }},
                   e->kind);
    return memo_[e.hash()] = std::move(c);
  }

 private:
  const Carried& carried_;
  std::unordered_map<Hash, std::optional<Change>> memo_;

  std::optional<Change> fixed(const std::vector<Expr>& args) {
    for (const Expr& a : args)
      if (const auto& c = change(a); !c || !c->none()) return {};
    return Change{};
  }
  std::optional<Change> ofLoad(const Load& l) {
    return fixed(l.index) ? carried_.ofLoad(l) : std::nullopt;
  }
  std::optional<Change> ofApply(const Apply& a) {
    std::vector<Change> args;
    for (const Expr& e : a.args) {
      const auto& c = change(e);
      if (!c) return {};
      args.push_back(*c);
    }
    if (std::ranges::all_of(args, &Change::none)) {
      const bool zero = a.op == Op::Mul && (args[0].zero || args[1].zero);
      return Change{{}, {}, zero};
    }
    switch (a.op) {
      case Op::Exp: return ofExp(a.args[0], args[0]);
      case Op::Neg: return scaled(args[0], -1);
      case Op::Add:
      case Op::Sub: return ofSum(args[0], args[1], a.op == Op::Sub ? -1 : 1);
      case Op::Mul:
        if (args[0].shifts.empty() && args[1].shifts.empty()) {
          Change out{{}, args[0].scales, false};
          out.scales.insert(out.scales.end(), args[1].scales.begin(), args[1].scales.end());
          return by(Algebraic::Factor, std::move(out));
        }
        if (const Imm* k = a.args[1].as<Imm>()) return scaled(args[0], k->real);
        if (const Imm* k = a.args[0].as<Imm>()) return scaled(args[1], k->real);
        return {};
      case Op::Div:
        if (!args[1].none() || !args[0].shifts.empty()) return {};
        return by(Algebraic::Quotient, args[0]);
      case Op::Select: return args[0].none() ? either(args[1], args[2]) : std::nullopt;
      default: return {};
    }
  }
  Change by(Algebraic rule, Change c) const {
    carried_.used->insert(rule);
    return c;
  }
  /// Of exp(c (x - m)), c > 0, where m is the maximum of just these x: no argument is above 0 then, now or before.
  std::optional<Change> ofExp(const Expr& e, const Change& c) const {
    if (!c.scales.empty() || c.shifts.size() != 1 || c.shifts[0].k >= 0) return {};
    const Expr value = above(e, c.shifts[0]);
    if (!value || !carried_.isBelow(value, c.shifts[0])) return {};
    return by(Algebraic::Shift, Change{{}, c.shifts, false});
  }
  /// The x of c (x - m); null where the expression is another one.
  static Expr above(const Expr& e, const Change::Term& maximum) {
    const Apply* a = e.as<Apply>();
    if (!a || (a->op != Op::Sub && a->op != Op::Mul)) return {};
    const auto constant = [](const Expr& x) { return x.as<Imm>() ? x.as<Imm>()->real : 0; };
    if (a->op == Op::Mul) {
      const int by = constant(a->args[1]) > 0 ? 1 : 0;
      return constant(a->args[by]) > 0 ? above(a->args[1 - by], maximum) : Expr();
    }
    const auto isMaximum = [&](const Expr& x) {
      const Load* l = x.as<Load>();
      return l && l->buffer == maximum.carried && l->index == maximum.index;
    };
    if (isMaximum(a->args[1])) return a->args[0];
    const Apply *x = a->args[0].as<Apply>(), *m = a->args[1].as<Apply>();  // c x - c m
    if (!x || !m || x->op != Op::Mul || m->op != Op::Mul) return {};
    const bool scaled = constant(x->args[1]) > 0 && x->args[1] == m->args[1];
    return scaled && isMaximum(m->args[0]) ? x->args[0] : Expr();
  }
  static std::optional<Change> scaled(Change c, double k) {
    for (Change::Term& t : c.shifts) t.k *= k;
    return c;
  }
  std::optional<Change> ofSum(const Change& a, const Change& b, double sign) const {
    if (a.scales.empty() && b.scales.empty()) {
      Change out = a;
      for (Change::Term t : b.shifts) t.k *= sign, out.shifts.push_back(std::move(t));
      return out;
    }
    return either(a, b);
  }
  /// Two values that change by the same factor.
  std::optional<Change> either(const Change& a, const Change& b) const {
    if (!a.shifts.empty() || !b.shifts.empty()) return {};
    if (!a.zero && !b.zero && !sameTerms(a.scales, b.scales)) return {};
    return by(Algebraic::SameFactor, a.zero ? b : a);
  }
};

}  // namespace

std::optional<Change> changeOf(const Expr& e, const Carried& carried) {
  return Algebra(carried).change(e);
}

}  // namespace tektite
