#pragma once
#include <optional>
#include <set>
#include <string>

#include "fusion/axis_walk.h"

namespace tektite {

/// Two stages of a walk: one that reduces, one that reads what it made.
struct Pair {
  size_t from, to;
  const AxisWalk& walk;
};
/// Is `value`, of stage `to`, one of those that stage `from` reduces (`values`, stored at `stored`) to what `to` reads at `read`? The axes
/// of `to` that stand for axes that `from` reduces; nothing where it is another value.
std::optional<std::set<std::string>> reducedAxes(const Pair&, const Expr& values,
                                                 const std::vector<Expr>& stored,
                                                 const std::vector<Expr>& read, const Expr& value);

}  // namespace tektite
