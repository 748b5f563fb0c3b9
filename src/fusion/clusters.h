#pragma once
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "fusion/plan_body.h"

namespace tektite {

/// Values of a graph as numbers, one after the other: places in vectors.
class ValueNumbers {
 public:
  explicit ValueNumbers(const Graph& g) {
    for (const Node& n : g.nodes) first_.push_back(size_), size_ += n.results.size();
  }
  size_t of(const Value& v) const { return first_[v.node] + static_cast<size_t>(v.result); }
  size_t size() const { return size_; }

 private:
  std::vector<size_t> first_;
  size_t size_ = 0;
};

/// Of a kernel that is but maps, with one value that others need: the values whose memory that may take over, as they are read at the
/// points that are stored, and nowhere else. None: of any other kernel.
struct InPlace {
  Value result;
  std::vector<Value> from;
};

/// A set of nodes that will be one kernel. Nodes that cost nothing to repeat (views, cheap maps) belong to none: every reader has
/// its own copy.
struct Cluster {
  std::vector<int> nodes;       ///< ascending
  std::set<int> before, after;  ///< clusters that it reads, that read it
  bool host = false;            ///< control flow, a call: never merged
  bool alone =
      false;          ///< a kernel by itself: a scatter; a scan, but for what the greedy move finds
  bool scan = false;  ///< has one
  bool contract = false;  ///< has one
  int heavy = 0;          ///< its reductions and products
  bool alive = true;
  int version = 0;
  double seconds = -1;  ///< of its plan; -1: not yet known
  int64_t mainBytes =
      -1;  ///< that its kernel keeps in main memory while it runs; -1: not yet known
  mutable std::optional<InPlace> inPlace;  ///< once it was asked for
  /// Its nodes are others, or their neighbours.
  void changed() { version++, seconds = -1, mainBytes = -1, inPlace.reset(); }
};

/// The clusters of a graph and who reads whom: a DAG, kept one by `joins`.
class Clusters {
 public:
  Clusters(const Graph& g, const FusionOptions&);
  std::vector<Cluster> list;
  std::vector<int> of;        ///< node -> cluster; -1: none (input, const, repeated)
  mutable int64_t steps = 0;  ///< nodes and clusters that searches and bodies touched
  bool repeated(int node) const { return repeated_[node]; }
  long alive() const { return std::ranges::count_if(list, &Cluster::alive); }
  /// In topological order, by their first node where there is a choice.
  std::vector<int> order() const;
  /// Would one cluster of both leave and re-enter? Answers a cluster on the way round, or -1.
  int wayRound(int a, int b) const;
  /// The nodes of both, ascending.
  std::vector<int> together(int a, int b) const;
  /// `seconds`: of the plan of both, where they are known.
  void merge(int into, int from, double seconds = -1);
  /// A cheap map that others read, of less than it is, or of what they can read as it is: its readers may have a copy each instead, and less
  /// goes from kernel to kernel.
  bool mayRepeat(int node) const;
  struct Repetition {
    int node = 0, cluster = 0;
    std::vector<std::pair<int, std::vector<Value>>> sources;  ///< of its readers, before
    std::vector<std::vector<int>> readers;  ///< of each value that it reads, before
  };
  Repetition repeat(int node);
  void undo(const Repetition&);
  /// The clusters that read a node's values through repeated nodes, its own left out.
  std::set<int> readersOf(int node) const;
  /// Takes all but the first `count` nodes into a cluster of their own, which it answers.
  int split(int c, size_t count);
  /// Takes these of its nodes into a cluster of their own, which it answers.
  int takeOut(int c, const std::vector<int>& nodes);
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
  const InPlace& inPlace(int c) const;
  /// Bytes of values between kernels that are alive at least while these nodes run as one: what they read, and what others read of them.
  /// `exact`: as in PeakMemory.
  int64_t leastAlive(const std::vector<int>& nodes, bool exact) const;
  const ValueNumbers& values() const { return values_; }
  /// Nodes of clusters that read it, through repeated nodes.
  const std::vector<int>& readers(const Value& v) const { return readers_[values_.of(v)]; }
  /// Values of these nodes that others, host nodes or the graph's caller need.
  std::vector<Value> neededOutside(const std::vector<int>& nodes) const;
  const std::vector<Value>& sources(int node) const {
    return sources_[node];
  }  ///< what it reads, through repeated nodes

 private:
  const Graph& g_;
  std::vector<bool> repeated_;
  std::vector<bool> pinned_;  ///< [node] never repeated: somebody looks for its value
  std::vector<std::vector<Value>> sources_;
  const ValueNumbers values_;
  std::vector<std::vector<int>>
      readers_;                ///< [value] nodes of clusters that read it, through repeated nodes
  std::vector<bool> outputs_;  ///< [value]
  mutable std::vector<int> marked_;  ///< [node] the search that saw it last
  mutable int searches_ = 0;
  struct Copy {
    int search = 0;
    Value value;
  };
  mutable std::vector<Copy> copies_;  ///< [value] in the body that was made last
  std::vector<int> rank_;             ///< [cluster] readers have higher ones; different
  void rankAll();
  void rankAsOne(int into, int from);
  void rankNextTo(int c, int isNew);
  /// Clusters ranked between the two that are reached from `start` by `next`.
  template <class Next>
  std::vector<int> reached(int start, int low, int high, const Next& next) const;
  InPlace inPlaceOf(const std::vector<int>& nodes) const;
  void classify(const FusionOptions&);
  void describe(int c);                 ///< flags and neighbours, from its nodes
  void changed(int node, int cluster);  ///< what its readers have and what the cluster computes
  bool isNeededOutside(const Value&) const;  ///< of its cluster
  bool attached(const Node&, const std::vector<std::vector<int>>& users) const;
};
/// Does the view only drop or add axes of extent 1?
bool isSqueeze(const Graph&, const Node&);

}  // namespace tektite
