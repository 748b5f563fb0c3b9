#include <algorithm>
#include <ranges>

#include "ir/mentions.h"
#include "lower/matrix_nest.h"
#include "support/check.h"

namespace tektite {
namespace {

/// The coordinate that runs along one in an instruction's meaning.
std::string within(const std::string& along) { return fmt::format("i_{}", along); }

}  // namespace

ProductNest::Places ProductNest::placed() const {
  auto at = at_;
  const auto put = [&](int axis, const Expr& within) {
    if (axis >= 0) at[stage_.axes[axis].var] = low_[axis] + within;
  };
  put(tile_.row, var("mb") * Expr(tile_.rowBlock) + var("m"));
  put(tile_.column, var("nb") * Expr(tile_.columnBlock) + var("n"));
  for (size_t f = 0; f < tile_.flatRows.size(); f++)
    put(tile_.flatRows[f], var(fmt::format("row{}", f)));
  return at;
}

Expr ProductNest::rowInTile() const {
  Expr row = tile_.row >= 0 ? var("m") : Expr(0);
  for (size_t f = 0; f < tile_.flatRows.size(); f++)
    row = row * extent_[tile_.flatRows[f]] + var(fmt::format("row{}", f));
  return row;
}

std::vector<ProductNest::Along> ProductNest::resultLoops() const {
  std::vector<Along> out;
  if (tile_.row >= 0) out.push_back({"m", rowBlocks()});
  for (size_t f = 0; f < tile_.flatRows.size(); f++)
    out.push_back({fmt::format("row{}", f), extent_[tile_.flatRows[f]]});
  if (tile_.column >= 0) out.push_back({"n", columnsHere()});
  return out;
}

void ProductNest::epilogue(Block& out) {
  if (goesOut_) {
    if (auto done = output()) {
      for (Stmt& s : *done) out.push_back(std::move(s));
      return;
    }
    out.push_back({Sync{Sync::Queue, unit_.engine, 0}, ""});
  }
  if (exchanges()) exchange(out);
  auto at = placed();
  std::vector<Expr> sum = {rowInTile(), tile_.column >= 0 ? var("n") : Expr(0)};
  if (goesOut_) sum.insert(sum.begin(), half(number_));
  if (gathers()) sum.insert(sum.begin(), simplify(place_, ranges_));
  at.emplace(stage_.accumulators[0].names[0],
             load(exchanges() ? "here" : "acc", accType(), std::move(sum)));
  Block body;
  for (const StageStore& s : stage_.outer) {
    Store store;
    std::vector<Expr> index;
    for (const Expr& e : s.index) index.push_back(substitute(e, at));
    index = buffers_.index(s.buffer, index);
    for (Expr& e : index) e = simplify(e, ranges_);
    store.targets.push_back({buffers_.names.at(s.buffer), std::move(index)});
    store.values.push_back(translated(s.value, at));
    store.combine = s.combine;
    Stmt stmt{std::move(store), ""};
    if (s.guard) {
      Block guarded;
      guarded.push_back(std::move(stmt));
      stmt = {If{translated(s.guard, at), std::move(guarded)}, ""};
    }
    body.push_back(std::move(stmt));
  }
  for (const Along& a : std::views::reverse(resultLoops())) {
    Block loop;
    loop.push_back(loopOver(a.var, a.extent, std::move(body)));
    body = std::move(loop);
  }
  for (Stmt& s : body) out.push_back(std::move(s));
}

void ProductNest::exchange(Block& out) const {
  std::vector<Expr> place;
  for (const std::string& g : grid_) place.push_back(var(g));
  place.push_back(var("e"));
  place.push_back(var("f"));
  const std::vector<Expr> here = {var("e"), var("f")};
  const auto move = [&](Ref to, Ref from, const std::string& a, const std::string& b) {
    Copy c;
    c.to = std::move(to);
    c.from = std::move(from);
    c.axes = {{"e", rowsHere()}, {"f", columnsHere()}};
    const MemoryPath* p = target_.path(a, b);
    TEKTITE_CHECK(p, "no path from {} to {}", a, b);
    c.queue = p->engine;
    out.push_back({std::move(c), ""});
    out.push_back({Sync{Sync::Queue, p->engine, 0}, ""});
  };
  move({workspace(), place}, {"acc", here}, unit_.result, "main");
  move({"here", here}, {workspace(), place}, "main", target_.scratch);
}

Expr ProductNest::translated(const Expr& e, const Places& at) const {
  const Expr named = rewrite(substitute(e, at), [&](const Expr& x) -> Expr {
    const Load* l = x.as<Load>();
    if (!l || !buffers_.names.count(l->buffer)) return {};
    return load(buffers_.names.at(l->buffer), x.type(), buffers_.index(l->buffer, l->index));
  });
  return simplify(named, ranges_);
}

// ---- by the unit's own output

std::optional<ProductNest::Operand> ProductNest::operandOf(const std::string& buffer,
                                                           const std::vector<Expr>& index,
                                                           const std::vector<Along>& loops,
                                                           size_t from) const {
  Operand out{{buffer, {}}, {}};
  std::vector<int> uses(loops.size());
  for (const Expr& e : index) {
    Expr first = e;
    int by = -1;
    for (size_t k = from; k < loops.size(); k++) {
      const std::string& v = loops[k].var;
      if (!mentions(e, v)) continue;
      const Expr step = simplify(substitute(e, {{v, var(v) + Expr(1)}}) - e, ranges_);
      if (by >= 0 || ++uses[k] > 1 || !isConstant(step, 1)) return {};
      by = static_cast<int>(k);
      first = substitute(e, {{v, Expr(0)}});
    }
    out.first.index.push_back(simplify(first, ranges_));
    out.by.push_back(by);
  }
  return out;
}

std::optional<Block> ProductNest::output() {
  const std::vector<Along> loops = resultLoops();
  const Ranges around = ranges_;
  for (const Along& a : loops)  // places in a ring run on only within the tile
    ranges_[a.var] = {0, std::max<int64_t>(boundsOf(a.extent, around).high - 1, 0)};
  auto out = outputOf(loops);
  ranges_ = around;
  return out;
}

std::optional<Block> ProductNest::outputOf(const std::vector<Along>& loops) {
  const auto at = placed();
  const StageStore& s = stage_.outer[0];
  const auto inMemory = [&](const std::string& buffer, const std::vector<Expr>& index) {
    std::vector<Expr> out;
    for (const Expr& e : index) out.push_back(substitute(e, at));
    out = buffers_.index(buffer, out);
    for (Expr& e : out) e = simplify(e, ranges_);
    return out;
  };
  const std::vector<Expr> loads = loadsOf(s.value);
  for (size_t from = 0; from <= loops.size();
       from++) {  // outer ones are loops around, where need be
    std::vector<Operand> operands;
    const auto add = [&](const std::string& buffer, const std::vector<Expr>& index) {
      const auto o = operandOf(buffers_.names.at(buffer), inMemory(buffer, index), loops, from);
      if (o) operands.push_back(*o);
      return o.has_value();
    };
    const bool fits = add(s.buffer, s.index) && std::ranges::all_of(loads, [&](const Expr& e) {
                        return add(e.as<Load>()->buffer, e.as<Load>()->index);
                      });
    if (fits) return outputCalls(loops, from, operands, loads);
  }
  return {};
}

Block ProductNest::outputCalls(const std::vector<Along>& loops, size_t from,
                               const std::vector<Operand>& operands,
                               const std::vector<Expr>& loads) {
  constexpr int64_t kMost = 1 << 20;
  IntrinDef d;
  Intrin call;
  const size_t rows = loops.size() - (tile_.column >= 0 ? 1 : 0);
  // Axes that lie whole in a tile are numbers of the instruction, the others its operands.
  const auto sizeOf = [&](size_t k) {
    return asInteger(loops[k].extent) ? loops[k].extent : var(loops[k].var);
  };
  for (size_t k = from; k < loops.size(); k++) {
    if (asInteger(loops[k].extent)) continue;
    d.dims.push_back({loops[k].var, 1, kMost});
    d.isDim.push_back(true);
    call.args.emplace_back().value = loops[k].extent;
  }
  const auto coordinate = [&](int k) { return k < 0 ? Expr(0) : var(within(loops[k].var)); };
  const auto along = [&](const Operand& o) {
    std::vector<Expr> out;
    for (const int k : o.by) out.push_back(k < 0 ? Expr(1) : sizeOf(static_cast<size_t>(k)));
    return out;
  };
  const auto indexOf = [&](const Operand& o) {
    std::vector<Expr> out;
    for (const int k : o.by) out.push_back(coordinate(k));
    return out;
  };
  const auto param = [&](Param::Mode mode, const std::string& name, DType type,
                         std::vector<Expr> shape, const std::string& space, Ref first) {
    addParam(d, mode, name, type, std::move(shape), space);
    call.args.emplace_back().value = std::move(first);
  };
  const StageStore& s = stage_.outer[0];
  param(Param::Out, "d", s.value.type(), along(operands[0]), target_.scratch, operands[0].first);
  // The sums: rows of several axes are one, those of the loops around chosen by the first element.
  Expr sumRows = 1, row = 0, firstRow = rowInTile();
  for (size_t k = from; k < rows; k++) {
    sumRows = sumRows * sizeOf(k);
    row = row * loops[k].extent + coordinate(static_cast<int>(k));
    firstRow = substitute(firstRow, {{loops[k].var, Expr(0)}});
  }
  const bool columns = tile_.column >= 0 && from < loops.size();
  const std::vector<Expr> first = {half(number_), simplify(firstRow, ranges_),
                                   columns || tile_.column < 0 ? Expr(0) : var("n")};
  param(Param::In, "c", accType(), {simplify(sumRows, {}), columns ? sizeOf(rows) : Expr(1)},
        unit_.result, {"acc", first});
  std::unordered_map<Hash, Expr> read;
  for (size_t k = 0; k < loads.size(); k++) {
    const std::string name = fmt::format("x{}", k);
    param(Param::In, name, loads[k].type(), along(operands[k + 1]), target_.scratch,
          operands[k + 1].first);
    read.emplace(loads[k].hash(), load(name, loads[k].type(), indexOf(operands[k + 1])));
  }
  const Expr sum = load("c", accType(), {simplify(row, {}), columns ? var(within("n")) : Expr(0)});
  const Expr value = rewrite(s.value, [&](const Expr& e) -> Expr {
    if (const auto it = read.find(e.hash()); it != read.end()) return it->second;
    if (const Var* v = e.as<Var>(); v && v->name == stage_.accumulators[0].names[0]) return sum;
    return {};
  });
  d.body.push_back({Store{{{"d", indexOf(operands[0])}}, "", {value}}, ""});
  for (size_t k = loops.size(); k-- > from;) {
    Block inner;
    inner.push_back(
        {For{within(loops[k].var), sizeOf(k), LoopMode::Parallel, std::move(d.body)}, ""});
    d.body = std::move(inner);
  }
  call.name = declareOutput(std::move(d));
  call.queue = unit_.engine;
  Block out;
  out.push_back({std::move(call), ""});
  for (size_t k = from; k-- > 0;) {
    Block around;
    around.push_back(loopOver(loops[k].var, loops[k].extent, std::move(out)));
    out = std::move(around);
  }
  return out;
}

std::string ProductNest::declareOutput(IntrinDef def) {
  const auto text = [](const IntrinDef& d) {
    KernelModule one;
    one.intrins.push_back(d);
    return toText(one);
  };
  for (int k = 0;; k++) {  // an equal one is shared
    def.name = fmt::format("{}.scale{}", outputPath(target_)->engine, k);
    const IntrinDef* there = module_.intrin(def.name);
    if (there && text(*there) != text(def)) continue;
    const std::string name = def.name;
    if (!there) module_.intrins.push_back(std::move(def));
    return name;
  }
}

}  // namespace tektite
