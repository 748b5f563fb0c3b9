#include "fusion/stack.h"

#include <algorithm>
#include <cmath>

#include "fusion/cost.h"

namespace tektite {
namespace {

constexpr double kAlone = 0.3;  // of a tile's time, that another one beside it would have hidden

double tilesOf(const TileList& list) {
  double n = 1;
  for (const TileAxis& a : list.tiles)
    if (a.grid) n *= static_cast<double>(a.count());
  return n;
}

/// The longest of the runs that the cores take.
double longestRun(const std::vector<ListTime>& lists, double cores) {
  double tiles = 0, longest = 0;
  for (const ListTime& l : lists) tiles += l.tiles;
  for (double core = 0; core < cores; core++) {
    const double low = std::floor(core * tiles / cores),
                 high = std::floor((core + 1) * tiles / cores);
    double before = 0, seconds = 0;
    for (const ListTime& l : lists) {
      seconds +=
          l.seconds * std::max(0.0, std::min(high, before + l.tiles) - std::max(low, before));
      before += l.tiles;
    }
    longest = std::max(longest, seconds);
  }
  return longest;
}

double bytesOf(const Cost& c) { return static_cast<double>(c.bytesRead + c.bytesWritten); }

/// Tiles of this much scratch that a multiprocessor holds at once.
double residents(int64_t scratch, const Target& t) {
  const Level* shared = t.level("shared");
  return shared ? static_cast<double>(shared->bytes / std::max<int64_t>(scratch, 1)) : 1;
}

}  // namespace

ListTime listTime(const TileList& list, double seconds, const Target& t) {
  const double tiles = tilesOf(list);
  return {tiles, seconds / std::ceil(tiles / t.cores)};
}

double secondsOfStack(const std::vector<ListTime>& lists, const Cost& cost, const Target& t) {
  const double bytes = bytesOf(cost);
  const double cores = t.cores;
  double all = 0, longest = 0;
  for (const ListTime& l : lists) {
    all += t.hasExplicitMemory() ? l.seconds * std::ceil(l.tiles / cores) : l.seconds * l.tiles;
    longest = std::max(longest, l.seconds);
  }
  if (t.hasExplicitMemory()) return all;  // each core runs one list after the other
  const double busy = t.kind == "gpu" ? std::max(longest, all / cores) : longestRun(lists, cores);
  return std::max(busy, moveSeconds(bytes, bytes, cores, t));
}

void addCounts(Cost& all, const Cost& one) {
  all.launches = 1;
  all.bytesRead += one.bytesRead;
  all.bytesWritten += one.bytesWritten;
  all.flops += one.flops;
  all.slots += one.slots;
  if (one.recompute / one.mostRecompute > all.recompute / all.mostRecompute) {
    all.recompute = one.recompute;
    all.mostRecompute = one.mostRecompute;
  }
  all.scratchBytes = std::max(all.scratchBytes, one.scratchBytes);
  all.registers = std::max(all.registers, one.registers);
}

double lostInStack(const Cost& a, const Cost& b, const Target& t) {
  const double both = bytesOf(a) + bytesOf(b);
  double lost = 0;
  for (const Cost* c : {&a, &b}) {
    const double mine = bytesOf(*c);
    lost += moveSeconds(mine, both, t.cores, t) - moveSeconds(mine, mine, t.cores, t);
    if (t.kind == "gpu" && residents(c->scratchBytes, t) >= 2 &&
        residents(std::max(a.scratchBytes, b.scratchBytes), t) < 2)
      lost += kAlone * (c->seconds - t.launchSeconds);
  }
  return lost;
}

}  // namespace tektite
