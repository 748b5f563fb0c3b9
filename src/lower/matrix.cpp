#include <algorithm>

#include "lower/matrix_nest.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kRows = 128, kColumns = 512;  // of a tile of results, at most

}  // namespace

std::optional<Stmt> ProductNest::outside() const {
  if (!exchanges()) return {};
  std::vector<int64_t> shape = counts_;
  shape.push_back(rows_);
  shape.push_back(columns_);
  return tile(workspace(), accType(), "main", shape);
}

Block ProductNest::run() {
  Block body;
  const Stmt space = tile("left", product_.left.type(), unit_.left, {kTwo, rows_, depth_});
  body.push_back(space);
  body.push_back(tile("right", product_.right.type(), unit_.right, {kTwo, depth_, columns_}));
  if (exchanges()) body.push_back(tile("here", accType(), target_.scratch, {rows_, columns_}));
  if (sums_.empty()) body.push_back(tile("acc", accType(), unit_.result, {rows_, columns_}));
  std::vector<int> around = product_.batch;
  for (const auto* axes : {&product_.rows, &product_.columns})
    for (int a : *axes)
      if (a != row_ && a != column_) around.push_back(a);
  outer(around, 0, body);
  Block out;
  out.push_back({BlockStmt{std::move(body)}, ""});
  return out;
}

int ProductNest::longest(const std::vector<int>& axes) const {
  int best = -1;
  for (int a : axes)
    if (best < 0 || most(a) > most(best)) best = a;
  return best;
}

void ProductNest::chooseDepth() {
  for (int a : product_.depth)
    if (deep_ < 0 || !asInteger(extent_[a]) || (asInteger(extent_[deep_]) && most(a) > most(deep_)))
      deep_ = a;
  std::vector<int> rest;
  for (int a : product_.depth)
    if (a != deep_) rest.push_back(a);
  std::ranges::stable_sort(rest, {}, [&](int a) { return most(a); });
  const int64_t budget = std::max<int64_t>(
      1, std::min(room(unit_.left), room(unit_.right)) / 2 / 128 / elementBytes());
  for (int a : rest) {
    const bool fits = asInteger(extent_[a]) && flatSize_ * most(a) <= budget;
    (fits ? flat_ : steps_).push_back(a);
    if (fits) flatSize_ *= most(a);
  }
}

void ProductNest::chooseTile() {
  const auto whole = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
  const auto extent = [&](int axis) { return this->most(axis); };
  rows_ = row_ < 0 ? 1 : std::min(whole(extent(row_), unit_.rows), whole(kRows, unit_.rows));
  columns_ = column_ < 0
                 ? 1
                 : std::min(whole(extent(column_), unit_.columns), whole(kColumns, unit_.columns));
  const int64_t acc = bytes(accType());
  if (exchanges()) {
    const int64_t tile = room(target_.scratch) / kExchangeShare / acc;
    columns_ = std::min(columns_, whole(std::min<int64_t>(128, tile), unit_.columns));
    while (rows_ * columns_ > tile && rows_ > unit_.rows) rows_ = whole(rows_ / 2, unit_.rows);
    while (rows_ * columns_ > tile && columns_ > unit_.columns)
      columns_ = whole(columns_ / 2, unit_.columns);
  }
  const int64_t most = room(unit_.result) / (sums_.empty() ? 2 : 1);  // beside other sums
  while (rows_ * columns_ * acc > most && columns_ > unit_.columns)
    columns_ = whole(columns_ / 2, unit_.columns);
  while (rows_ * columns_ * acc > most && rows_ > unit_.rows) rows_ = whole(rows_ / 2, unit_.rows);
  const int64_t element = elementBytes();
  int64_t deepest = std::min(room(unit_.left) / kTwo / (rows_ * element),
                             room(unit_.right) / kTwo / (columns_ * element));
  deepest = std::max<int64_t>(deepest, 1);
  deepBlock_ = std::max<int64_t>(1, deepest / flatSize_);
  if (deep_ >= 0) deepBlock_ = std::min(deepBlock_, extent(deep_));
  depth_ = deepBlock_ * flatSize_;
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
  if (k == axes.size()) return blocks(out);
  const int a = axes[k];
  const std::string v = loopName(a);
  ranges_[v] = {0, std::max<int64_t>(most(a) - 1, 0)};
  at_[stage_.axes[a].var] = low_[a] + var(v);
  Block body;
  outer(axes, k + 1, body);
  out.push_back(loopOver(v, extent_[a], std::move(body)));
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
  cut(row_, "mb", rows_, out, [&](Block& rows) {
    cut(column_, "nb", columns_, rows, [&](Block& columns) { oneTile(columns); });
  });
}

void ProductNest::oneTile(Block& out) {
  Expr step = 0, first = boolean(true);
  Block body;
  depthLoops(0, step, first, out);
  out.push_back({Sync{Sync::Queue, unit_.engine, 0}, ""});
  if (sums_.empty()) epilogue(out);
}

Ref ProductNest::results() const {
  if (sums_.empty()) return {"acc", {Expr(0), Expr(0)}};
  auto at = at_;
  at[stage_.axes[row_].var] = low_[row_] + var("mb") * Expr(rows_);
  at[stage_.axes[column_].var] = low_[column_] + var("nb") * Expr(columns_);
  std::vector<Expr> index;
  for (const Expr& e : stage_.outer[0].index) index.push_back(substitute(e, at));
  index = buffers_.index(sums_, index);
  for (Expr& e : index) e = simplify(e, ranges_);
  return {buffers_.names.at(sums_), std::move(index)};
}

void ProductNest::depthLoops(size_t k, Expr step, Expr first, Block& out) {
  if (k < steps_.size()) {
    const int a = steps_[k];
    const std::string v = loopName(a);
    ranges_[v] = {0, std::max<int64_t>(most(a) - 1, 0)};
    at_[stage_.axes[a].var] = low_[a] + var(v);
    Block body;
    depthLoops(k + 1, step * extent_[a] + var(v), logicalAnd(first, eq(var(v), Expr(0))), body);
    out.push_back(loopOver(v, extent_[a], std::move(body)));
    return;
  }
  cut(deep_, "kb", deepBlock_, out, [&](Block& body) {
    if (deep_ >= 0) {
      step = step * count(deep_, deepBlock_) + var("kb");
      first = logicalAnd(first, eq(var("kb"), Expr(0)));
    }
    multiply(simplify(floorMod(step, Expr(2)), ranges_), simplify(first, ranges_), body);
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
