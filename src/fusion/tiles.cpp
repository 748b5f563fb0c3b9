#include "fusion/tiles.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "support/check.h"
#include "support/hash_numbers.h"

namespace tektite {
namespace {

constexpr double kStripBytes =
    32 << 10;  // of a tile that has no other wish: a few pages, well inside L1 + L2

constexpr double kTeamStripBytes =
    4 << 10;  // of a team: a wide load of each thread. More tiles hide more of memory's latency

constexpr int64_t kTeamTile = 64, kTeamSide = 8;  // of a product's rows and columns, to begin with

constexpr int kMostExchanges = 8;

constexpr double kLeanTime = 1.1;  // that memory outside of a GPU's teams may cost to be spared

constexpr double kBytesPrice = 0.1;   // of the time that bytes take where all else takes longer
constexpr double kAgainPrice = 0.02;  // of all time, for as much work again as there is

constexpr double kLessAgain = 0.995, kMuchSooner = 0.97;  // of a tiling's work and time

constexpr int64_t kThinTile = 16;  // of the innermost loop, where memories are explicit

/// What tilings are compared by.
struct Rank {
  double outside;
  int64_t overflow;
  double again;  // work, of what is allowed
  double price;
};

class Search {
 public:
  Search(const GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
         const Target& target, int sync, bool lean = false)
      : g_(g),
        work_(work),
        target_(target),
        sync_(sync),
        lean_(lean),
        costs_(g, set, work, target) {
    for (int axis : g.rootAxes) extents_.push_back(g.stages[g.root].extents[axis]);
    contraction_ = std::ranges::any_of(work, &StageWork::contraction);
    for (size_t j = 0; j < extents_.size(); j++) sizes_.push_back(sizes(j));
  }

  Tiled run() {
    Tiled best = search();
    best.steps = costs_.steps();
    return best;
  }

 private:
  Tiled search() {
    if (g_.walked >= 0) return walk();
    Tiled best = descend(start(), -1);
    if (squareStart() != start())
      if (Tiled other = descend(squareStart(), -1); isBetter(other, best)) best = std::move(other);
    for (int j = 0; j < static_cast<int>(extents_.size()) && sync_ < 0; j++)
      if (best.tiling.order.size() > 1 && std::ranges::count(best.tiling.order, j) &&
          someInvariant(best, j)) {
        Tiled other = descend(best.tiling.tile, j);
        if (isBetter(other, best)) best = std::move(other);
      }
    if (target_.hasExplicitMemory() && sync_ < 0) inOrder(best);
    if (contraction_ && target_.kind == "cpu") cutOtherwise(best);
    return best;
  }
  /// All stages walk the last axis; from several sizes of its pieces where memories are explicit.
  Tiled walk() {
    Tiled best = descend(start(), g_.walked);
    const auto from = [&](std::vector<int64_t> tile, int64_t piece) {
      tile[g_.walked] = std::min(piece, extents_[g_.walked]);
      Tiled other = descend(tile, g_.walked);
      if (isBetter(other, best)) best = std::move(other);
    };
    from(std::vector<int64_t>(extents_.size(), 1), static_cast<int64_t>(kStripBytes) / 4);
    if (!target_.hasExplicitMemory()) return best;
    for (const int64_t part : {1, 4}) {
      std::vector<int64_t> tile = extents_;
      for (int64_t& n : tile) n = std::max<int64_t>(1, n / part);
      for (const int64_t piece : {16, 64, 256}) from(tile, piece);
    }
    for (const int64_t side : {64, 128, 256}) {  // squares read least
      std::vector<int64_t> tile = extents_;
      for (int64_t& n : tile) n = std::min(n, side);
      from(tile, kThinTile);
    }
    return best;
  }
  /// Each axis as the innermost loop, with and without keeping what its tiles share.
  void inOrder(Tiled& best) {
    for (int j = 0; j < static_cast<int>(extents_.size()); j++)
      for (const bool slides : {false, true}) {
        sliding_ = slides ? j : -1;
        std::vector<int64_t> thin = extents_;
        thin[j] = std::min<int64_t>(thin[j], kThinTile);
        for (const std::vector<int64_t>& from : {best.tiling.tile, start(), thin}) {
          std::vector<int64_t> tile = from;
          if (slides) tile[j] = 1;
          Tiled other = descend(tile, j);
          if (isBetter(other, best)) best = std::move(other);
        }
      }
    sliding_ = -1;
  }

  const GroupShape& g_;
  const std::vector<StageWork>& work_;
  const Target& target_;
  const int sync_;
  const bool lean_;  // teams keep little in main, before time
  TilingCosts costs_;
  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> sizes_;  // to try, of each axis
  bool contraction_ = false;
  int sliding_ = -1;
  HashNumbers known_;  // tilings
  std::vector<Rank> ranks_;

  /// Points are dealt to threads by shifts and masks where tiles are powers of two.
  bool teams() const { return target_.kind == "gpu"; }
  double strip() const { return teams() ? kTeamStripBytes : kStripBytes; }
  /// Contiguous strips: inner axes whole, until the tile is large enough. Products: blocks of rows and columns.
  std::vector<int64_t> start() const {
    std::vector<int64_t> tile = extents_;
    if (contraction_ && teams()) {
      for (size_t j = 0; j < tile.size(); j++)
        tile[j] = std::min<int64_t>(tile[j], j + 2 < tile.size() ? 1 : kTeamTile);
      return tile;
    }
    double bytes = 4;
    const double goal = contraction_ ? kStripBytes * 2 : strip();
    for (size_t j = tile.size(); j-- > 0;) {
      const double most = std::max(1.0, goal / bytes);
      if (static_cast<double>(tile[j]) > most) {
        const int64_t n = static_cast<int64_t>(most), unit = unitOf(j);
        tile[j] = contraction_ && !target_.hasExplicitMemory() && n > unit ? n / unit * unit : n;
      }
      bytes *= static_cast<double>(tile[j]);
    }
    return tile;
  }
  /// The same with a product's rows from two axes: a descent changes one at a time, and doesn't find these from those of one.
  std::vector<int64_t> squareStart() const {
    std::vector<int64_t> tile = start();
    const size_t n = tile.size();
    if (contraction_ && teams() && n > 2)
      for (const size_t j : {n - 3, n - 2}) tile[j] = std::min(extents_[j], kTeamSide);
    return tile;
  }
  /// Parts along the lanes are whole vectors, of a product whole panels of a few; its lanes may go along another long axis, too.
  int64_t unitOf(size_t j) const {
    const int64_t lanes = target_.lanes(4);
    if (teams() || (target_.hasExplicitMemory() && !contraction_)) return 1;
    if (g_.rootAxes[j] == work_[g_.root].vectorAxis) return contraction_ ? 4 * lanes : lanes;
    const bool isLong = extents_[j] >= 16 * lanes && !target_.hasExplicitMemory();
    return contraction_ && isLong ? 2 * lanes : 1;
  }
  std::vector<int64_t> sizes(size_t j) const {
    const int64_t extent = extents_[j];
    std::set<int64_t> out{extent};
    const bool innermost = g_.rootAxes[j] == work_[g_.root].vectorAxis;
    const int64_t lanes = target_.lanes(4);
    if (teams()) {
      for (int64_t n = 1; n < extent; n *= 2) out.insert(n);
      return {out.begin(), out.end()};
    }
    for (int64_t n : {1, 2, 4, 12})
      if (n < extent) out.insert(n);
    for (int64_t n = 16; n < extent; n *= 2)
      if (n <= 512 || n * n >= extent) out.insert(n);
    const int64_t unit = unitOf(j);
    for (int64_t parts : {1, 2, 4, 6})
      if (target_.hasExplicitMemory()) out.insert((extent + parts - 1) / parts);
    for (int64_t parts : {target_.cores, 3 * target_.cores, 8 * target_.cores})
      out.insert(std::clamp<int64_t>((extent + parts * unit - 1) / (parts * unit) * unit,
                                     std::min<int64_t>(extent, 1), extent));
    if (contraction_ && extent > 48) out.insert(48);
    std::vector<int64_t> kept;
    for (const int64_t n : out)
      if (n == extent || !innermost || n % lanes == 0 || extent < 2 * lanes ||
          target_.hasExplicitMemory())
        kept.push_back(n);
    return kept;
  }
  Tiling tilingOf(const std::vector<int64_t>& tile, int serial) const {
    Tiling t{.tile = tile, .order = {}, .grid = 0, .sync = -1};
    for (int j = 0; j < static_cast<int>(tile.size()); j++)
      if (j != serial && tile[j] < extents_[j]) t.order.push_back(j);
    t.grid = static_cast<int>(t.order.size());
    if (serial >= 0 && tile[serial] < extents_[serial]) t.order.push_back(serial);
    if (sync_ >= 0 && tile.back() < extents_.back()) t.sync = sync_;
    if (sliding_ >= 0 && tile[sliding_] < extents_[sliding_]) t.sliding = sliding_;
    return t;
  }
  Tiled& evaluated(const Tiling& tiling) {
    Tiled& t = costs_.of(tiling);
    double bytes = 4;
    for (const int64_t n : tiling.tile) bytes *= static_cast<double>(n);
    t.cost.seconds *=
        1 + (target_.hasExplicitMemory() ? 1e-6 : 1e-3) *
                std::abs(std::log2(bytes / strip()));  // among equals, the usual strip
    return t;
  }
  static Hash keyOf(const Tiling& t) {
    Hasher h;
    for (const int64_t n : t.tile) h.add(n);
    for (const int j : t.order) h.add(j);
    return h.add(t.sync).add(t.sliding).finish();
  }
  /// Takes another tiling's place if it is better. Descents meet: what one has seen isn't evaluated again, unless it is better.
  bool improve(Tiled& best, const std::vector<int64_t>& tile, int serial) {
    const Tiling tiling = tilingOf(tile, serial);
    const Hash key = keyOf(tiling);
    const size_t known = known_.find(key);
    if (known != HashNumbers::kNone && !isBetter(ranks_[known], rankOf(best))) return false;
    Tiled& t = evaluated(tiling);
    if (known == HashNumbers::kNone) known_.add(key), ranks_.push_back(rankOf(t));
    if (!isBetter(t, best)) return false;
    std::swap(t, best);
    return true;
  }
  Tiled descend(const std::vector<int64_t>& tile, int serial) {
    Tiled best = evaluated(tilingOf(tile, serial));
    for (int round = 0; round < 2; round++) {
      bool better = false;
      for (size_t j = 0; j < tile.size(); j++) {  // outer axes first: cutting them keeps rows whole
        for (const int64_t n : sizes_[j]) {
          if (best.tiling.tile[j] == n) continue;
          std::vector<int64_t> other = best.tiling.tile;
          other[j] = n;
          better |= improve(best, other, serial);
        }
      }
      if (!better) break;
    }
    if (target_.hasExplicitMemory()) exchange(best, serial);
    return best;
  }
  /// Another axis cut where one was, which no change of one axis comes to: where less is done again, or much is won. What fits which cache
  /// differs by which operand is cut, more than costs know.
  void cutOtherwise(Tiled& best) {
    const std::vector<int64_t> from = best.tiling.tile;
    Tiled found = best;
    for (size_t j = 0; j < from.size(); j++) {
      if (from[j] == extents_[j]) continue;
      for (size_t k = 0; k < from.size(); k++)
        for (const int64_t n : sizes_[k]) {
          if (k == j || n >= from[k]) continue;
          std::vector<int64_t> other = from;
          other[j] = extents_[j];
          other[k] = n;
          improve(found, other, -1);
        }
    }
    if (found.cost.recompute < best.cost.recompute * kLessAgain ||
        found.cost.seconds < best.cost.seconds * kMuchSooner)
      best = std::move(found);
  }
  /// What one axis gives up another one takes, where all that fits is used: no size alone is better then.
  void exchange(Tiled& best, int serial) {
    for (int round = 0; round < kMostExchanges; round++) {
      const std::vector<int64_t> from = best.tiling.tile;
      bool better = false;
      for (size_t j = 0; j < from.size(); j++) {
        const auto at = std::ranges::lower_bound(sizes_[j], from[j]);
        if (at == sizes_[j].begin()) continue;
        for (size_t k = 0; k < from.size(); k++)
          for (const int64_t n : sizes_[k]) {
            if (k == j || n <= from[k]) continue;
            std::vector<int64_t> other = from;
            other[j] = *(at - 1);
            other[k] = n;
            better |= improve(best, other, serial);
          }
      }
      if (!better) break;
    }
  }
  /// Within the budget of recomputation first, then by time.
  bool isBetter(const Rank& a, const Rank& b) const {
    if (lean_ && a.outside != b.outside) return a.outside < b.outside;
    if (a.overflow != b.overflow) return a.overflow < b.overflow;
    return a.again != b.again ? a.again < b.again : a.price < b.price * (1 - 1e-6);
  }
  bool isBetter(const Tiled& a, const Tiled& b) const { return isBetter(rankOf(a), rankOf(b)); }
  Rank rankOf(const Tiled& t) const {
    return {t.outside, t.overflow, std::max(t.cost.recompute / t.cost.mostRecompute, 1.0),
            priced(t.cost)};
  }
  /// Bytes that hide behind other work are not for nothing, nor is what a core does again that others do too.
  double priced(const Cost& c) const {
    if (!target_.hasExplicitMemory()) return c.seconds;
    const auto moved = static_cast<double>(c.bytesRead + c.bytesWritten);
    return c.seconds * (1 + kAgainPrice * (c.recompute - 1)) +
           kBytesPrice * moveSeconds(moved, moved, target_.cores, target_);
  }
  bool someInvariant(const Tiled& t, int j) const {
    for (const auto& axes : t.regions.stages)
      if (std::ranges::none_of(axes, [&](const Span& s) { return s.dependsOn(j); })) return true;
    return false;
  }
};

/// The stage that writes the largest output, the last of these; its space axes are tiled.
int rootOf(const GroupShape& g) {
  int root = static_cast<int>(g.stages.size()) - 1;
  double most = -1;
  for (size_t s = 0; s < g.stages.size(); s++)
    for (const Touch& t : g.stages[s].writes) {
      if (!g.output[t.buffer]) continue;
      double n = 1;
      for (size_t a = 0; a < g.stages[s].extents.size(); a++)
        if (!g.stages[s].reduce[a]) n *= static_cast<double>(g.stages[s].extents[a]);
      if (n >= most) most = n, root = static_cast<int>(s);
    }
  return root;
}

/// Sorts a stage's axes as its first output lies in memory.
void inMemoryOrder(const GroupShape& g, const StageSet& set, int stage, std::vector<int>& axes) {
  for (const Touch& t : g.stages[stage].writes) {
    const std::vector<int>& order = set.buffers[t.buffer].order;
    if (!g.output[t.buffer] || order.empty()) continue;
    const auto place = [&](int axis) {
      for (size_t i = 0; i < order.size(); i++)
        for (const auto& [a, c] : t.dims[order[i]].terms)
          if (a == axis) return static_cast<int>(i);
      return -1;
    };
    std::ranges::stable_sort(axes, {}, place);
    return;
  }
}

/// Several stages write one output (a scatter): only axes that all of them index alike may be tiled.
void keepOwners(GroupShape& g) {
  std::map<int, std::vector<int>> writers;
  for (size_t s = 0; s < g.stages.size(); s++)
    for (const Touch& t : g.stages[s].writes)
      if (g.output[t.buffer]) writers[t.buffer].push_back(static_cast<int>(s));
  std::vector<int> kept;
  for (size_t j = 0; j < g.rootAxes.size(); j++)
    if (std::ranges::all_of(writers, [&](const auto& w) {
          return w.second.size() < 2 ||
                 std::ranges::all_of(
                     w.second,
                     [&](int s) { return std::ranges::count(g.follows[s], static_cast<int>(j)); });
        }))
      kept.push_back(g.rootAxes[j]);
  if (kept.size() != g.rootAxes.size()) setRoot(g, g.root, kept);
}

/// The only reduction that feeds every later stage and is long: worth splitting across tiles.
int syncStage(const GroupShape& g, const std::vector<StageWork>& work) {
  int found = -1;
  for (size_t s = 0; s < g.stages.size(); s++) {
    const StageShape& shape = g.stages[s];
    if (std::ranges::none_of(shape.reduce, [](bool r) { return r; })) continue;
    if (found >= 0 || work[s].contraction) return -1;
    found = static_cast<int>(s);
  }
  if (found < 0) return -1;
  const auto partial =
      [&](const Touch&
              t) {  // written before the reduction: other tiles' parts of scratch are not to be seen
        const int writer = g.writer[t.buffer];
        if (writer < 0 || writer > found || g.output[t.buffer]) return false;
        if (writer < found) return true;
        for (const Touch& w : g.stages[found].writes)
          if (w.buffer == t.buffer)
            for (const AxisSum& d : w.dims)
              for (const auto& [axis, c] : d.terms)
                if (g.stages[found].reduce[axis]) return true;
        return false;
      };
  for (size_t s = static_cast<size_t>(found) + 1; s < g.stages.size(); s++)
    if (std::ranges::any_of(g.stages[s].reads, partial)) return -1;
  return found;
}

}  // namespace

Tiled chooseWalk(const GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
                 const Target& target) {
  return Search(g, set, work, target, -1).run();
}

Tiled chooseTiles(GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
                  const Target& target, bool sync) {
  const int root = rootOf(g);
  std::vector<int> axes;
  for (size_t a = 0; a < g.stages[root].extents.size(); a++)
    if (!g.stages[root].reduce[a]) axes.push_back(static_cast<int>(a));
  inMemoryOrder(g, set, root, axes);
  setRoot(g, root, axes);
  keepOwners(g);
  Tiled best = Search(g, set, work, target, -1).run();
  if (best.outside > 0) {
    Tiled lean = Search(g, set, work, target, -1, true).run();
    best.steps = lean.steps += best.steps;
    if (lean.outside < best.outside && lean.cost.seconds < kLeanTime * best.cost.seconds)
      best = std::move(lean);
  }
  const int split = sync ? syncStage(g, work) : -1;
  if (split < 0) return best;
  // All stages before must follow the split axis; those behind run in the last tile.
  GroupShape other = g;
  std::vector<int> splitAxes;
  int reduceAxis = -1;
  for (size_t a = 0; a < g.stages[split].extents.size(); a++)
    if (!g.stages[split].reduce[a])
      splitAxes.push_back(static_cast<int>(a));
    else if (reduceAxis < 0 || g.stages[split].extents[a] > g.stages[split].extents[reduceAxis])
      reduceAxis = static_cast<int>(a);
  if (reduceAxis < 0 || g.stages[split].extents[reduceAxis] < 4096) return best;
  splitAxes.push_back(reduceAxis);
  setRoot(other, split, splitAxes);
  // What is behind may read the same tensor, but the last tile does all of it.
  const auto cut = std::ranges::find(other.rootAxes, reduceAxis) - other.rootAxes.begin();
  for (size_t s = static_cast<size_t>(split) + 1; s < other.stages.size(); s++)
    std::ranges::replace(other.follows[s], static_cast<int>(cut), -1);
  Tiled across = Search(other, set, work, target, split).run();
  best.steps += across.steps;
  across.steps = best.steps;
  if (across.tiling.sync < 0 || across.cost.seconds >= best.cost.seconds) return best;
  g = std::move(other);
  return across;
}

}  // namespace tektite
