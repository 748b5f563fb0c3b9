#pragma once
#include <functional>
#include <optional>

#include "fusion/ledger.h"
#include "fusion/trials.h"

namespace tektite {

class PeakMemory;

/// The merge move for kernels that don't need each other: of readers of one value, in one nest or as stacked tile lists, and of kernels that
/// have nothing in common, as stacked lists (small products of different operands, small tails).
class Beside {
 public:
  /// `mayJoin`: nothing but cost stands against one cluster of both.
  Beside(const Graph&, const Target&, Clusters&, Trials&,
         std::function<bool(int a, int b)> mayJoin);
  void joinReaders();
  /// Layer by layer: clusters with equally long ways to them from the graph's inputs, or from them to its end, can't need each other.
  void joinLayers();
  /// Takes stacks of joinLayers apart that run, or write or read last what is alive, while more than `most` bytes are. Were there any?
  bool takeApart(const PeakMemory&, int64_t most);
  /// The members of a stack of joinLayers; none where it isn't one.
  std::vector<std::vector<int>> partsOf(int cluster) const;
  /// The pairs that were asked about, their first nodes, as it came out. `why`: of two clusters that were joined and are apart now.
  std::vector<Edge> pairs(const std::function<Refusal(int a, int b)>& why) const;

 private:
  struct Stack {
    std::vector<std::vector<int>> parts;  // nodes
    std::vector<size_t> pairs;            // that joined them
  };
  struct Member {  // of a layer: a kernel, or a stack that may take more
    int cluster;
    std::optional<Trial> trial;  // once it is asked for
    std::set<Value> reads;
  };
  const Graph& g_;
  const Target& target_;
  Clusters& clusters_;
  Trials& trials_;
  std::function<bool(int, int)> mayJoin_;
  std::vector<Edge> pairs_;
  std::map<int, Stack> stacks_;  // by cluster

  std::set<Value> inputsOf(int node) const;
  /// What one kernel of two readers gains; nothing where they stay apart.
  std::optional<double> gainOf(int a, int b);
  void joinBest(const std::vector<int>& clusters);
  void joinInTurn(const std::vector<int>& clusters);
  std::vector<std::vector<int>> layers(bool fromEnd) const;
  void stackLayer(const std::vector<int>& layer);
  void look(Member&);
  bool stack(Member& onto, Member& one);
  std::set<Value> readsOf(int c) const;
  size_t note(int a, int b, const Refusal&);
};

}  // namespace tektite
