#include <algorithm>

#include "lower/matrix_nest.h"
#include "support/check.h"

namespace tektite {

void ProductNest::multiply(const Expr& half, const Expr& first, Block& out) {
  out.push_back({Sync{Sync::Queue, unit_.engine, behind()}, ""});
  feed(true, half, out);
  feed(false, half, out);
  for (const std::string& q : feeders()) out.push_back({Sync{Sync::Queue, q, 0}, ""});
  Ref left{"left", {half, Expr(0), Expr(0)}};
  if (tile_.each) left.index.emplace_back(0);
  Intrin i;
  i.name = instruction();
  i.args = {{sums_.empty() ? select(first, Expr(1), Expr(0)) : Expr(0)},
            {rowsHere()},
            {columnsHere()},
            {simplify(deepHere() * Expr(tile_.flatDepthSize), ranges_)},
            {results()},
            {std::move(left)},
            {Ref{"right", {half, Expr(0), Expr(0)}}}};
  i.queue = unit_.engine;
  out.push_back({std::move(i), ""});
}

const std::string& ProductNest::feeder(const std::string& to) const {
  const MemoryPath* p = target_.path(target_.operands, to);
  TEKTITE_CHECK(p, "no path from {} to {}", target_.operands, to);
  return p->engine;
}

Expr ProductNest::along(int axis, const std::string& v, const std::string& block, int64_t size,
                        const Expr& here, const std::vector<int>& flat, const std::string& names,
                        Copy& c, Places& at) const {
  Expr index = 0;
  if (axis >= 0) {
    c.axes.push_back({v, here});
    index = var(v);
    at[stage_.axes[axis].var] = low_[axis] + var(block) * Expr(size) + var(v);
  }
  for (size_t f = 0; f < flat.size(); f++) {
    const std::string name = fmt::format("{}{}", names, f);
    c.axes.push_back({name, extent_[flat[f]]});
    index = index * extent_[flat[f]] + var(name);
    at[stage_.axes[flat[f]].var] = low_[flat[f]] + var(name);
  }
  return index;
}

void ProductNest::feed(bool left, const Expr& half, Block& out) {
  auto at = at_;
  Copy c;
  const auto columns = [&](const std::string& v) {
    return along(tile_.column, v, "nb", tile_.columnBlock, columnsHere(), {}, "", c, at);
  };
  const Expr side =
      left ? along(tile_.row, "e", "mb", tile_.rowBlock, rowBlocks(), tile_.flatRows, "r", c, at)
           : columns("e");
  const Expr depth =
      along(tile_.deep, "k", "kb", tile_.deepBlock, deepHere(), tile_.flatDepth, "k", c, at);
  std::vector<Expr> to =
      left ? std::vector<Expr>{half, side, depth} : std::vector<Expr>{half, depth, side};
  if (left && tile_.each) to.push_back(columns("c"));
  if (c.axes.empty()) c.axes.push_back({"e", Expr(1)});
  const Load& l = *(left ? product_.left : product_.right).as<Load>();
  std::vector<Expr> index;
  for (const Expr& e : l.index) index.push_back(substitute(e, at));
  index = buffers_.index(l.buffer, index);
  for (Expr& e : index) e = simplify(e, ranges_);
  c.from = {buffers_.names.at(l.buffer), std::move(index)};
  c.to = Ref{left ? "left" : "right", std::move(to)};
  c.queue = feeder(left ? unit_.left : unit_.right);
  out.push_back({std::move(c), ""});
}

std::string ProductNest::instruction() {
  const DType a = product_.left.type(), b = product_.right.type(), acc = accType();
  const std::string name = fmt::format("{}.{}_{}_{}", unit_.engine, tile_.each ? "dwmad" : "mmad",
                                       tektite::name(a), tektite::name(b));
  if (module_.intrin(name)) return name;
  constexpr int64_t kMost = 1 << 20;
  IntrinDef d;
  d.name = name;
  d.dims = {{"first", 0, 1}, {"m", 1, kMost}, {"n", 1, kMost}, {"k", 1, kMost}};
  d.isDim.assign(d.dims.size(), true);
  std::vector<Expr> ofLeft = {var("m"), var("k")}, left = {var("i"), var("p")};
  if (tile_.each) ofLeft.push_back(var("n")), left.push_back(var("j"));
  addParam(d, Param::InOut, "c", acc, {var("m"), var("n")}, unit_.result);
  addParam(d, Param::In, "a", a, ofLeft, unit_.left);
  addParam(d, Param::In, "b", b, {var("k"), var("n")}, unit_.right);
  const auto as = [&](const Expr& e) { return e.type() == acc ? e : cast(acc, e); };
  const Ref c{"c", {var("i"), var("j")}};
  Block zero, add, body;
  zero.push_back({Store{{c}, "", {imm(acc, 0)}}, ""});
  body.push_back({If{eq(var("first"), Expr(1)), std::move(zero)}, ""});
  Store sum{{c}, "sum", {}};
  sum.values = {as(load("a", a, left)) * as(load("b", b, {var("p"), var("j")}))};
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
