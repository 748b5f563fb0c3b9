#pragma once
#include <set>
#include <vector>

#include "fusion/plan_body.h"

namespace tektite {

/// A set of nodes that will be one kernel. Nodes that cost nothing to repeat (views, cheap maps) belong to none: every reader has
/// its own copy.
struct Cluster {
  std::vector<int> nodes;       ///< ascending
  std::set<int> before, after;  ///< clusters that it reads, that read it
  bool host = false;            ///< control flow, a call: never merged
  bool alone =
      false;          ///< a kernel by itself: a scatter; a scan, but for what the greedy move finds
  bool scan = false;  ///< has one
  bool alive = true;
  int version = 0;
  double seconds = -1;  ///< of its plan; -1: not yet known
};

/// The clusters of a graph and who reads whom: a DAG, kept one by `joins`.
class Clusters {
 public:
  Clusters(const Graph& g, const FusionOptions&);
  std::vector<Cluster> list;
  std::vector<int> of;        ///< node -> cluster; -1: none (input, const, repeated)
  mutable int64_t steps = 0;  ///< nodes and clusters that searches and bodies touched
  bool repeated(int node) const { return repeated_[node]; }
  /// In topological order, by their first node where there is a choice.
  std::vector<int> order() const;
  /// Would one cluster of both leave and re-enter? Answers a cluster on the way round, or -1.
  int wayRound(int a, int b) const;
  void merge(int into, int from);
  /// One cluster for each node of the input model.
  void joinOrigins();

  /// The body of the kernel that these nodes make: inputs, copied constants, nodes in order. `from`: for each body node the graph's.
  struct Body {
    Graph graph;
    std::vector<int> from;
    std::vector<Value> inputs, outputs;  ///< in the graph
  };
  Body bodyOf(const std::vector<int>& nodes) const;
  /// These nodes and the repeated ones that they read, ascending.
  std::vector<int> withRepeated(const std::vector<int>& nodes) const;
  /// Values of these nodes that others, host nodes or the graph's caller need.
  std::vector<Value> neededOutside(const std::vector<int>& nodes) const;
  const std::vector<Value>& sources(int node) const {
    return sources_[node];
  }  ///< what it reads, through repeated nodes

 private:
  const Graph& g_;
  std::vector<bool> repeated_;
  std::vector<std::vector<Value>> sources_;
  std::map<Value, std::vector<int>>
      readers_;  ///< nodes of clusters that read a value, through repeated nodes
  std::set<Value> outputs_;
  void classify(const FusionOptions&);
  bool attached(const Node&, const std::vector<std::vector<int>>& users) const;
};
/// Does the view only drop or add axes of extent 1?
bool isSqueeze(const Graph&, const Node&);

}  // namespace tektite
