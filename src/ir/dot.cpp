#include "ir/dot.h"

#include "support/check.h"

namespace tektite {
namespace {

constexpr std::string_view kBf16Products = "+avx512bf16";

Stmt loop(const char* v, int extent, LoopMode mode, Stmt inside) {
  return {For{v, Expr(extent), mode, {std::move(inside)}}, ""};
}
bool isSmall(DType t) { return t == DType::U8 || t == DType::I8; }

}  // namespace

IntrinDef declare(const Dot& d) {
  IntrinDef out;
  out.name = fmt::format("dot{}_{}_{}_x{}", d.group, name(d.row), name(d.panel), d.lanes);
  if (d.rowSpace != "main" || d.panelSpace != "main")
    out.name += fmt::format("_{}_{}", d.rowSpace, d.panelSpace);
  if (d.trailing) out.name += fmt::format("_{}", d.trailing);
  Buffer sum{"sum", d.sum(), {Expr(d.lanes)}, {}, "reg", 0, ""},
      row{"row", d.row, {Expr(d.group)}, {}, d.rowSpace, 0, ""},
      panel{"panel", d.panel, {Expr(d.lanes), Expr(d.group)}, {}, d.panelSpace, 0, ""};
  std::vector<Expr> at = {var("k")};
  for (int i = 0; i < d.trailing; i++) {
    row.shape.emplace_back(1);
    at.emplace_back(0);
  }
  out.params = {{Param::InOut, sum}, {Param::In, row}, {Param::In, panel}};
  out.isDim = {false, false, false};
  const Expr product = cast(d.sum(), load("row", d.row, at)) *
                       cast(d.sum(), load("panel", d.panel, {var("l"), var("k")}));
  Stmt add{Store{{{"sum", {var("l")}}}, "sum", {product}, false}, ""};
  out.body.push_back(
      loop("k", d.group, LoopMode::Unroll, loop("l", d.lanes, LoopMode::Vector, std::move(add))));
  return out;
}

std::optional<Dot> dotOf(const IntrinDef& def) {
  if (def.params.size() != 3 || !def.dims.empty()) return std::nullopt;
  const Buffer &row = def.params[1].buffer, &panel = def.params[2].buffer;
  if (row.shape.empty() || panel.shape.size() != 2) return std::nullopt;
  const auto group = asInteger(row.shape[0]), lanes = asInteger(panel.shape[0]);
  if (!group || !lanes) return std::nullopt;
  const Dot d{row.type,
              panel.type,
              static_cast<int>(*group),
              static_cast<int>(*lanes),
              row.space,
              panel.space,
              static_cast<int>(row.shape.size()) - 1};
  const auto text = [](const IntrinDef& i) { return toText(KernelModule{{}, {i}, {}}); };
  return text(declare(d)) == text(def) ? std::optional(d) : std::nullopt;
}

Target allowedTarget(Target target, Numerics numerics) {
  const size_t at = target.features.find(kBf16Products);
  if (at != std::string::npos && numerics != Numerics::Fast)
    target.features.erase(at, kBf16Products.size());
  return target;
}

int dotGroup(const Target& target, DType row, DType panel) {
  if (!target.triple.starts_with("x86_64")) return 0;
  if (row == DType::BF16 || panel == DType::BF16)
    return row == panel && target.features.find(kBf16Products) != std::string::npos ? 2 : 0;
  const bool vnni = target.features.find("+avx512vnni") != std::string::npos ||
                    target.features.find("+avxvnni") != std::string::npos;
  if (vnni && isSmall(row) && isSmall(panel) && row != panel) return 4;
  return (isSmall(row) || row == DType::I16) && isSmall(panel) ? 2 : 0;
}

}  // namespace tektite
