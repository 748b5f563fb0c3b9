#include "schedule/tile_loads.h"

#include <algorithm>

#include "ir/bytes.h"

namespace tektite {
namespace {

/// Do vectors along the axis begin anywhere in a line?
bool isAskew(const StageAccess& a, const Stage& stage, const StageAxis& lanes, int64_t vector) {
  if (strideAlong(*a.buffer, a.index, lanes.var) != 1) return false;
  return std::ranges::any_of(stage.axes, [&](const StageAxis& other) {
    return other.var != lanes.var &&
           strideAlong(*a.buffer, a.index, other.var).value_or(1) % vector != 0;
  });
}

/// What a tile reads along each dimension, the lanes' last; nothing where an index isn't affine.
std::vector<TileSpan> spansOf(const StageAccess& a, const Stage& stage, const StageAxis& lanes,
                              const StageAxis& rows) {
  std::vector<TileSpan> spans;
  for (const Expr& e : a.index) {
    TileSpan span{0, 0, 1};
    for (const auto& [term, coefficient] : linearOf(e).terms) {
      const Var* v = term.as<Var>();
      if (!v) return {};
      const int64_t step = std::abs(coefficient);
      if (v->name == lanes.var) span.lanes += step;
      if (v->name == rows.var) span.rows += step;
      for (const StageAxis& axis : stage.axes)
        if (axis.reduce && axis.var == v->name) span.rest += step * (sizeOf(axis) - 1);
    }
    spans.push_back(span);
  }
  std::ranges::stable_partition(spans, [](const TileSpan& s) { return s.lanes == 0; });
  return spans;
}

/// Does it go by again for each place along another axis?
bool goesByAgain(const StageAccess& a, const Stage& stage) {
  return std::ranges::any_of(stage.axes, [&](const StageAxis& axis) {
    return !axis.reduce && sizeOf(axis) > 1 && !mentions(a.index, axis.var);
  });
}

}  // namespace

std::vector<TileLoad> loadsAlong(const std::vector<StageAccess>& accesses, const Stage& stage,
                                 const StageAxis& lanes, const StageAxis* rows,
                                 const std::vector<std::string>& packed, int width,
                                 const Target& target) {
  const Level* near = target.level("l1");
  std::vector<TileLoad> out;
  for (const StageAccess& a : accesses) {
    if (!a.reduced || a.isStore) continue;
    const bool direct = !std::ranges::count(packed, a.buffer->name);
    TileLoad load{mentions(a.index, lanes.var),
                  rows && mentions(a.index, rows->var),
                  direct && isAskew(a, stage, lanes, width),
                  bytes(a.buffer->type.dtype),
                  {}};
    if (near && direct && load.alongRows && goesByAgain(a, stage) &&
        strideAlong(*a.buffer, a.index, lanes.var) == 1) {
      load.spans = spansOf(a, stage, lanes, *rows);
      if (load.lines(width, sizeOf(*rows)) * kLineBytes <= static_cast<double>(near->bytes) / 2)
        load.spans.clear();
    }
    out.push_back(std::move(load));
  }
  return out;
}

}  // namespace tektite
