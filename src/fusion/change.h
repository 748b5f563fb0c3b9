#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

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

/// The rules of the algebra, from loads upwards; `ofLoad` says how a loaded element changes. Nothing: otherwise than a Change can say.
/// exp(a) turns a shift into a factor, only where the maximum is subtracted (its argument stays at most 0); sums keep shifts, and a
/// factor that both sides have; products collect factors; quotients and choices keep those of what doesn't decide.
std::optional<Change> changeOf(const Expr&,
                               const std::function<std::optional<Change>(const Load&)>& ofLoad);

}  // namespace tektite
