#pragma once
#include <string>

#include "ir/combine.h"
#include "support/lexer.h"

namespace tektite {

/// `combine f(m: f32; n: f32) = max(m, n) identity -inf`: the one form in graph and kernel texts. Errors are UserErrors.
Combine parseCombine(Lexer&);
std::string toText(const Combine&);  ///< with its line end

}  // namespace tektite
