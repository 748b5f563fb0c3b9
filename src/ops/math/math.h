#pragma once
#include "ir/expr.h"

namespace tektite {

/// Expands every transcendental that targets lack (exp log erf tanh sigmoid sin cos pow ...; f16 and bf16 through f32, f64 by
/// its own forms or left alone) into arithmetic, bits, frombits, fma and select. Errors in ulp: docs/math.md, held by tests.
/// `fast`: cheaper forms.
Expr expandMath(const Expr&, bool fast);
/// Ops that stay calls (libm) after expansion, for backends that can: none for f32.

}  // namespace tektite
