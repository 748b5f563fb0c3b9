#pragma once
#include "fusion/plan.h"
#include "lower/lower.h"
#include "runtime/array.h"

namespace tektite {

/// The elements of a packed constant, from the source's row-major elements. Blocks of elements are evaluated at once, on `threads`.
Memory packConstant(const PackedConstant&, const TensorType& sourceType, const void* source,
                    int threads);
/// A constant's elements, row-major: where it lies, or (a splat) written to `made`.
const void* constantData(const Const&, const TensorType&, Memory& made);

}  // namespace tektite
