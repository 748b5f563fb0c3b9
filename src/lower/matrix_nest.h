#pragma once
#include <algorithm>
#include <functional>

#include "lower/dma.h"
#include "schedule/layout.h"

namespace tektite {

inline Stmt loopOver(std::string v, Expr extent, Block body) {
  return {For{std::move(v), std::move(extent), LoopMode::Serial, std::move(body)}, ""};
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
    row_ = longest(product.rows);
    column_ = longest(product.columns);
    const std::string sums = addsTo(stage, product);
    if (!sums.empty() && buffers.plan.buffer(sums).space == unit_.result) sums_ = sums;
    chooseDepth();
    chooseTile();
  }

  /// Memory outside of the grid, if results pass through it.
  std::optional<Stmt> outside() const;

  Block run();

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
  int longest(const std::vector<int>& axes) const;
  int64_t room(const std::string& level) const { return target_.level(level)->bytes; }
  int elementBytes() const {
    return std::max(bytes(product_.left.type()), bytes(product_.right.type()));
  }
  std::string loopName(int axis) const {
    const std::string& name = stage_.axes[axis].var;
    return dtypeFromName(name) ? name + "_" : name;
  }

  /// One reduce axis is cut, the small ones lie whole in a tile, what doesn't fit is a loop.
  void chooseDepth();
  void chooseTile();

  Stmt tile(const std::string& name, DType type, const std::string& space,
            std::vector<int64_t> shape) const;

  void outer(const std::vector<int>& axes, size_t k, Block& out);

  Expr count(int axis, int64_t block) {
    return simplify(floorDiv(extent_[axis] + Expr(block - 1), Expr(block)), ranges_);
  }
  Expr part(int axis, const Expr& block, int64_t size) const {
    return simplify(min(Expr(size), extent_[axis] - block * Expr(size)), ranges_);
  }
  void cut(int axis, const std::string& v, int64_t block, Block& out,
           const std::function<void(Block&)>& inside);

  void blocks(Block& out);
  Expr rowsHere() const { return row_ < 0 ? Expr(1) : part(row_, var("mb"), rows_); }
  Expr columnsHere() const { return column_ < 0 ? Expr(1) : part(column_, var("nb"), columns_); }

  void oneTile(Block& out);
  /// The first element of the results' tile.
  Ref results() const;
  void depthLoops(size_t k, Expr step, Expr first, Block& out);

  /// Feeds both operands' tiles into the half that no running instruction reads, and multiplies.
  void multiply(const Expr& half, const Expr& first, Block& out);
  const std::string& feeder(const std::string& to) const;
  std::vector<std::string> feeders() const {
    const std::string &l = feeder(unit_.left), &r = feeder(unit_.right);
    return l == r ? std::vector<std::string>{l} : std::vector<std::string>{l, r};
  }

  void feed(const std::string& name, const Expr& from, const Expr& half, int axis,
            const std::string& block, int64_t size, const Expr& here, const Expr& deep, Block& out);

  void epilogue(Block& out);
  void exchange(Block& out) const;
  Expr translated(const Expr& e, const std::unordered_map<std::string, Expr>& at) const;

  /// The instruction for these types, declared once.
  std::string instruction();
};

}  // namespace tektite
