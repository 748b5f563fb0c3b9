#pragma once
#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "ir/graph_eval.h"

namespace tektite {

/// Numbers that are the same for a seed on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull) {}
  uint64_t next();
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }
  bool oneIn(int n) { return below(n) == 0; }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

struct RandomGraphOptions {
  int nodes = 12;
  int64_t mostElements = 2048;  ///< of any value
  /// Also ops whose value jumps (floor, comparisons, sign): right only where the operands are exact, so not for compiled kernels.
  bool jumps = false;
  bool updates = true;  ///< scatters, which not every target makes a kernel of
};
/// A random legal graph of static shapes: maps, reductions, contractions, views, gathers, concatenations, updates, with several
/// results. The same for a seed everywhere.
Graph randomGraph(uint64_t seed, const RandomGraphOptions& = {});
/// A recurrence over a random graph: some of its inputs are states, slices, captured; one to five steps, either way round.
Graph randomScan(uint64_t seed, const RandomGraphOptions& = {});
/// Inputs for it: mostly moderate numbers, some special ones; indices mostly in range.
std::vector<Tensor> randomInputs(const Graph&, uint64_t seed, bool special);

}  // namespace tektite
