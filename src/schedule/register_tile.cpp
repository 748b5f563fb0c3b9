#include "schedule/register_tile.h"

#include <algorithm>

#include "schedule/choose.h"

namespace tektite {
namespace {

constexpr double kCrowded =
    0.25;  // so much slower are rows of a register tile that push each other out (Zen 4, 14 rows: 113 -> 88 GFLOP/s)
constexpr double kFewTerms = 16;  // of a sum: its result's store counts as much as what it reads
constexpr double kLoadShare =
    0.3;  // of loads isn't hidden beside multiplications (Golden Cove: 8x32, 14x32, 6x64 and 28x16 in L1 reach 84, 90, 93 and 76 % of the peak)
constexpr double kSplit =
    1.5;  // loads more for a vector across two lines (the same: 28 in L1 take 9.5 ns, aligned ones 5.9; 16 for 42 multiplications 8.5 and 6.8)
constexpr double kFarExposed = 0.6;  // of a line's way from beyond L2 (the same, 3136x256x64)
constexpr double kExposed = 0.2;     // of a line's way from L2 (the same, panels of 16 to 256 KiB)
constexpr double kStrewnExposed =
    0.6;  // of one in rows that are short (the same, 14 rows of 16 and 3 x 3 taps in 32 planes: 147 -> 104 GFLOP/s)

/// Of a vector, in aligned ones.
double costOf(const TileLoad& l, int lanes) {
  return 1 + (l.askew ? kSplit * static_cast<double>(lanes * l.elementBytes) / kLineBytes : 0);
}

/// Multiplications a slot of `v` vectors by `u` rows: bound by loads, by latency, by rows that push each other out of L1, by panels that L1
/// doesn't hold.
double tileRate(const TileProblem& p, int v, int u, const Target& target) {
  const int64_t places = p.slide ? p.slide->places(u) : u, taps = p.slide ? p.slide->taps : 1;
  const double rows = static_cast<double>(places) / static_cast<double>(taps);
  double loads = 0;
  for (const TileLoad& l : p.loads)
    loads += costOf(l, p.lanes) * (l.alongLanes ? v : 1) * (l.alongRows ? rows : 1);
  const double busy = loads / (u * v) * target.fmaPerCycle / target.loadsPerCycle;
  const double latency = std::min(1.0, u * v / (target.fmaLatency * target.fmaPerCycle));
  double time = std::max(1.0, busy) + kLoadShare * busy;
  if (const Level *l1 = target.level("l1"), *l2 = target.level("l2"); l1 && l2) {
    // One way of each set is for the panel.
    const int64_t room = l1->bytes - kSetBytes, read = places * p.rowsApart;
    if (read > room)
      time += kCrowded;
    else if (read + u * p.resultsApart > room)
      time += kCrowded * std::min(1.0, kFewTerms / p.depth);
    const auto line = [&](const Level& from) {
      return target.vectorBytes * target.hertz / from.bytesPerSecond * target.fmaPerCycle;
    };
    if (p.column * v * p.lanes > static_cast<double>(l1->bytes) / 2)
      time += kExposed * line(*l2) / u;
    for (const TileLoad& l : p.loads)
      if (!l.spans.empty())
        time += kStrewnExposed * line(*l2) * l.lines(int64_t{v} * p.lanes, u) / (v * u * p.depth);
    if (p.farRows) time += kFarExposed * line(target.levels.back()) / (v * p.lanes);
  }
  return latency / time;
}

/// Registers of `v` vectors by `u` rows: results, what is multiplied, of a window that slides all its taps.
int64_t registersOf(const TileProblem& p, int v, int u, const Target& target) {
  const int temporaries =
      target.maskedMoves ? 1 : 2;  // AVX-512 broadcasts inside the multiplication
  int64_t taps = 0;
  for (const TileLoad& l : p.loads)
    if (p.slide && !l.alongRows) taps += p.slide->taps * (l.alongLanes ? v : 1);
  return int64_t{v} * u + v + temporaries + taps;
}

}  // namespace

double TileLoad::lines(int64_t elements, int64_t rows) const {
  double n = spans.empty() ? 0 : 1;
  for (const TileSpan& s : spans) {
    const auto span = static_cast<double>((elements - 1) * s.lanes + (rows - 1) * s.rows + s.rest);
    n *= &s == &spans.back() ? span * static_cast<double>(elementBytes) / kLineBytes + askew : span;
  }
  return n;
}

TileShape registerTile(const TileProblem& p, const Target& target) {
  TileShape best{1, 1, p.panels && p.align % p.lanes != 0 ? 0 : 1e-3};
  const int64_t widest = p.direct ? p.smallestVector : p.vectorExtent + p.lanes - 1;
  for (int v = 1; v <= 8; v++) {
    const int64_t width = int64_t{v} * p.lanes, full = p.vectorExtent / width * width;
    if (v > 1 && width > widest) break;
    if (p.panels && p.align % width != 0) continue;
    for (int u = 1; u <= 16; u++) {
      if (u > p.smallestUnroll || registersOf(p, v, u, target) > target.vectorRegisters) break;
      if (p.square && u != 8 && u != p.lanes) continue;
      if (p.exact && (p.smallestUnroll != p.unrollExtent || p.unrollExtent % u)) continue;
      const double rest = static_cast<double>((p.vectorExtent - full + p.lanes - 1) / p.lanes *
                                              p.lanes);  // one vector at a time, or a padded panel
      const double rate = tileRate(p, v, u, target);
      const double time =
          static_cast<double>(full) / rate + (!p.panels  ? rest / tileRate(p, 1, u, target)
                                              : rest > 0 ? static_cast<double>(width) / rate
                                                         : 0);
      const double score =
          static_cast<double>(p.vectorExtent) / time * usedShare(p.unrollExtent, u);
      if (score > best.score + 1e-9) best = {v, u, score};
    }
  }
  return best;
}

}  // namespace tektite
