#include "fusion/product_tile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tektite {
namespace {

constexpr int64_t kRows = 128, kColumns = 512;  // of a tile of results, at most
constexpr int64_t kFlatRows = 512;              // where short axes of rows lie side by side
constexpr int64_t kSplitColumns = 128;          // where results pass through main memory
constexpr int64_t kHalves = 2;  // one is filled while an instruction reads the other

int64_t whole(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
/// As many parts as there are anyhow, of equal sizes: engines that work beside each other wait for the longest.
int64_t evened(int64_t block, int64_t size, int64_t unit) {
  const int64_t parts = (size + block - 1) / block;
  return std::min(block, whole((size + parts - 1) / parts, unit));
}

/// Chooses the tile of a product.
class Tiler {
 public:
  Tiler(const Stage& stage, const Product& p, const std::vector<ProductAxis>& axes,
        int64_t resultBytes, bool mayGather, const Target& target)
      : stage_(stage),
        p_(p),
        axes_(axes),
        resultBytes_(resultBytes),
        mayGather_(mayGather),
        target_(target),
        unit_(target.matrix) {}

  /// As many short axes of rows side by side as fit with the least of all else.
  ProductTile run() {
    for (size_t flat = p_.rows.size();; flat = out_.flatRows.size() - 1) {
      out_ = {};
      choose(flat);
      if (out_.flatRows.empty() || fits()) break;
    }
    gather();
    return std::move(out_);
  }

 private:
  const Stage& stage_;
  const Product& p_;
  const std::vector<ProductAxis>& axes_;
  int64_t resultBytes_;
  bool mayGather_;
  const Target& target_;
  const MatrixUnit& unit_;
  ProductTile out_;

  int64_t size(int axis) const {
    return axis < 0 ? 1 : std::max<int64_t>(axes_[static_cast<size_t>(axis)].size, 1);
  }
  bool fixed(int axis) const { return axes_[static_cast<size_t>(axis)].fixed; }
  int64_t room(const std::string& level) const { return target_.level(level)->bytes; }
  bool split() const { return target_.operands != target_.scratch; }
  int64_t sumBytes() const { return bytes(stage_.accumulators[0].combine.types[0]); }
  int64_t elementBytes() const { return std::max(bytes(p_.left.type()), bytes(p_.right.type())); }
  int longest(const std::vector<int>& axes) const {
    int best = -1;
    for (int a : axes)
      if (best < 0 || size(a) > size(best)) best = a;
    return best;
  }

  void choose(size_t flat) {
    out_.each =
        depthwisePath(target_) && p_.columns.empty() && !p_.batch.empty() && !p_.depth.empty();
    out_.column = longest(out_.each ? p_.batch : p_.columns);
    chooseRows(flat);
    for (const auto* axes : {&p_.batch, &p_.rows, &p_.columns})
      for (int a : *axes)
        if (a != out_.row && a != out_.column && !std::ranges::count(out_.flatRows, a))
          out_.around.push_back(a);
    chooseDepth();
    chooseBlocks();
  }

  /// Axes of known extent side by side, `most` from the inside out, as long as they are few rows; the next is cut.
  void chooseRows(size_t most) {
    std::vector<int> rest = p_.rows;
    while (!split() && rest.size() > 1 && out_.flatRows.size() < most && fixed(rest.back()) &&
           out_.flatRowSize * size(rest.back()) <= kFlatRows / 2) {
      out_.flatRowSize *= size(rest.back());
      out_.flatRows.insert(out_.flatRows.begin(), rest.back());
      rest.pop_back();
    }
    out_.row = longest(rest);
  }

  /// One axis is cut, the small ones lie whole in a tile, what doesn't fit is a loop.
  void chooseDepth() {
    int& deep = out_.deep;
    for (int a : p_.depth)
      if (deep < 0 || !fixed(a) || (fixed(deep) && size(a) > size(deep))) deep = a;
    std::vector<int> rest;
    for (int a : p_.depth)
      if (a != deep) rest.push_back(a);
    std::ranges::stable_sort(rest, {}, [&](int a) { return size(a); });
    const int64_t rows = out_.each ? std::max<int64_t>(kRows, unit_.rows * unit_.columns) : kRows;
    const int64_t budget = std::max<int64_t>(
        1, std::min(room(unit_.left), room(unit_.right)) / kHalves / rows / elementBytes());
    for (int a : rest) {
      const bool fits = fixed(a) && out_.flatDepthSize * size(a) <= budget;
      (fits ? out_.flatDepth : out_.steps).push_back(a);
      if (fits) out_.flatDepthSize *= size(a);
    }
  }

  void chooseBlocks() {
    int64_t& rows = out_.rowBlock;
    int64_t& columns = out_.columnBlock;
    const int64_t flat = out_.flatRowSize;
    const auto halve = [&](int64_t& n, int64_t unit) { n = whole(n / 2, unit); };
    const int64_t rowUnit = flat > 1 ? 1 : unit_.rows;
    if (out_.row >= 0)
      rows = std::min(whole(size(out_.row), rowUnit),
                      flat > 1 ? std::max<int64_t>(1, kFlatRows / flat) : whole(kRows, rowUnit));
    if (out_.column >= 0)
      columns = std::min(whole(size(out_.column), unit_.columns), whole(kColumns, unit_.columns));
    const int64_t sum = sumBytes();
    if (split() && !storesItself(stage_)) {
      const int64_t tile = room(target_.scratch) / kExchangeShare / sum;
      columns = std::min(columns, whole(std::min(kSplitColumns, tile), unit_.columns));
      while (rows * columns > tile && rows > rowUnit) halve(rows, rowUnit);
      while (rows * columns > tile && columns > unit_.columns) halve(columns, unit_.columns);
    }
    const auto tooLarge = [&] { return rows * flat * columns * sum > resultBytes_; };
    while (tooLarge() && columns > unit_.columns) halve(columns, unit_.columns);
    while (tooLarge() && rows > rowUnit) halve(rows, rowUnit);
    deepen(rows, columns, rowUnit);
  }

  /// As many tiles of results side by side as there is room for.
  void gather() {
    if (!mayGather_) return;
    const auto parts = [&](int axis, int64_t block) {
      return axis < 0 ? 1 : (size(axis) + block - 1) / block;
    };
    const int64_t room = resultBytes_ / (out_.rows() * out_.columnBlock * sumBytes());
    int64_t tiles = parts(out_.row, out_.rowBlock) * parts(out_.column, out_.columnBlock);
    if (tiles > room) return;
    out_.together = 0;
    for (size_t k = out_.around.size(); k-- > 0 && tiles * size(out_.around[k]) <= room;)
      tiles *= size(out_.around[k]), out_.together++;
    out_.tiles = tiles;
    if (tiles == 1) out_.together = -1;
  }

  /// The depth that a half of each operand's memory holds.
  int64_t deepest() const {
    const int64_t own = out_.each ? out_.columnBlock : 1, element = elementBytes();
    return std::min(room(unit_.left) / kHalves / (out_.rows() * own * element),
                    room(unit_.right) / kHalves / (out_.columnBlock * element));
  }
  bool fits() const {
    return deepest() >= out_.depth() && out_.rows() * out_.columnBlock * sumBytes() <= resultBytes_;
  }

  /// Deep enough to read each operand's half; where not even the short axes fit, fewer rows, then fewer columns.
  void deepen(int64_t& rows, int64_t& columns, int64_t rowUnit) {
    while (deepest() < out_.flatDepthSize && rows > rowUnit) rows = whole(rows / 2, rowUnit);
    while (deepest() < out_.flatDepthSize && columns > unit_.columns)
      columns = whole(columns / 2, unit_.columns);
    if (out_.row >= 0) rows = evened(rows, size(out_.row), rowUnit);
    if (out_.column >= 0) columns = evened(columns, size(out_.column), unit_.columns);
    out_.deepBlock = std::max<int64_t>(1, deepest() / out_.flatDepthSize);
    if (out_.deep < 0) return;
    const int64_t unit =
        out_.each ? depthwisePath(target_)->productsAtOnce : unit_.depthBytes / elementBytes();
    out_.deepBlock = evened(out_.deepBlock, size(out_.deep),
                            std::max<int64_t>(1, unit / std::gcd(unit, out_.flatDepthSize)));
  }
};

}  // namespace

ProductTile tileProduct(const Stage& stage, const Product& product,
                        const std::vector<ProductAxis>& axes, int64_t resultBytes, bool mayGather,
                        const Target& target) {
  return Tiler(stage, product, axes, resultBytes, mayGather, target).run();
}

const MemoryPath* depthwisePath(const Target& t) {
  return t.matrix.engine.empty() ? nullptr : t.path(t.matrix.left, t.matrix.result);
}
const MemoryPath* outputPath(const Target& t) {
  return t.matrix.engine.empty() ? nullptr : t.path(t.matrix.result, t.scratch);
}

int64_t roomForSums(const SumsPlace& at, const Target& target) {
  const int64_t room = target.level(target.matrix.result)->bytes;
  return at.carried ? room : room / (at.others ? 2 : 1) / (at.goOut ? 2 : 1);
}

double productSeconds(const Target& target, bool each, double rows, double columns, double depth,
                      int elementBytes) {
  const MatrixUnit& unit = target.matrix;
  const double hertz = unit.hertz > 0 ? unit.hertz : target.hertz;
  const double rowBlocks = std::ceil(rows / unit.rows),
               columnBlocks = std::ceil(columns / unit.columns),
               wide = elementBytes >= 4 ? unit.wide : 1;
  double seconds = unit.startCycles / hertz;
  if (each) {
    const MemoryPath& path = *depthwisePath(target);
    const double taps = path.productsAtOnce * std::ceil(depth / path.productsAtOnce);
    return seconds + wide * taps * rowBlocks * unit.rows * columnBlocks * unit.columns *
                         elementBytes / path.bytesPerSecond;
  }
  return seconds + wide * rowBlocks * columnBlocks *
                       std::ceil(depth * elementBytes / unit.depthBytes) / hertz;
}

double outputSeconds(const Target& target, double bytes) {
  const MatrixUnit& unit = target.matrix;
  return unit.startCycles / (unit.hertz > 0 ? unit.hertz : target.hertz) +
         bytes / outputPath(target)->bytesPerSecond;
}

}  // namespace tektite
