#pragma once
#include <unordered_set>

#include "ir/expr.h"

namespace tektite {

/// Expands every transcendental that targets lack (exp log erf tanh sigmoid sin cos pow ...; f16 and bf16 through f32, f64 by
/// its own forms or left alone) into arithmetic, bits, frombits, fma and select. Errors in ulp: docs/math.md, held by tests.
/// `fast`: cheaper forms. Each op of an expansion is meant to be rounded to its own type: it tells nothing when evaluated in double.
/// After it f32, f16 and bf16 have no function left; f64 keeps them, for backends that can call libm. `made`: gets the applications of the
/// expansions, whose order and rounding are what makes them exact: no algebra may touch them.
Expr expandMath(const Expr&, bool fast, std::unordered_set<Hash>* made = nullptr);

}  // namespace tektite
