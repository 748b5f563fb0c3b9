#include "ir/conjuncts.h"

namespace tektite {

std::vector<Expr> conjuncts(const Expr& e) {
  if (!e) return {};
  const Apply* a = e.as<Apply>();
  if (!a || a->op != Op::And) return {e};
  std::vector<Expr> out;
  for (const Expr& x : a->args)
    for (Expr& part : conjuncts(x)) out.push_back(std::move(part));
  return out;
}

}  // namespace tektite
