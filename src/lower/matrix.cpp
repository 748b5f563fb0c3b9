#include <algorithm>

#include "lower/dma.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kRows = 128, kColumns = 512;  // of a tile of results, at most

Stmt loopOver(std::string v, Expr extent, Block body) {
  return {For{std::move(v), std::move(extent), LoopMode::Serial, std::move(body)}, ""};
}

class ProductNest {
 public:
  ProductNest(const Stage& stage, const Product& product, const KernelBuffers& buffers,
              const Ranges& tiles, const std::vector<const TileAxis*>& grid, const Target& target,
              KernelModule& module)
      : stage_(stage),
        product_(product),
        buffers_(buffers),
        ranges_(tiles),
        unit_(target.matrix),
        target_(target),
        module_(module) {
    for (const StageAxis& a : stage.axes) {
      const Expr low = simplify(max(a.region.base, 0), ranges_);
      low_.push_back(low);
      extent_.push_back(
          simplify(min(a.region.base + Expr(a.region.size), a.extent) - low, ranges_));
    }
    for (const TileAxis* t : grid) grid_.push_back(t->var), counts_.push_back(t->count());
    row_ = longest(product.rows);
    column_ = longest(product.columns);
    const std::string sums = addsTo(stage, product);
    if (!sums.empty() && buffers.plan.buffer(sums).space == unit_.result) sums_ = sums;
    chooseDepth();
    chooseTile();
  }

  /// Memory outside of the grid, if results pass through it.
  std::optional<Stmt> outside() const {
    if (!exchanges()) return {};
    std::vector<int64_t> shape = counts_;
    shape.push_back(rows_);
    shape.push_back(columns_);
    return tile(workspace(), accType(), "main", shape);
  }

  Block run() {
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

 private:
  static constexpr int64_t kTwo = 2;
  const Stage& stage_;
  const Product& product_;
  const KernelBuffers& buffers_;
  Ranges ranges_;
  const MatrixUnit& unit_;
  const Target& target_;
  KernelModule& module_;
  std::vector<Expr> low_, extent_;
  int row_ = -1, column_ = -1, deep_ = -1;  // the axes that are cut
  std::vector<int> flat_, steps_;           // whole axes of a depth tile; loops around
  int64_t rows_ = 1, columns_ = 1, depth_ = 1, deepBlock_ = 1, flatSize_ = 1;
  std::unordered_map<std::string, Expr> at_;
  std::vector<std::string> grid_;  // its variables, and how many tiles each counts
  std::vector<int64_t> counts_;
  std::string sums_;  // what the product adds to; empty: a tile of its own

  /// Do results reach the vector instructions through main memory only?
  bool exchanges() const { return target_.operands != target_.scratch && !storesItself(stage_); }
  std::string workspace() const { return "ws_" + stage_.accumulators[0].names[0]; }
  DType accType() const { return stage_.accumulators[0].combine.types[0]; }
  int64_t most(int axis) const {
    return std::min(stage_.axes[axis].region.size, stage_.axes[axis].extent);
  }
  int longest(const std::vector<int>& axes) const {
    int best = -1;
    for (int a : axes)
      if (best < 0 || most(a) > most(best)) best = a;
    return best;
  }
  int64_t room(const std::string& level) const { return target_.level(level)->bytes; }
  int elementBytes() const {
    return std::max(bytes(product_.left.type()), bytes(product_.right.type()));
  }
  std::string loopName(int axis) const {
    const std::string& name = stage_.axes[axis].var;
    return dtypeFromName(name) ? name + "_" : name;
  }

  /// One reduce axis is cut, the small ones lie whole in a tile, what doesn't fit is a loop.
  void chooseDepth() {
    for (int a : product_.depth)
      if (deep_ < 0 || !asInteger(extent_[a]) ||
          (asInteger(extent_[deep_]) && most(a) > most(deep_)))
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
  void chooseTile() {
    const auto whole = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
    const auto extent = [&](int axis) { return this->most(axis); };
    rows_ = row_ < 0 ? 1 : std::min(whole(extent(row_), unit_.rows), whole(kRows, unit_.rows));
    columns_ = column_ < 0 ? 1
                           : std::min(whole(extent(column_), unit_.columns),
                                      whole(kColumns, unit_.columns));
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
    while (rows_ * columns_ * acc > most && rows_ > unit_.rows)
      rows_ = whole(rows_ / 2, unit_.rows);
    const int64_t element = elementBytes();
    int64_t deepest = std::min(room(unit_.left) / kTwo / (rows_ * element),
                               room(unit_.right) / kTwo / (columns_ * element));
    deepest = std::max<int64_t>(deepest, 1);
    deepBlock_ = std::max<int64_t>(1, deepest / flatSize_);
    if (deep_ >= 0) deepBlock_ = std::min(deepBlock_, extent(deep_));
    depth_ = deepBlock_ * flatSize_;
  }

  Stmt tile(const std::string& name, DType type, const std::string& space,
            std::vector<int64_t> shape) const {
    Buffer b;
    b.name = name;
    b.type = type;
    b.space = space;
    for (int64_t n : shape) b.shape.emplace_back(n);
    if (const Level* level = target_.level(space); level->align > bytes(type)) b.align = level->align;
    return {Alloc{std::move(b)}, ""};
  }

  void outer(const std::vector<int>& axes, size_t k, Block& out) {
    if (k == axes.size()) return blocks(out);
    const int a = axes[k];
    const std::string v = loopName(a);
    ranges_[v] = {0, std::max<int64_t>(most(a) - 1, 0)};
    at_[stage_.axes[a].var] = low_[a] + var(v);
    Block body;
    outer(axes, k + 1, body);
    out.push_back(loopOver(v, extent_[a], std::move(body)));
  }

  Expr count(int axis, int64_t block) {
    return simplify(floorDiv(extent_[axis] + Expr(block - 1), Expr(block)), ranges_);
  }
  Expr part(int axis, const Expr& block, int64_t size) const {
    return simplify(min(Expr(size), extent_[axis] - block * Expr(size)), ranges_);
  }
  void cut(int axis, const std::string& v, int64_t block, Block& out,
           const std::function<void(Block&)>& inside) {
    if (axis < 0) return inside(out);
    ranges_[v] = {0, std::max<int64_t>((most(axis) + block - 1) / block - 1, 0)};
    Block body;
    inside(body);
    out.push_back(loopOver(v, count(axis, block), std::move(body)));
  }

  void blocks(Block& out) {
    cut(row_, "mb", rows_, out, [&](Block& rows) {
      cut(column_, "nb", columns_, rows, [&](Block& columns) { oneTile(columns); });
    });
  }
  Expr rowsHere() const { return row_ < 0 ? Expr(1) : part(row_, var("mb"), rows_); }
  Expr columnsHere() const { return column_ < 0 ? Expr(1) : part(column_, var("nb"), columns_); }

  void oneTile(Block& out) {
    Expr step = 0, first = boolean(true);
    Block body;
    depthLoops(0, step, first, out);
    out.push_back({Sync{Sync::Queue, unit_.engine, 0}, ""});
    if (sums_.empty()) epilogue(out);
  }
  /// The first element of the results' tile.
  Ref results() const {
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
  void depthLoops(size_t k, Expr step, Expr first, Block& out) {
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

  /// Feeds both operands' tiles into the half that no running instruction reads, and multiplies.
  void multiply(const Expr& half, const Expr& first, Block& out) {
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
  const std::string& feeder(const std::string& to) const {
    const MemoryPath* p = target_.path(target_.operands, to);
    TEKTITE_CHECK(p, "no path from {} to {}", target_.operands, to);
    return p->engine;
  }
  std::vector<std::string> feeders() const {
    const std::string &l = feeder(unit_.left), &r = feeder(unit_.right);
    return l == r ? std::vector<std::string>{l} : std::vector<std::string>{l, r};
  }

  void feed(const std::string& name, const Expr& from, const Expr& half, int axis,
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
    c.to = Ref{name,
               left ? std::vector<Expr>{half, side, depth} : std::vector<Expr>{half, depth, side}};
    c.queue = feeder(left ? unit_.left : unit_.right);
    out.push_back({std::move(c), ""});
  }

  void epilogue(Block& out) {
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
  void exchange(Block& out) const {
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
  Expr translated(const Expr& e, const std::unordered_map<std::string, Expr>& at) const {
    const Expr named = rewrite(substitute(e, at), [&](const Expr& x) -> Expr {
      const Load* l = x.as<Load>();
      if (!l || !buffers_.names.count(l->buffer)) return {};
      return load(buffers_.names.at(l->buffer), x.type(), buffers_.index(l->buffer, l->index));
    });
    return simplify(named, ranges_);
  }

  /// The instruction for these types, declared once.
  std::string instruction() {
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
};

}  // namespace

Block lowerProduct(const Stage& stage, const Product& product, const KernelBuffers& buffers,
                   const Ranges& tiles, const std::vector<const TileAxis*>& grid,
                   const Target& target, KernelModule& module, Block& outside) {
  ProductNest nest(stage, product, buffers, tiles, grid, target, module);
  if (auto workspace = nest.outside()) outside.push_back(std::move(*workspace));
  return nest.run();
}

}  // namespace tektite
