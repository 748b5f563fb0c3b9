#pragma once
#include "ir/kernel_machine.h"

namespace tektite::code {

/// Runs statements on a machine: grids become lists of tiles, tiles run one after the other in the order asked for.
class Runner {
 public:
  Runner(Machine& machine) : m_(machine) {}
  /// What stands outside the grids, and the lists of tiles between `sync grid`s.
  void kernel(const std::vector<CodeStmt>& body);

 private:
  /// The lanes of the running vector loop that are on.
  struct Lanes {
    int slot;
    int64_t total;
    std::vector<int64_t> on;
  };
  struct Grid {
    std::vector<const CodeStmt*> loops;
    std::vector<std::pair<int, Value>> around;  // variables of the loops around it
  };
  struct Tile {
    int grid;
    int64_t group;
    std::vector<int64_t> coordinates;
  };

  void outside(const std::vector<CodeStmt>& body);
  void addGrid(const CodeStmt& loop);
  void addTiles(size_t depth, std::vector<int64_t>& coordinates);
  void runList();
  void runTile(const Tile& tile);

  void block(const std::vector<CodeStmt>& body, const Lanes* lanes);
  void release(const std::vector<CodeStmt>& body);
  void statement(const CodeStmt& s, const Lanes* lanes);
  void loop(const CodeStmt& s, const For& f, const Lanes* lanes);
  void iterate(const CodeStmt& s, int64_t extent, const Lanes* lanes);
  void parallel(const CodeStmt& s, int64_t extent, const Lanes* lanes);
  void vector(const CodeStmt& s, int64_t extent);
  void warps(const CodeStmt& s, int64_t extent);
  void threads(const CodeStmt& s, int64_t extent);
  void masked(const CodeStmt& s, const Lanes& lanes);
  void alloc(const CodeStmt& s, const Lanes* lanes);
  void store(const CodeStmt& s, const Store& t, const Lanes* lanes);
  void evaluate(const CodeStmt& s, size_t at);
  void commit(const CodeStmt& s, const Store& t, size_t at, uint32_t stamp);
  void copy(const CodeStmt& s, const Copy& c);
  void intrin(const CodeStmt& s, const Intrin& i);
  View operand(const CodeRef& ref, const CodeBuffer& declared);
  void body(const CodeIntrin& intrin, const std::vector<View>& operands,
            const std::vector<int64_t>& dims);
  void sync(const Sync& s);

  int64_t extentOf(const CodeStmt& s, const Lanes* lanes);
  std::vector<int64_t> order(int64_t n);
  template <class F>
  void eachLane(const Lanes& lanes, F&& f) {
    for (int64_t l : lanes.on) {
      m_.variables[lanes.slot].i = m_.lane = l;
      m_.newEvaluation();
      f(l);
    }
    m_.lane = 0;
  }

  Machine& m_;
  std::vector<std::unique_ptr<Storage>> storages_;
  std::vector<Grid> grids_;  // of the list being made
  std::vector<Tile> tiles_;
  std::vector<int64_t> left_;  // tiles of a group that haven't arrived
  int warp_ = -1;
  std::vector<int64_t> addresses_;  // of a store: lanes x targets
  std::vector<Value> values_;
  uint64_t nextAddress_ = uint64_t{1} << 60;
};

/// All elements of a view, in row-major order.
template <class F>
void eachElement(const View& v, F&& f) {
  std::array<int64_t, kMaxRank> index{};
  for (int d = 0; d < v.rank; d++)
    if (v.shape[d] <= 0) return;
  for (int64_t at = v.base;;) {
    f(at);
    int d = v.rank - 1;
    for (; d >= 0; d--) {
      at += v.strides[d];
      if (++index[d] < v.shape[d]) break;
      at -= index[d] * v.strides[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

/// Shape and strides of a buffer with the variables as they are.
void describe(Machine& machine, const CodeBuffer& buffer, View& view);
/// Elements from the first to the last that a view reaches.
int64_t span(const View& view);

}  // namespace tektite::code
