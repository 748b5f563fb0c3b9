#pragma once
#include <string>

#include "support/check.h"

namespace tektite {

/// A kernel breaks a rule of docs/kernels.md: K1 to K13. Found by the verifier (before any run) or by the interpreter (in one).
struct KernelFault : InternalError {
  int rule;
  KernelFault(int rule, const std::string& place, const std::string& what)
      : InternalError(fmt::format("K{}: {}: {}", rule, place, what)), rule(rule) {}
};

}  // namespace tektite
