#pragma once
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "fusion/cost.h"
#include "fusion/explicit.h"
#include "fusion/vector_work.h"

namespace tektite {

/// A machine's levels, paths and engines by number, each in the order of their names.
class Memories {
 public:
  explicit Memories(const Target&);
  static constexpr int kNone = -1;
  int main, scratch, operands, weights, left, right,
      result;  ///< levels; kNone: the machine has none
  size_t count() const { return levels_.size(); }
  const Level& level(int m) const { return *levels_[static_cast<size_t>(m)]; }
  const MemoryPath* path(int from, int to) const { return way(from, to).path; }
  size_t engines() const { return engines_; }
  size_t engine(int from, int to) const { return way(from, to).engine; }

 private:
  struct Way {
    const MemoryPath* path;  ///< null: there is none
    size_t engine;
  };
  const Way& way(int from, int to) const {
    return ways_[static_cast<size_t>(from) * count() + static_cast<size_t>(to)];
  }
  std::vector<const Level*> levels_;
  std::vector<Way> ways_;
  size_t engines_;
};

/// What holds of a group's stages however it is tiled.
struct ExplicitFacts {
  ExplicitFacts(const StageSet&, const Target&);
  const Memories memories;
  std::vector<int>
      moves;  ///< [stage] the buffer that it fills with what lies in main (moveOf), or -1
  std::vector<bool> itself;                      ///< [stage] storesItself
  std::vector<std::optional<Product>> products;  ///< [stage]
  std::vector<std::vector<int>>
      scaled;  ///< [stage] scalesSums: the buffers that its output touches
  /// [stage] of each store and accumulator at every point, and behind reductions
  std::vector<std::vector<VectorWork>> inner, outer;
  std::vector<std::vector<int>> partials;   ///< [stage] bytes of each value that it combines
  std::vector<std::set<int>> here, behind;  ///< [stage] buffers touched at every point, and behind
  struct Operands {
    int left = -1, right = -1;
    int sums = -1;  ///< the scratch to which it only adds
    bool has(size_t b) const { return left == static_cast<int>(b) || right == static_cast<int>(b); }
  };
  std::vector<Operands> operands;  ///< [stage] buffers of its product
  struct Stored {
    size_t stage, write;  ///< of GroupShape
    bool plain;           ///< always, alone, at an element for each point, side by side
  };
  std::vector<std::vector<Stored>> stores;  ///< [buffer]
  std::vector<int64_t> elementBytes;        ///< [buffer]

 private:
  void work(const Stage&);
  void touched(const Stage&, const std::function<int(const std::string&)>& numberOf);
};

/// Numbers of tilings, one after the other, where what tiles work on is copied into explicit memories.
class ExplicitEvaluation {
 public:
  ExplicitEvaluation(const GroupShape& g, const StageSet& set, const std::vector<StageWork>& work,
                     const Target& target)
      : g_(g), set_(set), work_(work), facts_(set, target), m_(facts_.memories), target_(target) {
    readBack_.resize(g.buffers.size());
    for (const StageShape& s : g.stages)
      for (const Touch& t : s.reads)
        if (g.output[t.buffer]) readBack_[t.buffer] = true;
  }

  /// Into the memory that `out` has.
  void run(const Tiling&, Tiled& out);

 private:
  const GroupShape& g_;
  const StageSet& set_;
  const std::vector<StageWork>& work_;
  const ExplicitFacts facts_;
  const Memories& m_;
  const Target& target_;
  std::vector<bool> readBack_;  // [buffer] results that stages read
  Tiled out_;
  std::vector<int64_t> counts_;
  std::vector<int> space_;  // [buffer] the level; kNone: no tile has a copy
  std::vector<int> place_;  // [stage] in the order of the text
  // Seconds, were there only one core, all executions together.
  std::vector<double> line_;  // [depth] of what the program waits for there
  std::vector<std::vector<double>>
      beside_;  // [depth][engine] of what brings what the next tile of the loop wants, or
                // takes what the last one made
  // [depth][engine] what the program waits for there before it waits for that engine; -1: it doesn't
  std::vector<std::vector<double>> before_;
  size_t at_ = 0;             // the depth that is counted
  double behind_ = 0;         // of what the last tile does behind the wait for all (Tiling::sync)
  std::vector<bool> waited_;  // [buffer] it is used there
  // [buffer] the next tile's part comes while this one runs, or the last one's goes
  std::vector<bool> doubled_;
  std::set<std::pair<size_t, bool>>
      waits_;  // depths where a main memory's latency is waited for, by direction
  double total_ = 0, base_ = 0;

  void begin(const Tiling&);
  Tiling& tiling() { return out_.tiling; }
  const Tiling& tiling() const { return out_.tiling; }

  /// Tiles before the first: where all that is made lies outside the tensors, nothing is missed.
  void warm();
  /// The outer loops that give every core something to do are the grid; inner ones share what doesn't depend on them.
  void grid();
  /// All tiles by those of the core that has most to do: as many cores work all the time.
  double coresWorth() const;
  int depthOf(const std::vector<Span>& spans) const;
  void depths();
  double executions(int depth) const;

  // ---- a reduction across tiles (Tiling::sync): parts in main memory, which the last tile to come combines

  bool isSplit(size_t s) const { return static_cast<int>(s) == out_.tiling.sync; }
  /// Does the stage run behind the wait?
  bool isBehind(size_t s) const {
    return out_.tiling.sync >= 0 && static_cast<int>(s) > out_.tiling.sync;
  }
  double lastTiles() const { return executions(out_.tiling.grid - 1); }
  double partsOfOne() const;  ///< that a last tile combines
  /// What is used on one side of the wait isn't on the other.
  void sides();
  int64_t partElements() const;  ///< of the results in one tile, at most
  /// In the memory of vector instructions: a tile's own part, and all that a last tile combines.
  int64_t partBytes() const;

  /// Mean size over the tiles, clipped to the axis.
  double meanSize(const Span& s, int64_t extent) const;
  double meanPart(const std::vector<Span>& spans, const std::vector<int64_t>& extents) const;

  // ---- where things lie

  bool isScratch(size_t b) const { return set_.buffers[b].kind == PlanBuffer::Scratch; }
  /// Do tiles work on a copy, or on scratch?
  bool isBrought(size_t b) const { return space_[b] != Memories::kNone; }
  /// Where it lies: what stages read of a result that isn't brought is kept in scratch, too.
  int levelOf(size_t b) const { return isBrought(b) || !readBack_[b] ? space_[b] : m_.scratch; }
  int64_t heldBytes(size_t b) const;
  /// Small operands that loops walk through are brought before them, all at once, where that costs less than many small copies.
  void widen();
  /// The part of an operand's dim for all tiles of the serial loops from this depth on.
  Span widened(Span, int64_t extent, int depth) const;
  void spaces();
  /// Does the matrix unit's own engine take the result to main memory?
  bool storedByUnit(size_t b) const;
  /// Sums in the matrix unit's memory, where there is room for them beside a tile of other results.
  void keepApart();
  /// Does an engine bring what the stage moves? Else it loads and stores element by element.
  bool isMove(size_t s) const {
    const int to = facts_.moves[s];
    return to >= 0 && isBrought(static_cast<size_t>(to));
  }
  /// Do the stages that store an output make the tile's part of it, every element once?
  bool isMade(size_t b) const;
  /// Is what a stage makes in one tile exactly what the tile owns?
  bool isOwn(size_t s) const;
  bool split() const { return target_.operands != target_.scratch; }
  void shareMemory(size_t b, size_t into);
  /// Where a tile of results waits for vector instructions.
  int64_t exchangeBytes() const;
  void places();
  /// When each buffer is used, in places of stages. A buffer that a loop inside of its block uses lives as long as the loop.
  std::vector<Life> uses() const;
  /// Of each level, all that lives there at once at most; -1: nothing does.
  std::vector<int64_t> peaks(std::vector<Life> uses) const;
  /// Where all doesn't fit, the largest operands stay in main memory.
  void fit();

  // ---- what engines do

  /// Seconds of one operation along a path.
  double moveSeconds(int from, int to, double bytes) const;
  /// Waited for, each at main memory's latency.
  void moveBytes(int from, int to, double times, double each);
  void bringOrTake(size_t b, int depth, double each);
  void wait(double seconds) { line_[at_] += seconds; }
  /// For an operation along a path.
  void waitFor(int from, int to, double seconds) {
    double& before = before_[at_][m_.engine(from, to)];
    if (before < 0) before = line_[at_];
    wait(seconds);
  }
  /// Of all loops: what is brought ahead goes beside what a tile does, but for the first tile, and for what the last one does; what is taken
  /// back likewise. Where a tile waits for the same engine, that is done with it first.
  double pipelined() const;
  double busiest() const;  ///< the engine that moves most beside tiles
  void vector(const std::vector<VectorWork>&, double runs, double points);
  void chooseDoubled();
  bool isFixed(const Span&, int64_t extent) const;
  bool goesOut(size_t s) const;
  int64_t roomForSums(size_t s) const;
  void engines();
  void count(bool written, double n) {
    (written ? out_.cost.bytesWritten : out_.cost.bytesRead) += std::llround(n);
  }

  /// What runs before the wait for all tiles, or behind it.
  void oneSide(bool behind);
  void stage(size_t s);
  void splitStage(size_t s, bool behind);
  /// Elements that no tile has a copy of.
  void direct(size_t s, double points, double outer);
  void movesFromMain(size_t s, double runs);
  double product(size_t s, double runs);  ///< answers how many tiles of results
};

}  // namespace tektite
