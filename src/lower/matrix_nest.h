#pragma once
#include <algorithm>
#include <functional>

#include "fusion/product_tile.h"
#include "lower/dma.h"
#include "schedule/layout.h"

namespace tektite {

inline Stmt loopOver(std::string v, Expr extent, Block body) {
  return {For{std::move(v), std::move(extent), LoopMode::Serial, std::move(body)}, ""};
}

inline void addParam(IntrinDef& to, Param::Mode mode, std::string name, DType type,
                     std::vector<Expr> shape, const std::string& space) {
  Buffer b;
  b.name = std::move(name);
  b.type = type;
  b.shape = std::move(shape);
  b.space = space;
  to.params.push_back({mode, std::move(b)});
  to.isDim.push_back(false);
}

/// A product by the matrix unit: blocks of results, each summed up tile by tile along the depth, operands fed in halves.
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
    const std::string sums = addsTo(stage, product);
    if (!sums.empty() && buffers.plan.buffer(sums).space == unit_.result) sums_ = sums;
    goesOut_ =
        sums_.empty() && scalesSums(stage, product, target) && isOnChip(stage.outer[0].buffer);
    for (const Expr& l : goesOut_ ? loadsOf(stage.outer[0].value) : std::vector<Expr>{})
      goesOut_ = goesOut_ && isOnChip(l.as<Load>()->buffer);
    std::vector<ProductAxis> axes;
    for (size_t a = 0; a < stage.axes.size(); a++) {
      axes.push_back({sizeOf(static_cast<int>(a)), asInteger(extent_[a]).has_value()});
    }
    const bool others =
        std::ranges::count(buffers.plan.buffers, unit_.result, &PlanBuffer::space) > 0;
    tile_ =
        tileProduct(stage, product, axes, roomForSums({!sums_.empty(), others, goesOut_}, target),
                    target.operands == target.scratch && !goesOut_ && sums_.empty(), target);
  }

  /// Memory outside of the grid, if results pass through it.
  std::optional<Stmt> outside() const;

  Block run();

 private:
  const Stage& stage_;
  const Product& product_;
  const KernelBuffers& buffers_;
  Ranges ranges_;
  const MatrixUnit& unit_;
  const Target& target_;
  KernelModule& module_;
  std::vector<Expr> low_, extent_;
  ProductTile tile_;
  std::unordered_map<std::string, Expr> at_;
  std::vector<std::string> grid_;  // its variables, and how many tiles each counts
  std::vector<int64_t> counts_;
  std::string sums_;  // what the product adds to; empty: a tile of its own
  Expr number_ = 0;   // how many tiles of results came before the one that is summed up now
  Expr place_ = 0;    // its place among those side by side

  /// Do results reach the vector instructions through main memory only?
  bool exchanges() const { return target_.operands != target_.scratch && !storesItself(stage_); }
  std::string workspace() const { return "ws_" + stage_.accumulators[0].names[0]; }
  DType accType() const { return stage_.accumulators[0].combine.types[0]; }
  int64_t most(int axis) const {
    return std::min(stage_.axes[axis].region.size, stage_.axes[axis].extent);
  }
  bool isOnChip(const std::string& buffer) const;
  std::string loopName(int axis) const {
    const std::string& name = stage_.axes[axis].var;
    return dtypeFromName(name) ? name + "_" : name;
  }

  Stmt tile(const std::string& name, DType type, const std::string& space,
            std::vector<int64_t> shape) const;

  void outer(const std::vector<int>& axes, size_t k, Block& out);
  void around(const std::vector<int>& axes, size_t k, Block& out);

  Expr count(int axis, int64_t block) {
    return simplify(floorDiv(extent_[axis] + Expr(block - 1), Expr(block)), ranges_);
  }
  Expr part(int axis, const Expr& block, int64_t size) const {
    return simplify(min(Expr(size), extent_[axis] - block * Expr(size)), ranges_);
  }
  void cut(int axis, const std::string& v, int64_t block, Block& out,
           const std::function<void(Block&)>& inside);

  void blocks(Block& out);
  Expr rowBlocks() const {
    return tile_.row < 0 ? Expr(1) : part(tile_.row, var("mb"), tile_.rowBlock);
  }
  Expr rowsHere() const { return simplify(rowBlocks() * Expr(tile_.flatRowSize), ranges_); }
  Expr columnsHere() const {
    return tile_.column < 0 ? Expr(1) : part(tile_.column, var("nb"), tile_.columnBlock);
  }
  Expr deepHere() const {
    return tile_.deep < 0 ? Expr(1) : part(tile_.deep, var("kb"), tile_.deepBlock);
  }

  void oneTile(Block& out);
  /// The first element of the results' tile.
  Ref results() const;
  bool gathers() const { return tile_.together >= 0; }
  /// One behind the other, nothing is waited for between tiles.
  bool pipelined() const { return goesOut_ || gathers(); }
  /// What follows the sums of all tiles side by side.
  void epilogueOfAll(size_t k, Block& out);
  void step(int axis, const std::string& v, int64_t block = 1);  ///< counts a loop of tiles
  void stepBlocks();
  int64_t sizeOf(int axis) const { return asInteger(extent_[axis]).value_or(most(axis)); }
  /// Of the halves that tiles take in turn.
  Expr half(const Expr& number) const { return simplify(floorMod(number, Expr(2)), ranges_); }
  void depthLoops(size_t k, Expr step, Expr first, Block& out);
  /// How many instructions follow the one that read a half before, when it is filled again.
  int64_t behind() const;
  Expr depthSteps() const;

  /// Feeds both operands' tiles into the half that no running instruction reads, and multiplies.
  void multiply(const Expr& half, const Expr& first, Block& out);
  const std::string& feeder(const std::string& to) const;
  std::vector<std::string> feeders() const {
    const std::string &l = feeder(unit_.left), &r = feeder(unit_.right);
    return l == r ? std::vector<std::string>{l} : std::vector<std::string>{l, r};
  }

  using Places = std::unordered_map<std::string, Expr>;
  /// Axes of a copy along an axis that is cut and those that lie whole; answers the index in the tile.
  Expr along(int axis, const std::string& v, const std::string& block, int64_t size,
             const Expr& here, const std::vector<int>& flat, const std::string& names, Copy& c,
             Places& at) const;
  void feed(bool left, const Expr& half, Block& out);

  // ---- what follows a sum

  /// Where results stand: rows and columns of the tile by these names.
  Places placed() const;
  Expr rowInTile() const;
  void epilogue(Block& out);
  void exchange(Block& out) const;
  Expr translated(const Expr& e, const Places& at) const;

  // ---- by the unit's own output

  struct Along {
    std::string var;
    Expr extent;
  };
  /// A tile that the output's instruction reads or writes.
  struct Operand {
    Ref first;
    std::vector<int> by;  ///< of each dimension, the loop along it, or -1
  };
  std::optional<Block> output();
  std::optional<Block> outputOf(const std::vector<Along>& loops);
  std::vector<Along> resultLoops() const;
  std::optional<Operand> operandOf(const std::string& buffer, const std::vector<Expr>& index,
                                   const std::vector<Along>& loops, size_t from) const;
  /// Loops before `from` stand around the instruction, the others are its own. Operands: what is stored, then what `loads` read.
  Block outputCalls(const std::vector<Along>& loops, size_t from, const std::vector<Operand>&,
                    const std::vector<Expr>& loads);
  std::string declareOutput(IntrinDef def);  ///< its name

  /// The instruction for these types, declared once.
  std::string instruction();
  bool goesOut_ = false;  ///< the unit's output takes what follows the sums
};

}  // namespace tektite
