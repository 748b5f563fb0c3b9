#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fusion/streaming_rules.h"
#include "ir/expr.h"

namespace tektite {

/// How a value changes when carried maxima do, from `before` to `now`: by the factor exp(k (now - before)) for every term of
/// `scales`, or by k (now - before), added, for every term of `shifts`. None of either: not at all.
struct Change {
  struct Term {
    std::string carried;      ///< the maximum's buffer
    std::vector<Expr> index;  ///< where it is read
    double k;
  };
  std::vector<Term> shifts, scales;
  bool zero = false;  ///< the value is 0: any factor will do
  bool none() const { return shifts.empty() && scales.empty(); }
};

/// What changeOf asks about.
struct Carried {
  std::function<std::optional<Change>(const Load&)> ofLoad;  ///< how a loaded element changes
  /// Is this value one of those that the maximum is of?
  std::function<bool(const Expr& value, const Change::Term& maximum)> isBelow;
  RulesUsed* used;
};
/// The rules of the algebra (streaming_rules.cpp), from loads upwards. Nothing: it changes otherwise than a Change can say.
std::optional<Change> changeOf(const Expr&, const Carried&);

}  // namespace tektite
