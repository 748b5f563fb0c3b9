#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "fusion/stages.h"

namespace tektite {

/// Part of an axis as a function of the tile numbers: it starts at base + sum coefficient[j] * t_j and has `size` elements,
/// clipped to the axis. `size` < 0: nothing is known of it yet.
constexpr size_t kMostTiles = 8;  ///< axes that are cut, at most
struct Span {
  std::array<int64_t, kMostTiles> coefficients{};
  int64_t base = 0, size = -1;
  bool isWhole(int64_t extent) const { return base <= 0 && base + size >= extent && isConstant(); }
  bool isConstant() const {  // all at once: this is asked of each axis of each tiling
    int64_t any = 0;
    for (const int64_t c : coefficients) any |= c;
    return any == 0;
  }
  bool movesAs(const Span& o) const {
    int64_t apart = 0;
    for (size_t j = 0; j < kMostTiles; j++) apart |= coefficients[j] ^ o.coefficients[j];
    return apart == 0;
  }
  friend bool operator==(const Span& a, const Span& b) {
    return a.base == b.base && a.size == b.size && a.movesAs(b);
  }
  bool dependsOn(int tile) const { return coefficients[tile] != 0; }
};
Span wholeSpan(int64_t extent);
/// Where all tiles have the same part, no more of it than the axis has.
Span clipped(const Span&, int64_t extent);
/// The smallest span of this form around both; whole where there is none.
Span unite(const Span&, const Span&, int64_t extent);

/// A sum of axes of a stage, or unknown (reads data, or is no sum). Unknown ones may be a sum and something between 0 and `slack`.
struct AxisSum {
  std::vector<std::pair<int, int64_t>> terms;  // axis, coefficient; coefficients descend
  int64_t constant = 0;
  bool known = true;
  int64_t slack = -1;  ///< of an unknown one; -1: nothing is known of it
};
AxisSum axisSum(const Expr& index, const Stage&);

/// An index: a sum of axes for each dim. Shared, never changed.
class AxisSums {
 public:
  AxisSums(std::vector<AxisSum> sums)
      : sums_(std::make_shared<const std::vector<AxisSum>>(std::move(sums))) {}
  size_t size() const { return sums_->size(); }
  const AxisSum& operator[](size_t dim) const { return (*sums_)[dim]; }
  auto begin() const { return sums_->begin(); }
  auto end() const { return sums_->end(); }

 private:
  std::shared_ptr<const std::vector<AxisSum>> sums_;
};
/// An access of a stage to a buffer of the group.
struct Touch {
  int buffer;
  AxisSums dims;
};

/// What region inference sees of a group: for each stage its axes, reads and writes as sums of axes.
struct StageShape {
  std::vector<int64_t> extents;
  std::vector<bool> reduce;
  std::vector<Touch> reads, writes;
};
/// Points that a stage computes in all its runs, those but for what it reduces over, and of the whole stage once.
struct StagePoints {
  double all, outer, whole = 1;
};
/// `mean`: elements of an axis in a run.
template <class Mean>
StagePoints pointsOf(const StageShape& shape, double runs, const Mean& mean) {
  StagePoints p{runs, runs};
  for (size_t a = 0; a < shape.extents.size(); a++) {
    const double n = mean(a);
    p.all *= n;
    p.whole *= static_cast<double>(shape.extents[a]);
    if (!shape.reduce[a]) p.outer *= n;
  }
  return p;
}
/// A dim of a buffer, as a sum of several axes or with a step.
struct Gap {
  size_t stage, dim;
  AxisSum sum;
};
struct GroupShape {
  std::vector<StageShape> stages;
  std::vector<std::vector<int64_t>> buffers;  ///< extents
  std::vector<int> writer;                    ///< stage, or -1
  std::vector<std::vector<Gap>> gaps;  ///< [buffer] dims that no touch runs through in one piece
  std::vector<bool> output;
  int root = -1;              ///< the stage whose axes are tiled
  std::vector<int> rootAxes;  ///< the axes that tile variables count
  int walked = -1;  ///< of rootAxes: a reduce axis that all stages walk together, piece by piece
  std::vector<std::vector<int>>
      follows;  ///< [stage][axis]: the tile variable whose axis this is, or -1
};
GroupShape shapeOf(StageSet&);  ///< finds the stages' facts, too
/// Makes these axes of a stage the tiled ones.
void setRoot(GroupShape&, int stage, std::vector<int> axes);

/// Tile sizes, one a root axis, and what they imply: the part of every axis in one tile, backwards from the outputs.
struct Regions {
  std::vector<std::vector<Span>> stages;   ///< [stage][axis]
  std::vector<std::vector<Span>> buffers;  ///< [buffer][dim] that a tile's stages read or write
  std::vector<int>
      ring;  ///< [buffer] the dim that slides: only its newest part is made in a tile; -1
};
/// `sliding`: a tile axis whose tiles run in order, so that what a tile shares with the one before it is kept; -1: none.
Regions inferRegions(const GroupShape&, const std::vector<int64_t>& tile, int sliding = -1);
/// Elements of a buffer's dim that a tile's stages touch, at most: fewer than its span where sums of axes leave gaps (parts of heads, of
/// gates). Gaps of up to `slack` elements don't count.
double touchedOf(const GroupShape&, const Regions&, size_t buffer, size_t dim, int64_t slack);
/// The span of a sum of axes of which these parts are taken; whole where nothing smaller is known.
Span spanOf(const AxisSum&, const std::vector<Span>& axes, int64_t extent);
/// Of a span that slides along a tile axis, what the tile before hadn't got.
Span newest(const Span&, int sliding);
bool slides(const Span&, int sliding);
/// The same into the memory that `out` has.
void inferRegions(const GroupShape&, const std::vector<int64_t>& tile, int sliding, Regions& out);

}  // namespace tektite
