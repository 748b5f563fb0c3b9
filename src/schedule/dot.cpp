#include "schedule/dot.h"

#include <algorithm>

#include "ir/dot.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

constexpr double kPlainSteps = 2;  // of integers without the instruction: multiply, add

/// The load that is converted to the sum's type; null where a factor is anything else.
const Load* factorOf(const Expr& e) {
  const Cast* c = e.as<Cast>();
  return c ? c->arg.as<Load>() : nullptr;
}

/// Elements that are neighbours along the axis are so in memory, and in whole groups.
bool liesInGroups(const PlanBuffer& b, const Load& l, const StageAxis& axis, int group) {
  if (strideAlong(b, l.index, axis.var) != 1 || axis.extent % group) return false;
  return std::ranges::count_if(l.index, [&](const Expr& e) { return mentions({e}, axis.var); }) ==
         1;
}

}  // namespace

std::optional<DotChoice> dotAlong(const GroupPlan& plan, const Stage& stage, int vectorAxis,
                                  const Target& target) {
  const Accumulator& sum = stage.accumulators[0];
  const DType type = sum.combine.types[0];
  if (sum.combine.name != "sum" || (type != DType::I32 && type != DType::F32)) return std::nullopt;
  const Apply* product = sum.values[0].as<Apply>();
  if (!product || product->op != Op::Mul) return std::nullopt;
  const std::string& lanes = stage.axes[vectorAxis].var;
  const Load *row = factorOf(product->args[0]), *panel = factorOf(product->args[1]);
  if (!row || !panel || row->buffer == panel->buffer) return std::nullopt;
  if (mentions(row->index, lanes)) std::swap(row, panel);
  if (mentions(row->index, lanes) || !mentions(panel->index, lanes)) return std::nullopt;
  const PlanBuffer &rows = plan.buffer(row->buffer), &panels = plan.buffer(panel->buffer);
  DotChoice out{-1, 0, row->buffer, panel->buffer, false, 0};
  out.group = dotGroup(target, rows.type.dtype, panels.type.dtype);
  const bool floats = rows.type.dtype == DType::BF16;
  if (out.group < 2 || floats != (type == DType::F32)) return std::nullopt;
  double best = 0;
  for (int i = 0; i < static_cast<int>(stage.axes.size()); i++) {
    const StageAxis& a = stage.axes[i];
    const bool whole = a.region.size >= a.extent || a.region.size % out.group == 0;
    if (!a.reduce || !whole || !mentions(row->index, a.var) || !mentions(panel->index, a.var))
      continue;
    const bool direct = liesInGroups(rows, *row, a, out.group) &&
                        (out.group == 4 || floats || rows.kind == PlanBuffer::Constant);
    const auto n = static_cast<double>(a.extent);
    const double used = n / static_cast<double>((a.extent + out.group - 1) / out.group * out.group);
    const double worth = used * (direct ? 1 : 0.9) + 1e-3 * std::min(n, 64.0) / 64;
    if (worth <= best) continue;
    best = worth;
    out.axis = i;
    out.direct = direct;
    const double each = floats ? kPlainSteps : out.group == 2 ? 2.0 : 1.0;
    out.steps = each / (kPlainSteps * out.group * used);
  }
  return out.axis < 0 ? std::nullopt : std::optional(out);
}

}  // namespace tektite
