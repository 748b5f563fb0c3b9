#include "ops/math/math.h"

#include <cmath>
#include <mutex>

#include "ops/math/script.h"

namespace tektite {
namespace {

std::unordered_map<Op, const MathDef*>& registry() {
  static std::unordered_map<Op, const MathDef*> map;
  return map;
}

/// The expansion over the variables x and y, itself without functions. Built once.
Expr templateOf(const MathDef& def, bool fast) {
  static std::recursive_mutex lock;
  static std::unordered_map<const MathDef*, Expr> done[2];
  const std::scoped_lock held(lock);
  if (const auto it = done[fast].find(&def); it != done[fast].end()) return it->second;
  const std::string_view text = fast && !def.fast.empty() ? def.fast : def.exact;
  const Expr e = parseScript(text, {{"x", DType::F32}, {"y", DType::F32}}, DType::F32);
  return done[fast][&def] = expandMath(e, fast);  // scripts call other functions
}

/// Powers with an exponent that says more: whole ones up to 4 and square roots. Each is within 2 ulp, and right on special values.
Expr simplePower(const Expr& x, const Expr& exponent) {
  const Imm* c = exponent.as<Imm>();
  const double y = c ? c->real : 0;
  const Expr one = imm(x.type(), 1), inf = imm(x.type(), INFINITY);
  if (!c) return {};
  if (y == 0) return one;
  if (y == 1) return x;
  if (y == 2) return x * x;
  if (y == 3) return x * x * x;
  if (y == 4) return (x * x) * (x * x);
  if (y == -1) return one / x;
  if (y == -2) return (one / x) * (one / x);
  if (y == 0.5)
    return select(eq(x, imm(x.type(), -INFINITY)), inf, apply(Op::Sqrt, {x + imm(x.type(), 0)}));
  return {};
}

/// The applications of an expansion, down to what it is applied to.
void collect(const Expr& e, const std::unordered_set<Hash>& operands,
             std::unordered_set<Hash>& made) {
  if (operands.count(e.hash())) return;
  if (const Cast* c = e.as<Cast>()) collect(c->arg, operands, made);
  const Apply* a = e.as<Apply>();
  if (!a || !made.insert(e.hash()).second) return;
  for (const Expr& x : a->args) collect(x, operands, made);
}

Expr expandNode(const Expr& e, bool fast, std::unordered_set<Hash>* made) {
  const Apply* a = e.as<Apply>();
  if (!a || !isFloat(e.type())) return {};
  if (a->op == Op::Pow)
    if (Expr power = simplePower(a->args[0], a->args[1])) return power;
  if (e.type() == DType::F64) return {};
  const auto it = registry().find(a->op);
  if (it == registry().end()) return {};
  std::unordered_map<std::string, Expr> operands{{"x", cast(DType::F32, a->args[0])}};
  if (a->args.size() > 1) operands["y"] = cast(DType::F32, a->args[1]);
  const Expr out = cast(e.type(), substitute(templateOf(*it->second, fast), operands));
  if (made) {
    std::unordered_set<Hash> stop;
    for (const auto& [name, operand] : operands) stop.insert(operand.hash());
    collect(out, stop, *made);
  }
  return out;
}

}  // namespace

MathDef::MathDef(Op op, std::string exact, std::string fast)
    : op(op), exact(std::move(exact)), fast(std::move(fast)) {
  registry()[op] = this;
}

Expr expandMath(const Expr& e, bool fast, std::unordered_set<Hash>* made) {
  return rewrite(e, [&](const Expr& node) { return expandNode(node, fast, made); });
}

}  // namespace tektite
