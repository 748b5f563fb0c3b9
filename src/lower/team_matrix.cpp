#include "lower/team.h"
#include "lower/team_panels.h"

namespace tektite {
namespace {

/// Each warp holds tiles of the results in fragments, and multiplies by instructions. Results go to the stores that follow through shared
/// memory, so that neighbours write neighbours.
class MatrixNest : public TeamPanels {
 public:
  using TeamPanels::TeamPanels;

 private:
  int64_t rowTiles() const { return rows_.of.each / kMatrixRows; }
  int64_t columnTiles() const { return columns_.of.each / kMatrixColumns; }
  Stmt warps(Block body) const {
    return loop(kWarp, threads_ / warp_, LoopMode::Warp, std::move(body));
  }
  static Stmt call(const std::string& name, std::vector<Ref> tiles) {
    Intrin i{name, {}, ""};
    for (Ref& r : tiles) i.args.push_back({std::move(r)});
    return {std::move(i), ""};
  }
  Ref tile() const {
    return {accumulator_.names[0], {var(kWarp), var("u"), var("v"), Expr(0), Expr(0)}};
  }
  static Buffer fragment(std::string name, DType type, std::vector<Expr> shape) {
    return {std::move(name), type, std::move(shape), {}, "frag", 0, ""};
  }
  /// Where this warp's part of a side begins in a block.
  Expr partOf(const Side& side) const {
    const Expr across(columns_.of.threads);
    const Expr place =
        &side == &rows_ ? floorDiv(var(kWarp), across) : floorMod(var(kWarp), across);
    return simplify(place, ranges_) * Expr(side.of.each);
  }

  void begin(Block& out) override {
    warpsInRange();
    out.push_back({Alloc{fragment(accumulator_.names[0], DType::F32,
                                  {Expr(threads_ / warp_), Expr(rowTiles()), Expr(columnTiles()),
                                   Expr(kMatrixRows), Expr(kMatrixColumns)})},
                   ""});
    out.push_back(warps(eachTile({call("mma.zero", {tile()})})));
  }
  Block eachTile(Block body) const {
    return unrolled("u", rowTiles(), unrolled("v", columnTiles(), std::move(body)));
  }

  Stmt step(const std::function<void(Block&)>& bring, const Expr& panel) override {
    Block out;
    {
      const InWarps inWarps(*this);
      Block copies;
      bring(copies);
      if (!copies.empty()) out.push_back(loop(kThread, warp_, LoopMode::Thread, std::move(copies)));
    }
    append(out, multiply(panel));
    return warps(std::move(out));
  }
  Block multiply(const Expr& panel) const {
    const MatrixProduct& unit = *product_.matrix;
    const Expr u = var("u"), v = var("v"), deep = var("deep") * Expr(unit.depth), zero = 0;
    Block step, columns;
    step.push_back({Alloc{fragment("of_rows", unit.operand,
                                   {Expr(rowTiles()), Expr(kMatrixRows), Expr(unit.depth)})},
                    ""});
    append(step, unrolled("u", rowTiles(),
                          {call(unit.loadRows, {{"of_rows", {u, zero, zero}},
                                                inPanel(rows_, panel, deep,
                                                        partOf(rows_) + u * Expr(kMatrixRows))})}));
    columns.push_back(
        {Alloc{fragment("of_columns", unit.operand, {Expr(unit.depth), Expr(kMatrixColumns)})},
         ""});
    columns.push_back(
        call(unit.loadColumns,
             {{"of_columns", {zero, zero}},
              inPanel(columns_, panel, deep, partOf(columns_) + v * Expr(kMatrixColumns))}));
    append(columns,
           unrolled("u", rowTiles(),
                    {call(unit.name,
                          {tile(), {"of_rows", {u, zero, zero}}, {"of_columns", {zero, zero}}})}));
    append(step, unrolled("v", columnTiles(), std::move(columns)));
    return unrolled("deep", product_.depth / unit.depth, std::move(step));
  }

  void results(Block& out) override {
    const int64_t height = rows_.of.block(), width = columns_.of.block();
    Block scope;
    scope.push_back({Alloc{{"results",
                            DType::F32,
                            {Expr(height), Expr(width + kMatrixPadding)},
                            {},
                            "shared",
                            0,
                            ""}},
                     ""});
    scope.push_back(warps(eachTile({call(
        "mma.store", {{"results", simplified({partOf(rows_) + var("u") * Expr(kMatrixRows),
                                              partOf(columns_) + var("v") * Expr(kMatrixColumns)})},
                      tile()})})));
    Block body;
    rounds(body, height * width, threads_, "results_round", thread_,
           [&](Block& round, const Expr& number) {
             const Expr row = simplify(floorDiv(number, Expr(width)), ranges_),
                        column = simplify(floorMod(number, Expr(width)), ranges_);
             std::vector<Expr> conditions;
             if (height * width % threads_) conditions.push_back(lt(number, height * width));
             decode(simplify(rows_.first + row, ranges_), rows_.of.axes, 1, conditions);
             decode(simplify(columns_.first + column, ranges_), columns_.of.axes, 1, conditions);
             const Results values = {
                 {accumulator_.names[0],
                  cast(accumulator_.combine.types[0], load("results", DType::F32, {row, column}))}};
             Block stores;
             for (const StageStore& s : stage_.outer) add(stores, s, values);
             addIf(round, conditions, std::move(stores));
           });
    scope.push_back(team(std::move(body)));
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }
};

}  // namespace

Block lowerTeamMatrix(const Stage& stage, const TeamStage& schedule, int threads,
                      const KernelBuffers& buffers, const Ranges& tiles) {
  return MatrixNest(stage, schedule, threads, buffers, tiles).run();
}

}  // namespace tektite
