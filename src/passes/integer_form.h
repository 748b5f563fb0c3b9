#pragma once
#include <optional>

#include "ir/graph.h"

namespace tektite {

/// A value as scale * (raw - zero), raw an 8-bit integer at each of its elements. A scale that is not there is 1, a zero point 0. What
/// views fill with zeros is the zero point in raw.
struct IntegerForm {
  Value raw;
  Value zero;   ///< i32, of the value's rank, extents equal or 1
  Value scale;  ///< likewise, of the value's type
};
/// Through conversions, shifts, scales and views; `want`: the type that raw shall have (u8 or i8), what is of the other one is shifted by
/// 128. Adds nodes to the graph, also where it answers nothing: dead ones.
std::optional<IntegerForm> integerForm(Graph&, Value, DType want);

/// Nodes for integer arithmetic on operands whose extents are equal or 1; constants are folded.
Value mapOf(Graph&, const Expr& body, const std::vector<Value>& operands);
Value splatOf(Graph&, DType, int64_t value, int rank);
/// The element of a splat of integers.
std::optional<int64_t> splatValue(const Graph&, Value);

}  // namespace tektite
