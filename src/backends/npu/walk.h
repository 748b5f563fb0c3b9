#pragma once
#include <deque>
#include <map>
#include <span>
#include <unordered_map>

#include "backends/npu/simulate.h"
#include "fusion/vector_work.h"
#include "ir/kernel_machine.h"

namespace tektite {

/// Walks a kernel: loops, copies, instructions and waits on a time line.
class Walk {
 public:
  Walk(const KernelModule& module, const Kernel& kernel, const Target& target,
       const std::set<std::string>& weights, std::vector<TraceEvent>* trace)
      : code_(code::compile(module, kernel)),
        machine_(code_, options_, "kernel " + kernel.name),
        target_(target),
        weights_(weights),
        trace_(trace),
        cores_(static_cast<size_t>(std::max(1, target.cores))) {
    for (const Level& l : target.levels) align_[l.name] = std::max<int64_t>(1, l.align);
    for (const auto& [name, place] : spacesOf(kernel)) space_[name] = place;
    for (const Param& p : kernel.params) space_[p.buffer.name] = "main";
  }

  Simulated run();

 private:
  static constexpr size_t kMostEvents = 100000;
  /// What is known of a statement before a run.
  struct Facts {
    bool plain = true;         ///< loops, guards and stores only: vector instructions
    std::vector<int> extents;  ///< variables that extents inside depend on
  };
  /// And of a store.
  struct Stored {
    VectorWork work;
    bool byUnit = false;     ///< the matrix unit stores what it has summed up
    std::vector<int> loads;  ///< buffers in main memory that it reads element by element
  };
  struct Engine {
    double free = 0, busy = 0;
    std::deque<double> ends;
  };
  /// A tile of results in the matrix unit's memory: when it is summed up, and when the output has read it.
  struct Sums {
    double made = 0, read = 0;
  };
  struct Core {
    double time = 0;
    std::map<std::pair<int, int64_t>, Sums> sums;  ///< by buffer, and first index of several tiles
    std::map<std::string, Engine> engines;
  };
  struct Tile {
    const code::CodeStmt* body;
    std::vector<std::pair<int, int64_t>> variables;
  };

  KernelEvalOptions options_;
  code::Code code_;
  code::Machine machine_;
  const Target& target_;
  const std::set<std::string>& weights_;
  std::vector<TraceEvent>* trace_;
  std::vector<Core> cores_;
  Core* core_ = nullptr;
  Core* last_ = nullptr;  ///< of those that wait in a `sync last`, the one whose time is latest
  std::vector<Tile> tiles_;
  Simulated out_;
  std::map<std::string, std::string> space_;
  std::map<std::string, int64_t> align_, held_;
  std::unordered_map<const code::CodeStmt*, Facts> facts_;
  std::unordered_map<const code::CodeStmt*, Stored> stored_;
  int64_t moved_ = 0;  // bytes of main memory in this list

  // ---- what a kernel declares

  static std::map<std::string, std::string> spacesOf(const Kernel& k);
  const std::string& spaceOf(int buffer) const { return space_.at(code_.buffers[buffer].name); }
  int64_t sizeOf(int buffer);
  void variablesIn(int node, std::vector<int>& out) const;
  const Facts& factsOf(const code::CodeStmt& s);

  // ---- tiles

  void outside(const std::vector<code::CodeStmt>& body);
  void addTiles(const code::CodeStmt& s, std::vector<std::pair<int, int64_t>>& at);
  void runList();
  void tile(size_t i);

  // ---- statements

  void block(std::span<const code::CodeStmt> body);
  void statement(const code::CodeStmt& s);

  // ---- engines

  void occupy(const std::string& engine, const std::string& queue, double seconds, double latency,
              const std::string& what);
  void wait(const std::string& queue, int64_t pending);
  void countMain(int buffer, bool written, double n);

  void copy(const code::CodeStmt& s, const Copy& c);
  /// Elements that are moved: those that are filled come from nowhere.
  double elements(const code::CodeStmt& s);

  void intrin(const code::CodeStmt& s, const Intrin& i);
  Sums& sumsOf(const code::CodeStmt& s);
  void output(const Intrin& i, Sums& sums, double bytes);

  // ---- vector instructions

  void vector(const code::CodeStmt& s);
  struct Cycles {
    double starts = 0, work = 0;
  };
  /// `before`: what stands before it in the same body.
  void nest(const code::CodeStmt& s, double times, Cycles& cycles, VectorStores& before);
  void nests(const std::vector<code::CodeStmt>& body, double times, Cycles& cycles);
  void store(const code::CodeStmt& s, const Store& t, double times, Cycles& cycles,
             VectorStores& before);
  const Stored& storedOf(const code::CodeStmt& s, const Store& t, VectorStores& before);
  bool byUnit(const code::CodeStmt& s, const Store& t) const;
  /// Elements of main memory that are moved one by one.
  void direct(int buffer, bool written, double times);
};

}  // namespace tektite
