#include <algorithm>

#include "lower/team.h"
#include "lower/team_panels.h"

namespace tektite {
namespace {

constexpr int kVector = 4;  // operands that a thread reads from shared memory at once

/// Each thread holds a register tile of the results.
class ProductNest : public TeamPanels {
 public:
  ProductNest(const Stage& stage, const TeamStage& schedule, int threads,
              const KernelBuffers& buffers, const Ranges& tiles)
      : TeamPanels(stage, schedule, threads, buffers, tiles) {
    const Expr across(product_.columns.threads);
    rowPlace_ = simplify(floorDiv(var(kThread), across), ranges_);
    columnPlace_ = simplify(floorMod(var(kThread), across), ranges_);
  }

 private:
  static int vectorOf(const Side& side) { return std::min(side.of.each, kVector); }
  Ref result(const Expr& u, const Expr& v) const {
    return {accumulator_.names[0], {var(kThread), u, v}};
  }

  void begin(Block& out) override {
    out.push_back({Alloc{{accumulator_.names[0],
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
    out.push_back(
        team(unrolled("u", rows_.of.each, unrolled("v", columns_.of.each, {{zero, ""}}))));
  }

  /// Where the thread's element of a side lies in a block: vectors of all threads side by side.
  Expr placeOf(const Side& side, const Expr& vector, const Expr& lane) const {
    const Expr& place = &side == &rows_ ? rowPlace_ : columnPlace_;
    return (vector * Expr(side.of.threads) + place) * Expr(vectorOf(side)) + lane;
  }
  /// For the vectors of a side (variable `v`) and their lanes ("l").
  static Block vectors(const Side& side, const std::string& v,
                       const std::function<Stmt(const Expr& vector, const Expr& lane)>& inside) {
    const int n = vectorOf(side);
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

  Stmt step(const std::function<void(Block&)>& bring, const Expr& panel) override {
    Block out;
    bring(out);
    append(out, multiply(panel));
    return team(std::move(out));
  }
  Block multiply(const Expr& panel) {
    Block step;
    ranges_["deep"] = {0, product_.depth - 1};
    ranges_["l"] = {0, kVector - 1};
    for (const Side* s : {&rows_, &columns_}) {
      const std::string held = "of_" + s->panel;
      step.push_back({Alloc{{held, s->of.value.type(), {Expr(s->of.each)}, {}, "reg", 0, ""}}, ""});
      append(step, vectors(*s, s == &rows_ ? "u" : "v", [&](const Expr& vector, const Expr& lane) {
               Store one;
               one.targets = {{held, {vector * Expr(vectorOf(*s)) + lane}}};
               const Ref from = inPanel(*s, panel, var("deep"), placeOf(*s, vector, lane));
               one.values = {load(from.buffer, s->of.value.type(), from.index)};
               return Stmt{std::move(one), ""};
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

  void results(Block& out) override {
    const int across = vectorOf(columns_), n = vectorOf(rows_);
    const Expr u = var("u"), v = var("v"), l = across > 1 ? var("l") : Expr(0);
    ranges_["u"] = {0, rows_.of.each - 1};
    ranges_["v"] = {0, columns_.of.each / across - 1};
    ranges_["l"] = {0, across - 1};
    std::vector<Expr> inRows, inColumns;
    const Expr row = placeOf(rows_, floorDiv(u, Expr(n)), floorMod(u, Expr(n)));
    decode(simplify(rows_.first + row, ranges_), rows_.of.axes, 1, inRows);
    decode(simplify(columns_.first + placeOf(columns_, v, l), ranges_), columns_.of.axes, 1,
           inColumns);
    const Ref r = result(u, simplify(v * Expr(across) + l, ranges_));
    const Results values = {
        {accumulator_.names[0], load(r.buffer, accumulator_.combine.types[0], r.index)}};
    Block stores, masked, lanes, row_;
    for (const StageStore& s : stage_.outer) add(stores, s, values);
    addIf(masked, inColumns, std::move(stores));
    if (across > 1)
      lanes.push_back(loop("l", across, LoopMode::Vector, std::move(masked)));
    else
      lanes = std::move(masked);
    addIf(row_, inRows, unrolled("v", columns_.of.each / across, std::move(lanes)));
    out.push_back(team(unrolled("u", rows_.of.each, std::move(row_))));
  }

  Expr rowPlace_, columnPlace_;
};

}  // namespace

Block lowerTeamProduct(const Stage& stage, const TeamStage& schedule, int threads,
                       const KernelBuffers& buffers, const Ranges& tiles) {
  return schedule.product.matrix ? lowerTeamMatrix(stage, schedule, threads, buffers, tiles)
                                 : ProductNest(stage, schedule, threads, buffers, tiles).run();
}

}  // namespace tektite
