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
  explicit Algebra(const std::function<std::optional<Change>(const Load&)>& ofLoad)
      : ofLoad_(ofLoad) {}

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
  const std::function<std::optional<Change>(const Load&)>& ofLoad_;
  std::unordered_map<Hash, std::optional<Change>> memo_;

  std::optional<Change> fixed(const std::vector<Expr>& args) {
    for (const Expr& a : args)
      if (const auto& c = change(a); !c || !c->none()) return {};
    return Change{};
  }
  std::optional<Change> ofLoad(const Load& l) { return fixed(l.index) ? ofLoad_(l) : std::nullopt; }
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
      case Op::Exp: return ofExp(args[0]);
      case Op::Neg: return scaled(args[0], -1);
      case Op::Add:
      case Op::Sub: return ofSum(args[0], args[1], a.op == Op::Sub ? -1 : 1);
      case Op::Mul:
        if (args[0].shifts.empty() && args[1].shifts.empty()) {
          Change out{{}, args[0].scales, false};
          out.scales.insert(out.scales.end(), args[1].scales.begin(), args[1].scales.end());
          return out;
        }
        if (const Imm* k = a.args[1].as<Imm>()) return scaled(args[0], k->real);
        if (const Imm* k = a.args[0].as<Imm>()) return scaled(args[1], k->real);
        return {};
      case Op::Div:
        return args[1].none() && args[0].shifts.empty() ? std::optional(args[0]) : std::nullopt;
      case Op::Select: return args[0].none() ? either(args[1], args[2]) : std::nullopt;
      default: return {};
    }
  }
  /// Of exp(x - m) only where m is subtracted: its argument stays at most 0 then.
  static std::optional<Change> ofExp(const Change& c) {
    if (!c.scales.empty() || std::ranges::any_of(c.shifts, [](const auto& t) { return t.k >= 0; }))
      return {};
    return Change{{}, c.shifts, false};
  }
  static std::optional<Change> scaled(Change c, double k) {
    for (Change::Term& t : c.shifts) t.k *= k;
    return c;
  }
  static std::optional<Change> ofSum(const Change& a, const Change& b, double sign) {
    if (a.scales.empty() && b.scales.empty()) {
      Change out = a;
      for (Change::Term t : b.shifts) t.k *= sign, out.shifts.push_back(std::move(t));
      return out;
    }
    return either(a, b);
  }
  /// Two values that change by the same factor.
  static std::optional<Change> either(const Change& a, const Change& b) {
    if (!a.shifts.empty() || !b.shifts.empty()) return {};
    if (a.zero) return b;
    if (b.zero || sameTerms(a.scales, b.scales)) return a;
    return {};
  }
};

}  // namespace

std::optional<Change> changeOf(const Expr& e,
                               const std::function<std::optional<Change>(const Load&)>& ofLoad) {
  return Algebra(ofLoad).change(e);
}

}  // namespace tektite
