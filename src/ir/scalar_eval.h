#pragma once
#include <cstdint>
#include <span>

#include "ir/expr.h"

namespace tektite {

/// One application of an op whose arguments are integers or bool (select: the bool first) of type `type`
/// (select: the arms' type). The result is wrapped to the result type.
int64_t evalInteger(Op op, DType type, std::span<const int64_t> args);
/// One application on floats, in double, not rounded to the type. Comparisons and tests answer 0 or 1.
/// (bits, frombits need the type: use evalBits.)
double evalFloat(Op op, std::span<const double> args);
/// bits: the integer of the float's bits, rounded to `type` first. frombits: the float of those bits.
int64_t evalToBits(DType floatType, double value);
double evalFromBits(DType floatType, int64_t bits);

}  // namespace tektite
