#pragma once
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace tektite {

/// The trees of an ensemble: all nodes and leaves in one numbering; a leaf leads to itself. Subtrees may be shared.
struct Forest {
  enum Mode : int64_t { Leq, Lt, Gte, Gt, Eq, Neq };

  std::vector<double> splits;
  std::vector<int64_t> features, modes, yes, no, missing, roots;  ///< missing: NaN leads to `yes`
  std::vector<double> weights;                                    ///< [nodes, targets]
  int64_t targets = 1;

  int64_t add(int64_t feature, int64_t mode, double split, bool missingTrue);  ///< as a leaf
  bool leaf(int64_t node) const { return yes[static_cast<size_t>(node)] == node; }
};

/// What the leaves of all trees give each row of x [rows, features], joined by "sum", "min" or "max": [rows, targets].
/// Trees of at most 64 leaves have a word whose bits are the leaves: every comparison that fails clears those that it rules out, and the
/// lowest bit that stays is the leaf. No step waits for another, rows or trees lie in the lanes. Larger trees are walked, in as many steps as the
/// deepest of a group of similar depth has levels.
Value scoresOf(Builder&, Forest, Value x, std::string_view combine);

}  // namespace tektite
