#include "ops/math/math.h"

#include <mutex>

#include "ops/math/script.h"

namespace tektite {
namespace {

std::unordered_map<Op, const MathDef*>& registry() {
  static std::unordered_map<Op, const MathDef*> map;
  return map;
}

Expr expandNode(const Expr& e, bool fast);

/// The expansion over the variables x and y, itself without functions. Built once.
Expr templateOf(const MathDef& def, bool fast) {
  static std::recursive_mutex lock;
  static std::unordered_map<const MathDef*, Expr> done[2];
  const std::scoped_lock held(lock);
  Expr& slot = done[fast][&def];
  if (!slot) {
    const std::string_view text = fast && !def.fast.empty() ? def.fast : def.exact;
    const Expr e = parseScript(text, {{"x", DType::F32}, {"y", DType::F32}}, DType::F32);
    const Expr whole = rewrite(e, [&](const Expr& node) { return expandNode(node, fast); });
    return done[fast][&def] = whole;  // `slot` may have moved meanwhile
  }
  return slot;
}

Expr expandNode(const Expr& e, bool fast) {
  const Apply* a = e.as<Apply>();
  if (!a || !isFloat(e.type()) || e.type() == DType::F64) return {};
  const auto it = registry().find(a->op);
  if (it == registry().end()) return {};
  std::unordered_map<std::string, Expr> operands{{"x", cast(DType::F32, a->args[0])}};
  if (a->args.size() > 1) operands["y"] = cast(DType::F32, a->args[1]);
  return cast(e.type(), substitute(templateOf(*it->second, fast), operands));
}

}  // namespace

MathDef::MathDef(Op op, std::string_view exact, std::string_view fast) : op(op), exact(exact), fast(fast) {
  registry()[op] = this;
}

Expr expandMath(const Expr& e, bool fast) {
  return rewrite(e, [&](const Expr& node) { return expandNode(node, fast); });
}

}  // namespace tektite
