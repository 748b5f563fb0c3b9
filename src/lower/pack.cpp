#include "lower/pack.h"

#include <algorithm>

#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

/// A window's taps: a reduce axis and a space axis whose sum is all that one dimension is read at.
struct Window {
  std::string space, tap;
  int64_t spaceStep, tapStep;
  size_t dimension;

  Expr place() const { return var(space) * Expr(spaceStep) + var(tap) * Expr(tapStep); }
  int64_t places(int64_t n, int64_t taps) const {
    return (n - 1) * spaceStep + (taps - 1) * tapStep + 1;
  }
};

/// One load of a contraction and the panels that it becomes.
struct Panels {
  Expr load;                      // as it stands in the stage
  std::vector<StageAxis> others;  // space axes it depends on, the vector axis excepted
  std::vector<StageAxis> reduce;  // reduce axes it depends on, in loop order; of a window: places
  std::vector<Window> windows;    // of which each place is packed once
  StageAxis vector;
  int64_t width;
  std::string grouped;  // the reduce axis whose neighbours lie beside each other in a lane
  int64_t group = 1;
  Expr first = 0;  // the vector axis's element that panel 0 begins with
};

bool isGrouped(const Panels& p, const StageAxis& a) { return p.group > 1 && a.var == p.grouped; }
int64_t groupsOf(int64_t extent, int64_t group) { return (extent + group - 1) / group; }

/// Where the load's index is affine in the two axes, in one dimension, and fewer places than pairs are read.
std::optional<Window> windowOf(const std::vector<Expr>& index, const StageAxis& space,
                               const StageAxis& tap) {
  std::optional<Window> out;
  for (size_t d = 0; d < index.size(); d++) {
    if (!mentions({index[d]}, space.var) && !mentions({index[d]}, tap.var)) continue;
    const Linear l = linearOf(index[d]);
    const Window w{space.var, tap.var, l.coefficientOf(space.var), l.coefficientOf(tap.var), d};
    Linear rest = l;
    std::erase_if(rest.terms, [&](const auto& term) {
      return term.first == var(space.var) || term.first == var(tap.var);
    });
    if (out || w.spaceStep <= 0 || w.tapStep <= 0 || mentions({toExpr(rest)}, space.var) ||
        mentions({toExpr(rest)}, tap.var))
      return std::nullopt;
    out = w;
  }
  if (!out || !isConstant(tap.region.base, 0) ||
      out->places(space.region.size, tap.region.size) >= space.region.size * tap.region.size)
    return std::nullopt;
  return out;
}

/// Makes one axis of places of each window's two, where the taps stood.
void joinWindows(Panels& p) {
  for (StageAxis& tap : p.reduce) {
    if (isGrouped(p, tap)) continue;
    for (size_t i = 0; i < p.others.size(); i++) {
      const StageAxis space = p.others[i];
      const auto w = windowOf(p.load.as<Load>()->index, space, tap);
      if (!w) continue;
      tap = {tap.var,
             w->places(space.extent, tap.extent),
             true,
             {simplify(space.region.base * Expr(w->spaceStep), {}),
              w->places(space.region.size, tap.region.size)}};
      p.windows.push_back(*w);
      p.others.erase(p.others.begin() + static_cast<int64_t>(i));
      break;
    }
  }
}

/// `tiles`: whose variables may stand in the load itself, where an axis of one element a tile was replaced by its place.
Panels panelsOf(const Expr& load, const Stage& stage, const StageSchedule& schedule,
                const std::vector<TileAxis>& tiles) {
  Panels p{load, {}, {}, {}, stage.axes[schedule.vectorAxis], schedule.panel(), "", schedule.group};
  if (schedule.dotAxis >= 0) p.grouped = stage.axes[schedule.dotAxis].var;
  for (int i : schedule.order) {
    const StageAxis& a = stage.axes[i];
    if (i != schedule.vectorAxis && mentions(load.as<Load>()->index, a.var))
      (a.reduce ? p.reduce : p.others).push_back(a);
  }
  for (const TileAxis& t : tiles)
    if (mentions(load.as<Load>()->index, t.var))
      p.others.push_back({t.var, t.count(), false, {Expr(0), t.count()}});
  return p;
}

/// Along an axis of the panels, of the stage's variables.
Expr placeOf(const Panels& p, const std::string& axis) {
  for (const Window& w : p.windows)
    if (w.tap == axis) return w.place();
  return var(axis);
}

std::vector<Expr> panelIndex(const Panels& p) {
  std::vector<Expr> index;
  for (const StageAxis& a : p.others) index.push_back(var(a.var));
  const Expr element = var(p.vector.var) - p.first;
  index.push_back(floorDiv(element, p.width));
  for (const StageAxis& a : p.reduce)
    index.push_back(isGrouped(p, a) ? floorDiv(var(a.var), p.group) : placeOf(p, a.var));
  index.push_back(floorMod(element, p.width));
  if (p.group > 1) index.push_back(floorMod(var(p.grouped), p.group));
  return index;
}

int64_t panelCount(int64_t extent, int64_t width) { return (extent + width - 1) / width; }

void addGuard(Expr& guard, const Expr& condition) {
  guard = guard ? logicalAnd(guard, condition) : condition;
}

/// A load may stand under a guard that keeps it inside of its buffer, and is packed by itself: that no place outside is read, of which
/// nothing is used, is to be said anew.
void addBounds(Expr& guard, const PlanBuffer& b, const std::vector<Expr>& index,
               const Ranges& ranges) {
  std::vector<Expr> known;
  if (guard) known.push_back(guard);
  for (size_t d = 0; d < index.size(); d++) {
    const int64_t extent = b.type.extent(static_cast<int>(d));
    for (const Expr& inside : {le(0, index[d]), lt(index[d], extent)})
      if (!proves(inside, ranges, known)) addGuard(guard, simplify(inside, ranges, known));
  }
}
/// Of the coordinates of packed elements.
Ranges coordinatesOf(const TensorType& t) {
  Ranges out;
  for (int d = 0; d < t.rank(); d++) out[coordinate(d)] = {0, t.extent(d) - 1};
  return out;
}
/// Of the variables that stand in a stage's indices.
Ranges variablesOf(const Stage& s, const TileList& list) {
  Ranges out;
  for (const TileAxis& t : list.tiles) out[t.var] = {0, t.count() - 1};
  for (const StageAxis& a : s.axes) out[a.var] = {0, a.extent - 1};
  return out;
}

PackedConstant constantPanels(const Panels& p, const std::string& name, const GroupPlan& plan) {
  const Load& l = *p.load.as<Load>();
  PackedConstant out{name, l.buffer, {p.load.type(), {}}, {}, {}};
  std::unordered_map<std::string, Expr> at;
  int d = 0;
  const int inGroup = static_cast<int>(p.others.size() + p.reduce.size()) + 2;  // its coordinate
  const auto axis = [&](const StageAxis& a) {
    const Expr here = var(coordinate(d++));
    if (!isGrouped(p, a)) {
      at.emplace(a.var, here);
      return out.type.shape.emplace_back(a.extent), void();
    }
    const Expr place = here * Expr(p.group) + var(coordinate(inGroup));
    at.emplace(a.var, place);
    out.type.shape.emplace_back(groupsOf(a.extent, p.group));
    if (a.extent % p.group) addGuard(out.guard, lt(place, a.extent));
  };
  for (const StageAxis& a : p.others) axis(a);
  const Expr panel = var(coordinate(d++));
  out.type.shape.emplace_back(panelCount(p.vector.extent, p.width));
  for (const StageAxis& a : p.reduce) axis(a);
  const Expr element = panel * Expr(p.width) + var(coordinate(d));
  out.type.shape.emplace_back(p.width);
  if (p.group > 1) out.type.shape.emplace_back(p.group);
  at.emplace(p.vector.var, element);
  for (const Expr& e : l.index) out.index.push_back(substitute(e, at));
  if (p.vector.extent % p.width) addGuard(out.guard, lt(element, p.vector.extent));
  addBounds(out.guard, plan.buffer(l.buffer), out.index, coordinatesOf(out.type));
  return out;
}

/// A stage that fills scratch over its axes with what a load reads there, as deep in the tile loops as that depends on them.
std::pair<PlanBuffer, Stage> packedBy(PlanBuffer b, Stage s, const Expr& from, const Expr& value,
                                      const GroupPlan& plan, const TileList& list, int deepest) {
  std::vector<Expr> index;
  for (const StageAxis& a : s.axes) index.push_back(var(a.var));
  s.inner.push_back({b.name, index, value, "", {}});
  s.comment = "pack " + from.as<Load>()->buffer;

  const PlanBuffer& source = plan.buffer(from.as<Load>()->buffer);
  int depth = source.kind == PlanBuffer::Scratch ? source.depth : 0;
  for (int t = 0; t < static_cast<int>(list.tiles.size()); t++) {
    bool used = list.tiles[t].grid;
    for (const StageAxis& a : s.axes) used |= mentions({a.region.base}, list.tiles[t].var);
    used |= mentions({value}, list.tiles[t].var);
    if (used) depth = std::max(depth, t + 1);
  }
  b.depth = s.depth = std::min(depth, deepest);
  return {std::move(b), std::move(s)};
}

/// What is computed need not begin where a panel of the whole axis does: panels are counted from there then.
void alignPanels(Panels& p) {
  const Region& region = p.vector.region;
  if (isConstant(simplify(floorMod(region.base, p.width), {}), 0)) return;
  p.first = region.base;
}

/// The stage that fills panels in scratch, and their buffer.
std::pair<PlanBuffer, Stage> scratchPanels(const Panels& p, const std::string& name,
                                           const GroupPlan& plan, const TileList& list,
                                           int deepest) {
  PlanBuffer b;
  Stage s;
  b.kind = PlanBuffer::Scratch;
  b.name = name;
  b.space = "l2";
  b.type.dtype = p.load.type();
  std::unordered_map<std::string, Expr> at;
  Expr inside;
  const auto axis = [&](StageAxis a) {
    if (isGrouped(p, a)) {
      const Expr place = var(a.var) * Expr(p.group) + var("g");
      at.emplace(a.var, place);
      if (a.extent % p.group) addGuard(inside, lt(place, a.extent));
      a.extent = groupsOf(a.extent, p.group);
      a.region = {simplify(floorDiv(a.region.base, p.group), {}), groupsOf(a.region.size, p.group)};
    }
    b.type.shape.emplace_back(a.extent);
    b.region.push_back(a.region);
    s.axes.push_back(a);
    s.axes.back().reduce = false;
  };
  for (const StageAxis& a : p.others) axis(a);
  axis({"p",
        panelCount(p.vector.extent, p.width),
        false,
        {simplify(floorDiv(p.vector.region.base - p.first, p.width), {}),
         panelCount(p.vector.region.size, p.width)}});
  for (const StageAxis& a : p.reduce) axis(a);
  axis({"q", p.width, false, {Expr(0), p.width}});
  if (p.group > 1) axis({"g", p.group, false, {Expr(0), p.group}});

  const Expr element = p.first + var("p") * Expr(p.width) + var("q");
  at.emplace(p.vector.var, element);
  if (p.vector.region.size % p.width || p.vector.extent % p.width || !isConstant(p.first, 0))
    addGuard(inside, lt(element, p.vector.extent));
  const Load& l = *p.load.as<Load>();
  std::vector<Expr> index = l.index;
  for (const Window& w : p.windows)
    index[w.dimension] = simplify(index[w.dimension] - w.place() + var(w.tap), {});
  for (Expr& e : index) e = substitute(e, at);
  addBounds(inside, plan.buffer(l.buffer), index, variablesOf(s, list));
  Expr value = load(l.buffer, p.load.type(), index);
  if (inside) value = select(inside, value, imm(p.load.type(), 0));
  return packedBy(std::move(b), std::move(s), p.load, value, plan, list, deepest);
}

// ---- rows: the operand of a dot instruction that is the same for all lanes, [others..., other reduce axes..., grouped axis]

std::vector<StageAxis> rowAxes(const Panels& p) {
  std::vector<StageAxis> axes = p.others;
  for (const StageAxis& a : p.reduce)
    if (!isGrouped(p, a)) axes.push_back(a);
  for (StageAxis a : p.reduce) {
    if (!isGrouped(p, a)) continue;
    a.extent = groupsOf(a.extent, p.group) * p.group;
    a.region.size = groupsOf(a.region.size, p.group) * p.group;
    axes.push_back(std::move(a));
  }
  return axes;
}
/// Behind the axis there are zeros.
Expr rowGuard(const Panels& p) {
  for (const StageAxis& a : p.reduce)
    if (isGrouped(p, a) && a.extent % p.group) return lt(var(a.var), a.extent);
  return {};
}

PackedConstant constantRows(const Panels& p, const std::string& name, const GroupPlan& plan) {
  const Load& l = *p.load.as<Load>();
  PackedConstant out{name, l.buffer, {p.load.type(), {}}, {}, rowGuard(p)};
  std::unordered_map<std::string, Expr> at;
  for (const StageAxis& a : rowAxes(p)) {
    at.emplace(a.var, var(coordinate(static_cast<int>(at.size()))));
    out.type.shape.emplace_back(a.extent);
  }
  for (const Expr& e : l.index) out.index.push_back(substitute(e, at));
  if (out.guard) out.guard = substitute(out.guard, at);
  addBounds(out.guard, plan.buffer(l.buffer), out.index, coordinatesOf(out.type));
  return out;
}

/// Pairs of integers are kept as 16 bits: that is what is multiplied.
DType rowType(const Panels& p, bool constant) {
  return p.group == 2 && !constant && !isFloat(p.load.type()) ? DType::I16 : p.load.type();
}

std::pair<PlanBuffer, Stage> scratchRows(const Panels& p, const std::string& name,
                                         const GroupPlan& plan, const TileList& list, int deepest) {
  PlanBuffer b;
  Stage s;
  b.kind = PlanBuffer::Scratch;
  b.name = name;
  b.space = "l2";
  b.type.dtype = rowType(p, false);
  for (StageAxis& a : rowAxes(p)) {
    b.type.shape.emplace_back(a.extent);
    b.region.push_back(a.region);
    s.axes.push_back(std::move(a));
    s.axes.back().reduce = false;
  }
  Expr value = cast(b.type.dtype, p.load);
  Expr guard = rowGuard(p);
  const Load& l = *p.load.as<Load>();
  addBounds(guard, plan.buffer(l.buffer), l.index, variablesOf(s, list));
  if (guard) value = select(guard, value, imm(value.type(), 0));
  return packedBy(std::move(b), std::move(s), p.load, value, plan, list, deepest);
}

}  // namespace

void packOperands(GroupPlan& plan, Schedule& schedule, const Target& target,
                  std::vector<PackedConstant>& packed) {
  int made = 0;
  for (size_t l = 0; l < plan.lists.size(); l++)
    for (size_t k = 0; k < plan.lists[l].stages.size(); k++) {
      const StageSchedule choice = schedule.lists[l][k];
      if (choice.packed.empty()) continue;
      std::vector<Expr> loads;
      for (const Accumulator& a : plan.lists[l].stages[k].accumulators)
        for (const Expr& value : a.values)
          for (const Expr& e : loadsOf(value)) loads.push_back(e);
      for (const Expr& e : loads) {
        const std::string& from = e.as<Load>()->buffer;
        const Stage& stage = plan.lists[l].stages[k];
        const std::string& v = stage.axes[choice.vectorAxis].var;
        const PlanBuffer& source = plan.buffer(from);
        if (std::find(choice.packed.begin(), choice.packed.end(), from) == choice.packed.end())
          continue;
        const bool row = from == choice.dotRow;
        if (!row && !mentions(e.as<Load>()->index, v)) continue;
        const bool constant = source.kind == PlanBuffer::Constant;  // packed once for all tiles
        Panels p =
            panelsOf(e, stage, choice, constant ? plan.lists[l].tiles : std::vector<TileAxis>{});
        if (!constant && !row) alignPanels(p), joinWindows(p);
        const std::string name = fmt::format("{}_{}{}", from, row ? "rows" : "panels",
                                             made++ ? fmt::format("{}", made) : "");
        Expr now;
        if (row) {
          std::vector<Expr> index;
          for (const StageAxis& a : rowAxes(p)) index.push_back(var(a.var));
          now = load(name, rowType(p, constant), index);
        } else {
          now = load(name, e.type(), panelIndex(p));
        }
        if (source.kind == PlanBuffer::Constant) {
          packed.push_back(row ? constantRows(p, name, plan) : constantPanels(p, name, plan));
          PlanBuffer b;
          b.kind = PlanBuffer::Constant;
          b.name = name;
          b.type = packed.back().type;
          plan.buffers.push_back(std::move(b));
        } else {
          auto [b, s] = row ? scratchRows(p, name, plan, plan.lists[l], stage.depth)
                            : scratchPanels(p, name, plan, plan.lists[l], stage.depth);
          plan.buffers.push_back(std::move(b));
          schedule.lists[l].insert(schedule.lists[l].begin() + static_cast<int64_t>(k),
                                   chooseStage(plan, plan.lists[l], s, target));
          plan.lists[l].stages.insert(plan.lists[l].stages.begin() + static_cast<int64_t>(k),
                                      std::move(s));
          if (plan.lists[l].sync >= static_cast<int>(k)) plan.lists[l].sync++;
          k++;
        }
        for (Accumulator& a : plan.lists[l].stages[k].accumulators)
          for (Expr& value : a.values)
            value = rewrite(value, [&](const Expr& x) { return x == e ? now : Expr(); });
        if (row) schedule.lists[l][k].dotRow = name;
        if (!row && from == choice.fetched) schedule.lists[l][k].fetched = name;
      }
    }
}

}  // namespace tektite
