#include "schedule/slide.h"

#include <numeric>

#include "schedule/layout.h"

namespace tektite {
namespace {

constexpr int64_t kMostTaps = 9;  // that are written out

/// Steps in memory along rows and taps, without what they have in common, if every load has the same.
std::optional<std::pair<int64_t, int64_t>> stepsOf(const GroupPlan& plan, const Expr& factor,
                                                   const std::string& row, const std::string& tap) {
  std::optional<std::pair<int64_t, int64_t>> out;
  for (const Expr& e : loadsOf(factor)) {
    const Load& l = *e.as<Load>();
    const int64_t a = strideAlong(plan.buffer(l.buffer), l.index, row).value_or(0),
                  b = strideAlong(plan.buffer(l.buffer), l.index, tap).value_or(0);
    if (a <= 0 || b <= 0) return std::nullopt;
    const std::pair<int64_t, int64_t> steps = {a / std::gcd(a, b), b / std::gcd(a, b)};
    if (out && *out != steps) return std::nullopt;
    out = steps;
  }
  return out;
}

}  // namespace

std::optional<Slide> slideAlong(const GroupPlan& plan, const Stage& stage, int rows) {
  if (!stage.contraction || stage.accumulators.size() != 1 || keepsOrder(plan, stage) ||
      !stage.inner.empty())
    return std::nullopt;
  const Apply* product = stage.accumulators[0].values[0].as<Apply>();
  if (!product || product->op != Op::Mul) return std::nullopt;
  const std::string& row = stage.axes[static_cast<size_t>(rows)].var;
  const bool first = mentions({product->args[0]}, row);
  const Expr &moves = product->args[first ? 0 : 1], &stays = product->args[first ? 1 : 0];
  if (mentions({stays}, row)) return std::nullopt;
  for (size_t i = 0; i < stage.axes.size(); i++) {
    const StageAxis& tap = stage.axes[i];
    const int64_t taps = sizeOf(tap);
    if (!tap.reduce || taps < 2 || taps > kMostTaps || tap.region.size != tap.extent ||
        !isConstant(tap.region.base, 0))
      continue;
    const auto steps = stepsOf(plan, moves, row, tap.var);
    if (!steps || steps->first >= taps) continue;
    const Expr again = substitute(moves, {{row, var(row) + Expr(steps->second)},
                                          {tap.var, var(tap.var) - Expr(steps->first)}});
    if (simplify(again, {}) == simplify(moves, {}))
      return Slide{static_cast<int>(i), taps, steps->first, steps->second};
  }
  return std::nullopt;
}

}  // namespace tektite
