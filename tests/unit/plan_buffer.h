#pragma once
#include "fusion/plan.h"

namespace tektite {

/// A buffer of f32 elements of a plan that a test writes.
inline PlanBuffer planBuffer(PlanBuffer::Kind kind, std::string name, std::vector<Expr> shape,
                             std::vector<int> order = {}) {
  PlanBuffer b;
  b.kind = kind;
  b.name = std::move(name);
  b.type = {DType::F32, std::move(shape)};
  b.order = std::move(order);
  return b;
}

}  // namespace tektite
