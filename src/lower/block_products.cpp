#include "lower/block_products.h"

#include <algorithm>
#include <optional>

#include "fusion/stages.h"
#include "schedule/layout.h"
#include "schedule/panels.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kDepthUnit = 16;

struct Product {
  size_t stage, columns, depth;  // its axes along the lanes, and the one that is reduced
  Expr operand;                  // what differs along the lanes
  int64_t rows;
};

std::optional<size_t> onlyProduct(const TileList& list) {
  std::optional<size_t> found;
  for (size_t k = 0; k < list.stages.size(); k++) {
    const Stage& s = list.stages[k];
    if (s.after) return {};
    if (!s.contraction) continue;
    if (found || s.depth != static_cast<int>(list.tiles.size())) return {};
    found = k;
  }
  return found;
}

/// A product of two operands that are data, over one axis, whose results lie along an axis of one of them.
std::optional<Product> productIn(const GroupPlan& plan, const TileList& list, size_t at) {
  const Stage& s = list.stages[at];
  if (s.accumulators.size() != 1 || !s.inner.empty() || s.outer.empty() ||
      s.accumulators[0].combine.types[0] != DType::F32)
    return {};
  Product p{at, s.axes.size(), s.axes.size(), {}, 1};
  for (size_t a = 0; a < s.axes.size(); a++) {
    if (s.axes[a].reduce) {
      if (p.depth < s.axes.size()) return {};
      p.depth = a;
    } else if (strideAlong(plan.buffer(s.outer[0].buffer), s.outer[0].index, s.axes[a].var) == 1) {
      p.columns = a;
    } else {
      p.rows *= sizeOf(s.axes[a]);
    }
  }
  if (p.depth == s.axes.size() || p.columns == s.axes.size()) return {};
  for (const Expr& e : loadsOf(s.accumulators[0].values[0])) {
    const Load& l = *e.as<Load>();
    if (plan.buffer(l.buffer).kind == PlanBuffer::Constant) return {};
    if (!mentions(l.index, s.axes[p.columns].var)) continue;
    if (p.operand || plan.buffer(l.buffer).kind != PlanBuffer::Input ||
        !mentions(l.index, s.axes[p.depth].var))
      return {};
    for (size_t a = 0; a < s.axes.size(); a++)
      if (a != p.columns && a != p.depth && mentions(l.index, s.axes[a].var) &&
          s.axes[a].region.size > 1)
        return {};
    p.operand = e;
  }
  return p.operand ? std::optional(p) : std::nullopt;
}

/// Cuts an axis of the stage by a new innermost tile loop; the stage moves inside.
void cut(TileList& list, Stage& s, size_t axis, const char* name, int64_t size) {
  Region& r = s.axes[axis].region;
  list.tiles.push_back({name, sizeOf(s.axes[axis]), size, false});
  r = {r.base + var(name) * Expr(size), size};
  s.depth++;
}

/// What the stage's tile does after it, it does after the tile loops that are about to be put around the stage.
void whatFollowsWaits(TileList& list, size_t stage) {
  for (size_t k = stage + 1; k < list.stages.size(); k++)
    list.stages[k].after = list.stages[k].depth == list.stages[stage].depth;
}

/// How a product is cut: elements of its axes at a time, the whole axis where it isn't cut.
struct Cuts {
  int64_t columns, depth, rows;
  size_t rowAxis;
};

/// The largest size up to `most` that may cut an axis: parts of a tile end where the tile does.
int64_t partOf(const StageAxis& a, int64_t most, int64_t unit) {
  int64_t n = std::max(most / unit, int64_t{1}) * unit;
  if (n >= sizeOf(a)) return sizeOf(a);
  if (a.region.size < a.extent)
    while (n > unit && a.region.size % n) n -= unit;
  return a.region.size >= a.extent || a.region.size % n == 0 ? n : 0;
}

/// Panels take at most half of what the near cache has left, partial results the other half.
std::optional<Cuts> cutsOf(const Product& p, const Stage& s, int64_t left, const Target& target) {
  const StageAxis &columns = s.axes[p.columns], &deep = s.axes[p.depth];
  const int64_t element = bytes(p.operand.type()), depth = sizeOf(deep),
                room = std::min(roomForPanels(target), left / 2) / element;
  if (room < kPanelColumns * kDepthUnit) return {};
  Cuts out{sizeOf(columns), depth, p.rows, s.axes.size()};
  int64_t pieces = (depth * kPanelColumns + room - 1) / room;
  out.depth = std::min(depth, (depth / pieces + kDepthUnit) / kDepthUnit * kDepthUnit);
  if (out.depth * kPanelColumns > room) out.depth -= kDepthUnit;
  pieces = (depth + out.depth - 1) / out.depth;
  if (out.columns * out.depth > room)  // few at a time: the rows that go by want their place too
    out.columns = partOf(columns, kPanelColumns, kPanelColumns);
  if (!out.columns) return {};
  const int64_t most = left / 2 / (pieces * out.columns * bytes(DType::F32));
  if (pieces == 1 || p.rows <= most) return out;
  for (size_t a = 0; a < s.axes.size(); a++)
    if (a != p.columns && a != p.depth &&
        (out.rowAxis == s.axes.size() || sizeOf(s.axes[a]) > sizeOf(s.axes[out.rowAxis])))
      out.rowAxis = a;
  const int64_t others = p.rows / sizeOf(s.axes[out.rowAxis]);
  out.rows = partOf(s.axes[out.rowAxis], most / others, 1);
  if (out.rows * others < kPanelRows) return {};
  return out;
}

/// Bytes of scratch that a list's stages have already.
int64_t heldBy(const GroupPlan& plan, const TileList& list) {
  int64_t n = 0;
  for (const std::string& name : buffersOf(list.stages))
    if (const PlanBuffer& b = plan.buffer(name); b.kind == PlanBuffer::Scratch) n += memoryBytes(b);
  return n;
}

/// How the rows of a product with constants are cut: so many elements of an axis at a time.
struct Rows {
  size_t axis;
  int64_t size;
};

/// A dimension of one axis at most: what the index touches is a block.
bool isBlock(const Stage& s, const std::vector<Expr>& index) {
  return std::ranges::all_of(index, [&](const Expr& e) {
    return std::ranges::count_if(s.axes, [&](const StageAxis& a) {
             return mentions({e}, a.var) && sizeOf(a) > 1;
           }) <= 1;
  });
}

/// Rows that stay in the near cache while the panels of a constant go by, where that moves less than rows that go by for each panel.
std::optional<Rows> rowsOf(const GroupPlan& plan, const Stage& s, int64_t left,
                           const Target& target) {
  const StageAccess *data = nullptr, *constant = nullptr;
  const auto accesses = accessesOf(plan, s);
  for (const StageAccess& a : accesses) {
    if (!a.reduced || a.isStore) continue;
    const StageAccess*& is = a.buffer->kind == PlanBuffer::Constant ? constant : data;
    if (is || !isBlock(s, a.index)) return {};
    is = &a;
  }
  if (!data || !constant || data->buffer->kind != PlanBuffer::Input) return {};
  const auto touched = [&](const StageAccess& a) {
    return touchedBytes(s, a.index, bytes(a.buffer->type.dtype));
  };
  const int64_t near = std::min(roomForPanels(target), left / 2), rows = touched(*data),
                panels = touched(*constant);
  int64_t columns = 1;
  Rows out{s.axes.size(), 0};
  for (size_t a = 0; a < s.axes.size(); a++) {
    if (s.axes[a].reduce) continue;
    const bool inRows = mentions(data->index, s.axes[a].var),
               inColumns = mentions(constant->index, s.axes[a].var);
    if (inColumns && !inRows) columns *= sizeOf(s.axes[a]);
    if (inRows && !inColumns &&
        (out.axis == s.axes.size() || sizeOf(s.axes[a]) > sizeOf(s.axes[out.axis])))
      out.axis = a;
  }
  if (near <= 0 || rows <= near || out.axis == s.axes.size()) return {};
  const StageAxis& axis = s.axes[out.axis];
  const int64_t strips = (rows + near - 1) / near,
                passes = (columns + kPanelColumns - 1) / kPanelColumns;
  if (panels * (panels > near ? strips - 1 : 0) * 4 >= rows * (passes - 1) * 3) return {};
  out.size = partOf(axis, (sizeOf(axis) + strips - 1) / strips, 1);
  return out.size && out.size < sizeOf(axis) ? std::optional(out) : std::nullopt;
}

}  // namespace

void blockProducts(GroupPlan& plan, TileList& list, const Target& target) {
  const Level* near = target.level("l2");
  if (target.kind != "cpu" || !near || list.sync >= 0 || plan.canonical) return;
  const auto at = onlyProduct(list);
  if (!at) return;
  const int64_t left = near->bytes - heldBy(plan, list);
  if (const auto rows = rowsOf(plan, list.stages[*at], left, target)) {
    whatFollowsWaits(list, *at);
    return cut(list, list.stages[*at], rows->axis, "rows", rows->size);
  }
  const auto p = productIn(plan, list, *at);
  if (!p || p->rows < kPanelRows) return;
  Stage& s = list.stages[p->stage];
  const Load& operand = *p->operand.as<Load>();
  const StageAxis columns = s.axes[p->columns], deep = s.axes[p->depth];
  if (!isConstant(deep.region.base, 0) || sizeOf(columns) < kPanelColumns ||
      !wantsPanels(plan.buffer(operand.buffer), operand.index, s, columns, target))
    return;
  const auto cuts = cutsOf(*p, s, left, target);
  if (!cuts || (cuts->columns >= sizeOf(columns) && cuts->depth >= sizeOf(deep))) return;
  whatFollowsWaits(list, p->stage);
  if (cuts->columns < sizeOf(columns)) cut(list, s, p->columns, "strip", cuts->columns);
  if (cuts->depth >= sizeOf(deep)) return;
  if (cuts->rowAxis < s.axes.size() && cuts->rows < sizeOf(s.axes[cuts->rowAxis]))
    cut(list, s, cuts->rowAxis, "rows", cuts->rows);
  cut(list, s, p->depth, "deep", cuts->depth);
  splitPartials(plan, list, static_cast<int>(p->stage), true);
}

void splitPartials(GroupPlan& plan, TileList& list, int at, bool inside) {
  Stage& partial = list.stages[at];
  const TileAxis& tile = list.tiles.back();
  Stage final;
  final.comment = partial.comment;
  final.depth = partial.depth - (inside ? 1 : 0);
  final.after = inside;
  std::vector<Expr> place = {var(tile.var)}, read = {var("part")};
  std::vector<Expr> shape = {tile.count()};
  std::vector<Region> region = {{Expr(0), tile.count()}};
  for (const StageAxis& a : partial.axes) {
    if (a.reduce) continue;
    final.axes.push_back(a);
    place.push_back(var(a.var));
    read.push_back(var(a.var));
    shape.push_back(a.extent);
    region.push_back(inside ? a.region : Region{Expr(0), a.extent});
  }
  final.axes.push_back({"part", tile.count(), true, {Expr(0), tile.count()}});
  final.outer = std::move(partial.outer);
  partial.outer.clear();
  for (Accumulator& a : partial.accumulators) {
    Accumulator joined{a.combine, {}, a.names};
    for (size_t c = 0; c < a.names.size(); c++) {
      PlanBuffer b;
      b.kind = PlanBuffer::Scratch;
      b.name = "part_" + a.names[c];
      b.type = {a.combine.types[c], shape};
      b.space = inside ? "l2" : "main";
      if (inside) b.depth = final.depth;
      b.region = region;
      joined.values.push_back(load(b.name, a.combine.types[c], read));
      partial.outer.push_back({b.name, place, var(a.names[c], a.combine.types[c]), "", {}});
      plan.buffers.push_back(std::move(b));
    }
    final.accumulators.push_back(std::move(joined));
  }
  list.stages.insert(list.stages.begin() + at + 1, std::move(final));
}

}  // namespace tektite
