#pragma once
#include <functional>
#include <unordered_map>

#include "ir/facts.h"
#include "ir/kernel.h"
#include "support/hash.h"

namespace tektite {

/// The block with every function expanded into arithmetic; `fast`: by the shorter forms.
Block expandFunctions(const Block&, bool fast);

/// A condition as two that both hold: what is the same for all lanes, and the rest.
struct LaneCondition {
  Expr same, each;
};
LaneCondition splitByLanes(const Expr& condition, const std::function<bool(const Expr&)>& varies);

/// What a copy stores at a point of its axes: the element, or outside of a source of this type and shape the fill.
Expr copiedValue(const Copy&, DType type, const std::vector<Expr>& shape);

/// The buffers that an expression reads, a bit each. `known` keeps what was found.
uint64_t buffersRead(const Expr&, const std::function<uint64_t(const std::string&)>& bitOf,
                     std::unordered_map<Hash, uint64_t>& known);

}  // namespace tektite
