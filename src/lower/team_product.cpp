#include <algorithm>

#include "lower/team.h"
#include "lower/team_points.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kVector = 4;  // operands that a thread reads from shared memory at once

/// One operand: its axes but those of the reduction, and its panel in shared memory.
struct Side {
  Expr value;
  const std::vector<int>& axes;
  int threads, each;         // along these axes
  std::string panel, block;  // names: of the buffer, of the variable that counts blocks
  Expr place;                // of this thread among those along these axes
  bool alongDepth;           // neighbours in memory are neighbours in the reduction
  int64_t size() const { return int64_t{threads} * each; }
  int64_t width() const { return size() + (alongDepth ? kPanelPadding : 0); }
  int vector() const { return std::min(each, kVector); }
};

class ProductNest : TeamPoints {
 public:
  ProductNest(const Stage& stage, const TeamStage& schedule, int threads,
              const KernelBuffers& buffers, const Ranges& tiles)
      : TeamPoints(stage, threads, buffers, tiles),
        schedule_(schedule),
        product_(schedule.product),
        accumulator_(stage.accumulators[0]),
        rows_{product_.left,
              product_.rows,
              product_.rowThreads,
              product_.rowsEach,
              "rows",
              "rb",
              simplify(floorDiv(var(kThread), Expr(product_.columnThreads)), ranges_),
              alongDepth(product_.left, product_.rows)},
        columns_{product_.right,
                 product_.columns,
                 product_.columnThreads,
                 product_.columnsEach,
                 "columns",
                 "cb",
                 simplify(floorMod(var(kThread), Expr(product_.columnThreads)), ranges_),
                 alongDepth(product_.right, product_.columns)} {}

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
    const int64_t count = (pointsOf(side.axes) + side.size() - 1) / side.size();
    if (count == 1) {
      first_[side.block] = 0;
      return inside(out);
    }
    first_[side.block] = var(side.block) * Expr(side.size());
    serial(out, side.block, count, count, inside);
  }

  void block(Block& out) {
    Block scope;
    for (const Side* s : {&rows_, &columns_})
      scope.push_back({Alloc{{s->panel,
                              s->value.type(),
                              {Expr(product_.depth), Expr(s->width())},
                              {},
                              "shared",
                              kVector * bytes(s->value.type()),
                              ""}},
                       ""});
    scope.push_back({Alloc{{accumulator_.names[0],
                            accumulator_.combine.types[0],
                            {Expr(threads_), Expr(rows_.each), Expr(columns_.each)},
                            {},
                            "reg",
                            0,
                            ""}},
                     ""});
    Store zero;
    zero.targets = {result(var("u"), var("v"))};
    zero.values = accumulator_.combine.identity;
    scope.push_back(team(unrolled("u", rows_.each, unrolled("v", columns_.each, {{zero, ""}}))));
    const int64_t steps = pointsOf(schedule_.reduce),
                  panels = (steps + product_.depth - 1) / product_.depth;
    const auto panel = [&](Block& inner, const Expr& start) {
      Block fills;
      for (const Side* s : {&rows_, &columns_}) fill(fills, *s, start);
      inner.push_back(team(std::move(fills)));
      inner.push_back(team(multiply()));
    };
    if (panels == 1)
      panel(scope, 0);
    else
      serial(scope, "panel", panels, panels,
             [&](Block& inner) { panel(inner, var("panel") * Expr(product_.depth)); });
    results(scope);
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }

  // ---- operands

  /// Do steps of the reduction move less in memory than steps along the side?
  bool alongDepth(const Expr& value, const std::vector<int>& axes) const {
    if (schedule_.reduce.empty()) return false;
    int near = 0;
    for (const Expr& e : loadsOf(value)) {
      const PlanBuffer& b = buffers_.plan.buffer(e.as<Load>()->buffer);
      const auto step = [&](int axis) {
        return strideAlong(b, e.as<Load>()->index, stage_.axes[axis].var) == 1;
      };
      near += step(schedule_.reduce.back());
      if (!axes.empty()) near -= 2 * step(axes.back());
    }
    return near > 0;
  }

  /// All threads bring the panel's elements; what lies outside is zero.
  void fill(Block& out, const Side& side, const Expr& start) {
    const int64_t total = product_.depth * side.size();
    const std::string v = side.panel + "_round";
    rounds(out, total, threads_, v, var(kThread), [&](Block& body, const Expr& number) {
      const Expr minor(side.alongDepth ? product_.depth : side.size());
      const Expr low = simplify(floorMod(number, minor), ranges_),
                 high = simplify(floorDiv(number, minor), ranges_);
      const Expr deep = side.alongDepth ? low : high, across = side.alongDepth ? high : low;
      std::vector<Expr> conditions;
      decode(simplify(start + deep, ranges_), schedule_.reduce, 1, conditions);
      decode(simplify(first_.at(side.block) + across, ranges_), side.axes, 1, conditions);
      Expr inside = boolean(true);
      for (const Expr& c : conditions) inside = logicalAnd(inside, c);
      Store s;
      s.targets = {{side.panel, {deep, across}}};
      s.values = {select(inside, translate(side.value), imm(side.value.type(), 0))};
      Block store;
      store.push_back({std::move(s), ""});
      std::vector<Expr> there;
      if (total % threads_) there.push_back(simplify(lt(number, Expr(total)), ranges_));
      addIf(body, there, std::move(store));
    });
  }

  /// Where the thread's element `n` of a side lies in a block: vectors of all threads side by side.
  static Expr placeOf(const Side& side, const Expr& vector, const Expr& lane) {
    return (vector * Expr(side.threads) + side.place) * Expr(side.vector()) + lane;
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
    return unrolled(v, side.each / n, std::move(body));
  }
  static Block unrolled(const std::string& v, int n, Block body) {
    Block out;
    out.push_back(loop(v, n, LoopMode::Unroll, std::move(body)));
    return out;
  }

  Block multiply() {
    Block step;
    ranges_["deep"] = {0, product_.depth - 1};
    for (const Side* s : {&rows_, &columns_}) {
      const std::string held = "of_" + s->panel;
      step.push_back({Alloc{{held, s->value.type(), {Expr(s->each)}, {}, "reg", 0, ""}}, ""});
      append(step, vectors(*s, s == &rows_ ? "u" : "v", [&](const Expr& vector, const Expr& lane) {
               Store load_;
               load_.targets = {{held, {vector * Expr(s->vector()) + lane}}};
               load_.values = {load(s->panel, s->value.type(),
                                    {var("deep"), simplify(placeOf(*s, vector, lane), ranges_)})};
               return Stmt{std::move(load_), ""};
             }));
    }
    Store sum;
    sum.targets = {result(var("u"), var("v"))};
    sum.values = {load("of_rows", product_.left.type(), {var("u")}) *
                  load("of_columns", product_.right.type(), {var("v")})};
    sum.combine = accumulator_.combine.name;
    append(step, unrolled("u", rows_.each, unrolled("v", columns_.each, {{sum, ""}})));
    return unrolled("deep", product_.depth, std::move(step));
  }

  // ---- results

  Ref result(const Expr& u, const Expr& v) const {
    return {accumulator_.names[0], {var(kThread), u, v}};
  }
  void results(Block& out) {
    const Expr u = var("u"), v = var("v"), l = columns_.vector() > 1 ? var("l") : Expr(0);
    ranges_["u"] = {0, rows_.each - 1};
    ranges_["v"] = {0, columns_.each / columns_.vector() - 1};
    ranges_["l"] = {0, columns_.vector() - 1};
    const int n = rows_.vector();
    std::vector<Expr> inRows, inColumns;
    const Expr row = placeOf(rows_, floorDiv(u, Expr(n)), floorMod(u, Expr(n)));
    decode(simplify(first_.at(rows_.block) + row, ranges_), rows_.axes, 1, inRows);
    decode(simplify(first_.at(columns_.block) + placeOf(columns_, v, l), ranges_), columns_.axes, 1,
           inColumns);
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
    addIf(row_, inRows, unrolled("v", columns_.each / columns_.vector(), std::move(lanes)));
    out.push_back(team(unrolled("u", rows_.each, std::move(row_))));
  }

  const TeamStage& schedule_;
  const TeamProduct& product_;
  const Accumulator& accumulator_;
  const Side rows_, columns_;
  std::map<std::string, Expr> first_;  // of a side's elements in this block
};

}  // namespace

Block lowerTeamProduct(const Stage& stage, const TeamStage& schedule, int threads,
                       const KernelBuffers& buffers, const Ranges& tiles) {
  return ProductNest(stage, schedule, threads, buffers, tiles).run();
}

}  // namespace tektite
