#include "fusion/vector_work.h"

#include <algorithm>
#include <span>

namespace tektite {

VectorWork VectorStores::of(const std::string& buffer, const Expr& value, bool combines) {
  VectorWork work;
  const auto go = [&](const Expr& e, const auto& self) -> void {
    const Cast* c = e.as<Cast>();
    const Apply* a = e.as<Apply>();
    if ((!c && !a) || known_.contains(e.hash())) return;
    const std::span<const Expr> args = c ? std::span(&c->arg, 1) : std::span(a->args);
    if (args[0].type() == DType::I64 || (a && e.type() == DType::I64)) return;
    known_.insert(e.hash());
    int width = bytes(e.type());
    for (const Expr& x : args) width = std::max(width, bytes(x.type()));
    const double slots = c ? 1 : info(a->op).slots;
    work.slots += slots;
    work.bytes += slots * width;
    for (const Expr& x : args) self(x, self);
  };
  go(value, go);
  if (combines || work.slots < 1) work.slots++, work.bytes += bytes(value.type());
  for (const Expr& l : loadsOf(value)) loaded_.insert(l.as<Load>()->buffer);
  if (loaded_.contains(buffer)) known_.clear(), loaded_.clear();
  return work;
}

}  // namespace tektite
