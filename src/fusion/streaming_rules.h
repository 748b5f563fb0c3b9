#pragma once
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

#include "ir/numerics.h"

namespace tektite {

/// The algebra that walks an axis piece by piece, rule by rule: what each says, what it needs, and the weakest mode that allows it. docs/streaming.md is this list; a test
/// holds the two equal, and every rule against the interpreter, where it applies and where what it needs is missing.
enum class Algebraic : uint8_t { Carry, Shift, Factor, SameFactor, Quotient, Mean, Defer };
struct StreamingRule {
  Algebraic rule;
  Numerics mode;
  std::string_view name, says, needs;
};
const std::vector<StreamingRule>& streamingRules();
using RulesUsed = std::set<Algebraic>;
/// Does the mode allow all of them?
bool allowed(const RulesUsed&, Numerics);

}  // namespace tektite
