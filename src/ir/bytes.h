#pragma once
#include "ir/graph.h"

namespace tektite {

/// Of a static type's elements in memory.
inline int64_t bytesOf(const TensorType& t) { return t.elements() * bytes(t.dtype); }

}  // namespace tektite
