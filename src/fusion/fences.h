#pragma once
#include "fusion/clusters.h"

namespace tektite {

/// What the user wants apart, or together: FusionOptions::cut and ::force as sets of nodes.
class Fences {
 public:
  /// UserError: a name that no node of the graph has.
  Fences(const Graph&, const FusionOptions&);
  /// Does a cut lie between these two sets of nodes?
  bool between(const std::vector<int>& a, const std::vector<int>& b) const;
  /// Are both part of what one forced fusion names?
  bool together(const std::vector<int>& a, const std::vector<int>& b) const;
  struct Pair {
    std::vector<int> from, to;  ///< nodes, ascending; `to` empty: all others
    std::string fromName, toName;
  };
  const std::vector<Pair>& forced() const { return forced_; }
  /// Makes one cluster of a forced pair and of all that lies between, and answers it. UserError: part of it can't be part of a kernel, a cut.
  int join(const Pair&, Clusters&) const;

 private:
  const Graph& g_;
  std::vector<Pair> cuts_, forced_;
  void joinAll(const Pair&, Clusters&, int a, int b) const;
};
/// What the ledger calls a node: its origin; else %id.
std::string ledgerName(const Graph&, int node);

}  // namespace tektite
