#include "fusion/streaming_rules.h"

#include <algorithm>

namespace tektite {

const std::vector<StreamingRule>& streamingRules() {
  static const std::vector<StreamingRule> rules = {
      {Algebraic::Carry, Numerics::Ordered, "carry",
       "a reduction over the axis joins what it has with each piece's own",
       "values that nothing carried changes, or a sum of values that all change by one factor; no "
       "value along the axis that changes is a result"},
      {Algebraic::Shift, Numerics::Ordered, "shift",
       "exp(c (x - m)), m the maximum of x so far, changes by the factor exp(c (before - now))",
       "c > 0 and just the x that m is the maximum of: no argument is above 0, so nothing "
       "overflows"},
      {Algebraic::Factor, Numerics::Ordered, "factor",
       "a product changes by the factors of both sides, and a sum of such values with them",
       "a factor that is the same for all that is summed"},
      {Algebraic::SameFactor, Numerics::Ordered, "same-factor",
       "sums, differences and choices of values that change by one factor change by it",
       "the same factor on both sides, or 0; a choice by what doesn't change"},
      {Algebraic::Quotient, Numerics::Ordered, "quotient", "a / b changes by the factor of a",
       "b doesn't change"},
      {Algebraic::Mean, Numerics::Ordered, "mean",
       "a sum of (x - m)(x - m), m the mean of x so far, grows by (before - now)^2 for each "
       "element "
       "so far (Welford)",
       "m is the sum of just this x over the same axes, by their number; read nowhere else on the "
       "way"},
      {Algebraic::Defer, Numerics::Ordered, "defer", "sum f x = f sum x, sum x / f = (sum x) / f",
       "floats; an f that doesn't move along the summed axes; the product is read as a factor of "
       "sums only"},
  };
  return rules;
}

bool allowed(const RulesUsed& used, Numerics mode) {
  return std::ranges::all_of(streamingRules(), [&](const StreamingRule& r) {
    return !used.count(r.rule) || r.mode <= mode;
  });
}

}  // namespace tektite
