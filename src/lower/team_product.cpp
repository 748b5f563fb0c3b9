#include <algorithm>

#include "lower/team.h"
#include "lower/team_points.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kVector = 4;  // operands that a thread reads from shared memory at once

/// An operand, and what stands for it in the kernel.
struct Side {
  const TeamOperand& of;
  std::string panel, block;  // names: of the buffer, of the variable that counts blocks
  Expr place;                // of this thread among those along these axes
  int vector() const { return std::min(of.each, kVector); }
};

class ProductNest : TeamPoints {
 public:
  ProductNest(const Stage& stage, const TeamStage& schedule, int threads,
              const KernelBuffers& buffers, const Ranges& tiles)
      : TeamPoints(stage, threads, buffers, tiles),
        schedule_(schedule),
        product_(schedule.product),
        accumulator_(stage.accumulators[0]),
        panels_(panelsOf(schedule, stage)),
        rows_{product_.rows, "rows", "rb",
              simplify(floorDiv(var(kThread), Expr(product_.columns.threads)), ranges_)},
        columns_{product_.columns, "columns", "cb",
                 simplify(floorMod(var(kThread), Expr(product_.columns.threads)), ranges_)} {}

  Block run() {
    Block out;
    batches(0, out);
    return out;
  }

 private:
  // ---- loops of the whole team

  void batches(size_t k, Block& out) {
    if (k < product_.batch.size())
      return axisLoop(out, product_.batch[k], [&](Block& inner) { batches(k + 1, inner); });
    blocks(out, rows_, [&](Block& inner) { blocks(inner, columns_, [&](Block& b) { block(b); }); });
  }
  /// A loop over the blocks of a side; where there is only one, its number is 0.
  void blocks(Block& out, const Side& side, const Fill& inside) {
    const int64_t count = (pointsOf(side.of.axes) + side.of.block() - 1) / side.of.block();
    if (count == 1) {
      first_[side.block] = 0;
      return inside(out);
    }
    first_[side.block] = var(side.block) * Expr(side.of.block());
    serial(out, side.block, count, count, inside);
  }

  void block(Block& out) {
    Block scope;
    for (const Side* s : {&rows_, &columns_}) allocate(scope, *s);
    scope.push_back({Alloc{{accumulator_.names[0],
                            accumulator_.combine.types[0],
                            {Expr(threads_), Expr(rows_.of.each), Expr(columns_.of.each)},
                            {},
                            "reg",
                            0,
                            ""}},
                     ""});
    Store zero;
    zero.targets = {result(var("u"), var("v"))};
    zero.values = accumulator_.combine.identity;
    Block first = unrolled("u", rows_.of.each, unrolled("v", columns_.of.each, {{zero, ""}}));
    bring(first, 0);
    scope.push_back(team(std::move(first)));
    if (panels_ == 1) {
      arrived(scope);
      scope.push_back(team(multiply(0)));
    } else {
      serial(scope, "panel", panels_, panels_, [&](Block& inner) {
        arrived(inner);
        Block next, both;
        const Expr there = lt(var("panel") + Expr(1), Expr(panels_));
        facts_ = {there};
        bring(next, var("panel") + Expr(1));
        facts_.clear();
        addIf(both, {there}, std::move(next));
        append(both, multiply(var("panel")));
        inner.push_back(team(std::move(both)));
      });
    }
    results(scope);
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }
  /// The panel is there for all, and nobody reads the one before it any more.
  void arrived(Block& out) const {
    if (product_.rows.copied || product_.columns.copied)
      out.push_back({Sync{Sync::Queue, kCopyQueue, 0}, ""});
    out.push_back({Sync{Sync::Shared, "", 0}, ""});
  }

  // ---- operands

  void allocate(Block& out, const Side& side) const {
    const DType type = side.of.value.type();
    Buffer b{side.panel, type, {}, {}, "shared", kVector * bytes(type), ""};
    if (panels_ > 1) b.shape.emplace_back(2);
    b.shape.emplace_back(product_.depth);
    b.shape.emplace_back(side.of.width());
    if (side.of.copied * bytes(type) > b.align) b.align = side.of.copied * bytes(type);
    out.push_back({Alloc{std::move(b)}, ""});
  }
  Ref inPanel(const Side& side, const Expr& panel, const Expr& deep, const Expr& across) const {
    Ref r{side.panel, {}};
    if (panels_ > 1) r.index.push_back(floorMod(panel, Expr(2)));
    r.index.push_back(deep);
    r.index.push_back(across);
    r.index = simplified(std::move(r.index));
    return r;
  }

  void bring(Block& out, const Expr& panel) {
    for (const Side* s : {&rows_, &columns_}) bring(out, *s, panel);
  }
  /// All threads bring the panel's elements; what lies outside is zero.
  void bring(Block& out, const Side& side, const Expr& panel) {
    const TeamOperand& o = side.of;
    const int n = std::max(1, o.copied);
    ranges_["l"] = {0, n - 1};
    const int64_t total = product_.depth * o.block() / n;
    const std::string v = side.panel + "_round";
    rounds(out, total, threads_, v, var(kThread), [&](Block& body, const Expr& number) {
      const Expr minor(o.alongDepth ? product_.depth : o.block() / n);
      const Expr low = simplify(floorMod(number, minor), ranges_),
                 high = simplify(floorDiv(number, minor), ranges_);
      const Expr deep = o.alongDepth ? low : high, across = o.alongDepth ? high : low;
      std::vector<Expr> conditions;
      decode(simplify(panel * Expr(product_.depth) + deep, ranges_), schedule_.reduce, 1,
             conditions);
      decode(simplify(floorDiv(first_.at(side.block), Expr(n)) + across, ranges_), o.axes, n,
             conditions);
      Block element;
      if (o.copied)
        element.push_back(copy(side, panel, deep, across));
      else
        element.push_back(loadAndStore(side, panel, deep, across, conditions));
      std::vector<Expr> there;
      if (total % threads_) there.push_back(simplify(lt(number, Expr(total)), ranges_));
      addIf(body, there, std::move(element));
    });
  }
  Stmt loadAndStore(const Side& side, const Expr& panel, const Expr& deep, const Expr& across,
                    const std::vector<Expr>& conditions) const {
    Expr inside = boolean(true);
    for (const Expr& c : conditions) inside = logicalAnd(inside, c);
    Store s;
    s.targets = {inPanel(side, panel, deep, across)};
    s.values = {select(inside, translate(side.of.value), imm(side.of.value.type(), 0))};
    return {std::move(s), ""};
  }
  /// Beyond the buffer is zero; what lies in it, but beyond the tile, only reaches results that nobody stores.
  Stmt copy(const Side& side, const Expr& panel, const Expr& deep, const Expr& across) const {
    const Expr from = translate(side.of.value);
    const Load& l = *from.as<Load>();
    const Expr n(side.of.copied);
    Copy c;
    c.to = inPanel(side, panel, deep, across * n + var("l"));
    c.from = {l.buffer, l.index};
    c.axes = {{"l", n}};
    c.fill = imm(side.of.value.type(), 0);
    c.queue = kCopyQueue;
    return {std::move(c), ""};
  }

  /// Where the thread's element `n` of a side lies in a block: vectors of all threads side by side.
  static Expr placeOf(const Side& side, const Expr& vector, const Expr& lane) {
    return (vector * Expr(side.of.threads) + side.place) * Expr(side.vector()) + lane;
  }
  /// For the vectors of a side (variable `v`) and their lanes ("l").
  Block vectors(const Side& side, const std::string& v,
                const std::function<Stmt(const Expr& vector, const Expr& lane)>& inside) const {
    const int n = side.vector();
    Block body;
    if (n == 1) {
      body.push_back(inside(var(v), 0));
    } else {
      Block one;
      one.push_back(inside(var(v), var("l")));
      body.push_back(loop("l", n, LoopMode::Vector, std::move(one)));
    }
    return unrolled(v, side.of.each / n, std::move(body));
  }
  static Block unrolled(const std::string& v, int n, Block body) {
    Block out;
    out.push_back(loop(v, n, LoopMode::Unroll, std::move(body)));
    return out;
  }

  Block multiply(const Expr& panel) {
    Block step;
    ranges_["deep"] = {0, product_.depth - 1};
    ranges_["l"] = {0, kVector - 1};
    for (const Side* s : {&rows_, &columns_}) {
      const std::string held = "of_" + s->panel;
      step.push_back({Alloc{{held, s->of.value.type(), {Expr(s->of.each)}, {}, "reg", 0, ""}}, ""});
      append(step, vectors(*s, s == &rows_ ? "u" : "v", [&](const Expr& vector, const Expr& lane) {
               Store load_;
               load_.targets = {{held, {vector * Expr(s->vector()) + lane}}};
               const Ref from = inPanel(*s, panel, var("deep"), placeOf(*s, vector, lane));
               load_.values = {load(from.buffer, s->of.value.type(), from.index)};
               return Stmt{std::move(load_), ""};
             }));
    }
    Store sum;
    sum.targets = {result(var("u"), var("v"))};
    sum.values = {load("of_rows", product_.rows.value.type(), {var("u")}) *
                  load("of_columns", product_.columns.value.type(), {var("v")})};
    sum.combine = accumulator_.combine.name;
    append(step, unrolled("u", rows_.of.each, unrolled("v", columns_.of.each, {{sum, ""}})));
    return unrolled("deep", product_.depth, std::move(step));
  }

  // ---- results

  Ref result(const Expr& u, const Expr& v) const {
    return {accumulator_.names[0], {var(kThread), u, v}};
  }
  void results(Block& out) {
    const Expr u = var("u"), v = var("v"), l = columns_.vector() > 1 ? var("l") : Expr(0);
    ranges_["u"] = {0, rows_.of.each - 1};
    ranges_["v"] = {0, columns_.of.each / columns_.vector() - 1};
    ranges_["l"] = {0, columns_.vector() - 1};
    const int n = rows_.vector();
    std::vector<Expr> inRows, inColumns;
    const Expr row = placeOf(rows_, floorDiv(u, Expr(n)), floorMod(u, Expr(n)));
    decode(simplify(first_.at(rows_.block) + row, ranges_), rows_.of.axes, 1, inRows);
    decode(simplify(first_.at(columns_.block) + placeOf(columns_, v, l), ranges_), columns_.of.axes,
           1, inColumns);
    const Ref r = result(u, simplify(v * Expr(columns_.vector()) + l, ranges_));
    const Results values = {
        {accumulator_.names[0], load(r.buffer, accumulator_.combine.types[0], r.index)}};
    Block stores, masked, lanes, row_;
    for (const StageStore& s : stage_.outer) add(stores, s, values);
    addIf(masked, inColumns, std::move(stores));
    if (columns_.vector() > 1)
      lanes.push_back(loop("l", columns_.vector(), LoopMode::Vector, std::move(masked)));
    else
      lanes = std::move(masked);
    addIf(row_, inRows, unrolled("v", columns_.of.each / columns_.vector(), std::move(lanes)));
    out.push_back(team(unrolled("u", rows_.of.each, std::move(row_))));
  }

  const TeamStage& schedule_;
  const TeamProduct& product_;
  const Accumulator& accumulator_;
  const int64_t panels_;
  const Side rows_, columns_;
  std::map<std::string, Expr> first_;  // of a side's elements in this block
};

}  // namespace

Block lowerTeamProduct(const Stage& stage, const TeamStage& schedule, int threads,
                       const KernelBuffers& buffers, const Ranges& tiles) {
  return ProductNest(stage, schedule, threads, buffers, tiles).run();
}

}  // namespace tektite
