#include <algorithm>

#include "lower/matrix_nest.h"
#include "support/check.h"

namespace tektite {

std::optional<Stmt> ProductNest::outside() const {
  if (!exchanges()) return {};
  std::vector<int64_t> shape = counts_;
  shape.push_back(tile_.rows());
  shape.push_back(tile_.columnBlock);
  return tile(workspace(), accType(), "main", shape);
}

Block ProductNest::run() {
  Block body;
  const int64_t rows = tile_.rows(), columns = tile_.columnBlock, depth = tile_.depth();
  std::vector<int64_t> left = {2, rows, depth}, acc = {rows, columns};
  if (tile_.each) left.push_back(columns);
  if (goesOut_) acc.insert(acc.begin(), 2);
  if (gathers()) acc.insert(acc.begin(), tile_.tiles);
  body.push_back(tile("left", product_.left.type(), unit_.left, left));
  body.push_back(tile("right", product_.right.type(), unit_.right, {2, depth, columns}));
  if (exchanges()) body.push_back(tile("here", accType(), target_.scratch, {rows, columns}));
  if (sums_.empty()) body.push_back(tile("acc", accType(), unit_.result, acc));
  outer(tile_.around, 0, body);
  if (goesOut_) body.push_back({Sync{Sync::Queue, unit_.engine, 0}, ""});
  Block out;
  out.push_back({BlockStmt{std::move(body)}, ""});
  return out;
}

bool ProductNest::isOnChip(const std::string& buffer) const {
  return buffers_.plan.buffer(buffer).space == target_.scratch;
}

Stmt ProductNest::tile(const std::string& name, DType type, const std::string& space,
                       std::vector<int64_t> shape) const {
  Buffer b;
  b.name = name;
  b.type = type;
  b.space = space;
  for (int64_t n : shape) b.shape.emplace_back(n);
  if (const Level* level = target_.level(space); level->align > bytes(type)) b.align = level->align;
  return {Alloc{std::move(b)}, ""};
}

void ProductNest::outer(const std::vector<int>& axes, size_t k, Block& out) {
  if (gathers() && k + static_cast<size_t>(tile_.together) == axes.size()) {
    number_ = place_ = 0;
    around(axes, k, out);
    out.push_back({Sync{Sync::Queue, unit_.engine, 0}, ""});
    number_ = place_ = 0;
    return epilogueOfAll(k, out);
  }
  around(axes, k, out);
}

void ProductNest::around(const std::vector<int>& axes, size_t k, Block& out) {
  if (k == axes.size()) return blocks(out);
  const int a = axes[k];
  const std::string v = loopName(a);
  ranges_[v] = {0, std::max<int64_t>(most(a) - 1, 0)};
  at_[stage_.axes[a].var] = low_[a] + var(v);
  step(a, v);
  Block body;
  if (gathers() && k + static_cast<size_t>(tile_.together) >= axes.size())
    around(axes, k + 1, body);
  else
    outer(axes, k + 1, body);
  out.push_back(loopOver(v, extent_[a], std::move(body)));
}

void ProductNest::epilogueOfAll(size_t k, Block& out) {
  if (k < tile_.around.size()) {
    const int a = tile_.around[k];
    const std::string v = loopName(a);
    step(a, v);
    Block body;
    epilogueOfAll(k + 1, body);
    out.push_back(loopOver(v, extent_[a], std::move(body)));
    return;
  }
  cut(tile_.row, "mb", tile_.rowBlock, out, [&](Block& rows) {
    cut(tile_.column, "nb", tile_.columnBlock, rows, [&](Block& columns) {
      stepBlocks();
      epilogue(columns);
    });
  });
}

void ProductNest::step(int axis, const std::string& v, int64_t block) {
  number_ = number_ * count(axis, block) + var(v);
  place_ = place_ * Expr((sizeOf(axis) + block - 1) / block) + var(v);
}

void ProductNest::stepBlocks() {
  if (tile_.row >= 0) step(tile_.row, "mb", tile_.rowBlock);
  if (tile_.column >= 0) step(tile_.column, "nb", tile_.columnBlock);
}

void ProductNest::cut(int axis, const std::string& v, int64_t block, Block& out,
                      const std::function<void(Block&)>& inside) {
  if (axis < 0) return inside(out);
  ranges_[v] = {0, std::max<int64_t>((most(axis) + block - 1) / block - 1, 0)};
  Block body;
  inside(body);
  out.push_back(loopOver(v, count(axis, block), std::move(body)));
}

void ProductNest::blocks(Block& out) {
  cut(tile_.row, "mb", tile_.rowBlock, out, [&](Block& rows) {
    cut(tile_.column, "nb", tile_.columnBlock, rows, [&](Block& columns) {
      stepBlocks();
      oneTile(columns);
    });
  });
}

void ProductNest::oneTile(Block& out) {
  depthLoops(0, 0, boolean(true), out);
  if (gathers()) return;
  if (!goesOut_) out.push_back({Sync{Sync::Queue, unit_.engine, 0}, ""});
  if (sums_.empty()) epilogue(out);
}

Ref ProductNest::results() const {
  if (sums_.empty() && goesOut_) return {"acc", {half(number_), Expr(0), Expr(0)}};
  if (gathers()) return {"acc", {simplify(place_, ranges_), Expr(0), Expr(0)}};
  if (sums_.empty()) return {"acc", {Expr(0), Expr(0)}};
  auto at = at_;
  at[stage_.axes[tile_.row].var] = low_[tile_.row] + var("mb") * Expr(tile_.rowBlock);
  at[stage_.axes[tile_.column].var] = low_[tile_.column] + var("nb") * Expr(tile_.columnBlock);
  std::vector<Expr> index;
  for (const Expr& e : stage_.outer[0].index) index.push_back(substitute(e, at));
  index = buffers_.index(sums_, index);
  for (Expr& e : index) e = simplify(e, ranges_);
  return {buffers_.names.at(sums_), std::move(index)};
}

Expr ProductNest::depthSteps() const {
  Expr n = 1;
  for (int a : tile_.steps) n = n * extent_[a];
  if (tile_.deep >= 0)
    n = n * floorDiv(extent_[tile_.deep] + Expr(tile_.deepBlock - 1), Expr(tile_.deepBlock));
  return simplify(n, ranges_);
}

int64_t ProductNest::behind() const {
  // Of sums of one step, each is followed by its output; else what is behind the last but one step depends on where a sum begins.
  return goesOut_ && isConstant(depthSteps(), 1) ? 3 : 1;
}

void ProductNest::depthLoops(size_t k, Expr step, Expr first, Block& out) {
  if (k < tile_.steps.size()) {
    const int a = tile_.steps[k];
    const std::string v = loopName(a);
    ranges_[v] = {0, std::max<int64_t>(most(a) - 1, 0)};
    at_[stage_.axes[a].var] = low_[a] + var(v);
    Block body;
    depthLoops(k + 1, step * extent_[a] + var(v), logicalAnd(first, eq(var(v), Expr(0))), body);
    out.push_back(loopOver(v, extent_[a], std::move(body)));
    return;
  }
  cut(tile_.deep, "kb", tile_.deepBlock, out, [&](Block& body) {
    if (tile_.deep >= 0) {
      step = step * count(tile_.deep, tile_.deepBlock) + var("kb");
      first = logicalAnd(first, eq(var("kb"), Expr(0)));
    }
    if (pipelined()) step = number_ * depthSteps() + step;
    multiply(half(step), simplify(first, ranges_), body);
  });
}

Block lowerProduct(const Stage& stage, const Product& product, const KernelBuffers& buffers,
                   const Ranges& tiles, const std::vector<const TileAxis*>& grid,
                   const Target& target, KernelModule& module, Block& outside) {
  ProductNest nest(stage, product, buffers, tiles, grid, target, module);
  if (auto workspace = nest.outside()) outside.push_back(std::move(*workspace));
  return nest.run();
}

}  // namespace tektite
