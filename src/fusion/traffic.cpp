#include "fusion/traffic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tektite {
namespace {

constexpr double kLine = 64;

class ListTraffic {
 public:
  ListTraffic(const GroupShape& g, const StageSet& set, const Tiled& tiled)
      : g_(g), set_(set), tiled_(tiled) {
    for (size_t j = 0; j < tiled.tiling.tile.size(); j++) {
      const int64_t extent = g.stages[g.root].extents[g.rootAxes[j]],
                    tile = std::max<int64_t>(tiled.tiling.tile[j], 1);
      counts_.push_back(std::max<int64_t>(1, (extent + tile - 1) / tile));
    }
    const size_t loops = tiled.tiling.order.size();
    for (size_t k = 0; k <= loops; k++) {
      touched_.emplace_back(g.buffers.size(), 0);
      for (size_t b = 0; b < g.buffers.size(); b++)
        if (set.buffers[b].kind != PlanBuffer::Scratch) touched_[k][b] = footprint(b, k);
      all_.push_back(std::accumulate(touched_[k].begin(), touched_[k].end(), 0.0));
    }
  }
  double footprint(size_t b) const { return touched_[0][b]; }
  /// From the inside: a loop either finds what it touched the iteration before, or fetches all of it again.
  double traffic(size_t b, double capacity) const {
    const size_t loops = tiled_.tiling.order.size();
    double now = touched_[loops][b];
    if (all_[loops] > capacity) now *= std::max(1, stagesAt(b));  // each fetches it again
    for (size_t k = loops; k-- > 0;) {
      const double inner = touched_[k + 1][b], outer = touched_[k][b];
      const auto count = static_cast<double>(counts_[tiled_.tiling.order[k]]);
      now *= all_[k + 1] <= capacity ? (inner > 0 ? outer / inner : 0) : count;
    }
    return now;
  }
  int stagesAt(size_t b) const {
    return static_cast<int>(std::ranges::count_if(g_.stages, [&](const StageShape& s) {
      const auto here = [&](const Touch& t) { return t.buffer == static_cast<int>(b); };
      return std::ranges::any_of(s.reads, here) || std::ranges::any_of(s.writes, here);
    }));
  }
  double lastTiles() const {  // of the innermost axis of the grid
    return static_cast<double>(
        counts_[tiled_.tiling.order[static_cast<size_t>(tiled_.tiling.grid - 1)]]);
  }
  double wholeLines(size_t b) const {
    double n = bytes(set_.buffers[b].type.dtype);
    for (const int64_t e : g_.buffers[b]) n *= static_cast<double>(e);
    return std::ceil(n / kLine) * kLine;
  }

 private:
  /// Lines that all iterations of the tile loops from `loop` on touch of a buffer, those outside standing still.
  double footprint(size_t b, size_t loop) const {
    const std::vector<int64_t>& extents = g_.buffers[b];
    const std::vector<int>& order = set_.buffers[b].order;
    double row = bytes(set_.buffers[b].type.dtype), rows = 1;
    bool inside = true;  // of what lies in one piece
    for (size_t i = extents.size(); i-- > 0;) {
      const size_t d = order.empty() ? i : static_cast<size_t>(order[i]);
      const double n = sizeOf(b, d, loop);
      (inside ? row : rows) *= n;
      if (n < static_cast<double>(extents[d])) inside = false;
    }
    if (row <= 0 || rows <= 0) return 0;
    const double whole = wholeLines(b);
    if (rows == 1) return std::min(whole, std::ceil(row / kLine) * kLine);
    const double lines = std::fmod(row, kLine) == 0 ? row / kLine : (row - 1) / kLine + 1;
    return std::min(whole, rows * lines * kLine);
  }
  const GroupShape& g_;
  const StageSet& set_;
  const Tiled& tiled_;
  std::vector<int64_t> counts_;
  std::vector<std::vector<double>> touched_;  // [loop][buffer]: lines
  std::vector<double> all_;                   // [loop]

  /// Elements of one axis, the mean over the tiles outside of `loop`, clipped to the axis.
  double sizeOf(size_t b, size_t d, size_t loop) const {
    const Span& s = tiled_.regions.buffers[b][d];
    const int64_t extent = g_.buffers[b][d];
    int64_t low = s.base, high = s.base + std::max<int64_t>(s.size, 0);
    const bool innermost =
        d == (set_.buffers[b].order.empty() ? g_.buffers[b].size() - 1
                                            : static_cast<size_t>(set_.buffers[b].order.back()));
    const int64_t slack =
        innermost ? static_cast<int64_t>(kLine) / bytes(set_.buffers[b].type.dtype) : 0;
    double gaps = 1, touched = touchedOf(g_, tiled_.regions, b, d, slack);
    int moving = -1;
    std::vector<int> inside;  // the shortest steps first: they fill what longer ones leave between
    for (size_t k = 0; k < tiled_.tiling.order.size(); k++) {
      const int j = tiled_.tiling.order[k];
      if (s.coefficients[static_cast<size_t>(j)] == 0) continue;
      if (k < loop)
        moving = j;
      else
        inside.push_back(j);
    }
    std::ranges::stable_sort(
        inside, {}, [&](int j) { return std::abs(s.coefficients[static_cast<size_t>(j)]); });
    for (const int j : inside) {
      const int64_t c = s.coefficients[static_cast<size_t>(j)];
      touched *= static_cast<double>(counts_[static_cast<size_t>(j)]);
      const int64_t far = c * (counts_[static_cast<size_t>(j)] - 1);
      if (std::abs(c) > high - low)
        gaps *= static_cast<double>(high - low) / static_cast<double>(std::abs(c));
      (far > 0 ? high : low) += far;
    }
    const auto clipped = [&](int64_t by) {
      return static_cast<double>(
          std::max<int64_t>(0, std::min(high + by, extent) - std::max<int64_t>(low + by, 0)));
    };
    if (moving < 0) return std::min(touched, clipped(0) * gaps);
    const int64_t n = counts_[static_cast<size_t>(moving)],
                  c = s.coefficients[static_cast<size_t>(moving)];
    double sum = 0;
    for (int64_t t = 0; t < n; t += std::max<int64_t>(1, n / 64)) sum += clipped(c * t);
    return std::min(touched,
                    sum / std::ceil(static_cast<double>(n) / std::max<double>(1, n / 64)) * gaps);
  }
};

}  // namespace

void Traffic::add(const GroupShape& g, const StageSet& set, const Tiled& tiled,
                  const Target& target) {
  const ListTraffic list(g, set, tiled);
  for (size_t b = 0; b < g.buffers.size(); b++) {
    const PlanBuffer& buffer = set.buffers[b];
    if (buffer.kind == PlanBuffer::Scratch) continue;
    Moved& m = buffers_[buffer.name];
    m.written = buffer.kind == PlanBuffer::Output;
    m.footprint = std::max(m.footprint, list.footprint(b));
    m.bytes += list.traffic(b, static_cast<double>(target.last().bytes));
    m.whole = list.wholeLines(b);
  }
  if (tiled.tiling.sync >= 0)
    addPartials(set.stages[static_cast<size_t>(tiled.tiling.sync)], list.lastTiles());
}

/// What the tiles of a split reduction leave for the last of them.
void Traffic::addPartials(const Stage& s, double tiles) {
  double n = tiles;
  for (const StageAxis& a : s.axes)
    if (!a.reduce) n *= static_cast<double>(a.extent);
  Moved& m = buffers_["partials"];
  m.written = true;
  for (const Accumulator& a : s.accumulators)
    for (const DType t : a.combine.types) m.bytes += n * bytes(t);
  m.footprint = m.whole = m.bytes;
}

void Traffic::settle(Cost& c, const Target& target) const {
  double all = 0, read = 0, written = 0;
  for (const auto& [name, m] : buffers_) all += m.footprint;
  const bool held = all <= static_cast<double>(target.last().bytes);
  for (const auto& [name, m] : buffers_)
    (m.written ? written : read) += held ? std::min(m.bytes, m.whole) : m.bytes;
  c.bytesRead = std::llround(read);
  c.bytesWritten = std::llround(written);
}

}  // namespace tektite
