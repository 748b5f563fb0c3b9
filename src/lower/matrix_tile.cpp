#include <algorithm>

#include "lower/matrix_nest.h"
#include "support/check.h"

namespace tektite {

void ProductNest::multiply(const Expr& half, const Expr& first, Block& out) {
  out.push_back({Sync{Sync::Queue, unit_.engine, 1}, ""});
  const Expr deep = deep_ < 0 ? Expr(1) : part(deep_, var("kb"), deepBlock_);
  feed("left", product_.left, half, row_, "mb", rows_, rowsHere(), deep, out);
  feed("right", product_.right, half, column_, "nb", columns_, columnsHere(), deep, out);
  for (const std::string& q : feeders()) out.push_back({Sync{Sync::Queue, q, 0}, ""});
  Intrin i;
  i.name = instruction();
  i.args = {{sums_.empty() ? select(first, Expr(1), Expr(0)) : Expr(0)},
            {rowsHere()},
            {columnsHere()},
            {simplify(deep * Expr(flatSize_), ranges_)},
            {results()},
            {Ref{"left", {half, Expr(0), Expr(0)}}},
            {Ref{"right", {half, Expr(0), Expr(0)}}}};
  i.queue = unit_.engine;
  out.push_back({std::move(i), ""});
}

const std::string& ProductNest::feeder(const std::string& to) const {
  const MemoryPath* p = target_.path(target_.operands, to);
  TEKTITE_CHECK(p, "no path from {} to {}", target_.operands, to);
  return p->engine;
}

void ProductNest::feed(const std::string& name, const Expr& from, const Expr& half, int axis,
                       const std::string& block, int64_t size, const Expr& here, const Expr& deep,
                       Block& out) {
  const bool left = name == "left";
  auto at = at_;
  Copy c;
  Expr side = 0, depth = 0;
  if (axis >= 0) {
    c.axes.push_back({"e", here});
    side = var("e");
    at[stage_.axes[axis].var] = low_[axis] + var(block) * Expr(size) + var("e");
  }
  if (deep_ >= 0) {
    c.axes.push_back({"k", deep});
    depth = var("k");
    at[stage_.axes[deep_].var] = low_[deep_] + var("kb") * Expr(deepBlock_) + var("k");
  }
  for (size_t f = 0; f < flat_.size(); f++) {
    const std::string v = fmt::format("k{}", f);
    c.axes.push_back({v, extent_[flat_[f]]});
    depth = depth * Expr(most(flat_[f])) + var(v);
    at[stage_.axes[flat_[f]].var] = low_[flat_[f]] + var(v);
  }
  if (c.axes.empty()) c.axes.push_back({"e", Expr(1)});
  Ranges inner = ranges_;
  for (const CopyAxis& a : c.axes) inner[a.var] = {0, INT32_MAX};
  const Load& l = *from.as<Load>();
  std::vector<Expr> index;
  for (const Expr& e : l.index) index.push_back(substitute(e, at));
  index = buffers_.index(l.buffer, index);
  for (Expr& e : index) e = simplify(e, ranges_);
  c.from = {buffers_.names.at(l.buffer), std::move(index)};
  c.to =
      Ref{name, left ? std::vector<Expr>{half, side, depth} : std::vector<Expr>{half, depth, side}};
  c.queue = feeder(left ? unit_.left : unit_.right);
  out.push_back({std::move(c), ""});
}

void ProductNest::epilogue(Block& out) {
  auto at = at_;
  Expr i = 0, j = 0;
  if (row_ >= 0) {
    i = var("m");
    at[stage_.axes[row_].var] = low_[row_] + var("mb") * Expr(rows_) + i;
  }
  if (column_ >= 0) {
    j = var("n");
    at[stage_.axes[column_].var] = low_[column_] + var("nb") * Expr(columns_) + j;
  }
  if (exchanges()) exchange(out);
  at.emplace(stage_.accumulators[0].names[0],
             load(exchanges() ? "here" : "acc", accType(), {i, j}));
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
  if (column_ >= 0) {
    Block columns;
    columns.push_back(loopOver("n", columnsHere(), std::move(body)));
    body = std::move(columns);
  }
  if (row_ >= 0) {
    Block rows;
    rows.push_back(loopOver("m", rowsHere(), std::move(body)));
    body = std::move(rows);
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

Expr ProductNest::translated(const Expr& e, const std::unordered_map<std::string, Expr>& at) const {
  const Expr named = rewrite(substitute(e, at), [&](const Expr& x) -> Expr {
    const Load* l = x.as<Load>();
    if (!l || !buffers_.names.count(l->buffer)) return {};
    return load(buffers_.names.at(l->buffer), x.type(), buffers_.index(l->buffer, l->index));
  });
  return simplify(named, ranges_);
}

std::string ProductNest::instruction() {
  const DType a = product_.left.type(), b = product_.right.type(), acc = accType();
  const std::string name =
      fmt::format("{}.mmad_{}_{}", unit_.engine, tektite::name(a), tektite::name(b));
  if (module_.intrin(name)) return name;
  constexpr int64_t kMost = 1 << 20;
  IntrinDef d;
  d.name = name;
  d.dims = {{"first", 0, 1}, {"m", 1, kMost}, {"n", 1, kMost}, {"k", 1, kMost}};
  const auto param = [&](Param::Mode mode, const char* n, DType t, const char* r, const char* c,
                         const std::string& space) {
    Buffer buffer;
    buffer.name = n;
    buffer.type = t;
    buffer.shape = {var(r), var(c)};
    buffer.space = space;
    d.params.push_back({mode, std::move(buffer)});
  };
  param(Param::InOut, "c", acc, "m", "n", unit_.result);
  param(Param::In, "a", a, "m", "k", unit_.left);
  param(Param::In, "b", b, "k", "n", unit_.right);
  d.isDim = {true, true, true, true, false, false, false};
  const auto as = [&](const Expr& e) { return e.type() == acc ? e : cast(acc, e); };
  const Ref c{"c", {var("i"), var("j")}};
  Block zero, add, body;
  zero.push_back({Store{{c}, "", {imm(acc, 0)}}, ""});
  body.push_back({If{eq(var("first"), Expr(1)), std::move(zero)}, ""});
  Store sum{{c}, "sum", {}};
  sum.values = {as(load("a", a, {var("i"), var("p")})) * as(load("b", b, {var("p"), var("j")}))};
  add.push_back({std::move(sum), ""});
  body.push_back(loopOver("p", var("k"), std::move(add)));
  Block columns, rows;
  columns.push_back({For{"j", var("n"), LoopMode::Parallel, std::move(body)}, ""});
  rows.push_back({For{"i", var("m"), LoopMode::Parallel, std::move(columns)}, ""});
  d.body = std::move(rows);
  module_.intrins.push_back(std::move(d));
  return name;
}

}  // namespace tektite
