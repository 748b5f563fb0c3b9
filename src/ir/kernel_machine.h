#pragma once
#include <deque>
#include <functional>
#include <map>

#include "ir/kernel_eval.h"
#include "ir/kernel_races.h"

namespace tektite::code {

/// An asynchronous operation between its issue and its completion.
struct Pending {
  struct Touch {
    Storage* memory;
    int64_t at;
    bool write;
  };
  ThreadId thread;
  bool inThread = false;
  std::vector<Touch> touches;
  std::function<void()> complete;
};

/// The state of a run below statements: variables, memory with its shadow, expressions, queues, and how a broken rule is told.
class Machine {
 public:
  Machine(const Code& code, const KernelEvalOptions& options, std::string place);

  const Code& code;
  const KernelEvalOptions& options;
  std::vector<Value> variables;
  std::vector<View> views;  // of each buffer slot
  Races races;
  EvalCounters counters;
  const Stmt* statement = nullptr;  // running: for messages
  std::vector<int> live;            // variables to tell
  int64_t lane = 0;                 // of the running vector loop

  /// Each value is evaluated within one generation: shared nodes are evaluated once in it.
  void newEvaluation() { generation_++; }
  int64_t integer(int node);
  double real(int node);
  Value value(int node);
  DType type(int node) const { return code.nodes[node].type; }

  int64_t index(const CodeIndex& i) {
    if (i.node >= 0) return integer(i.node);
    int64_t out = i.constant;
    for (auto [slot, factor] : i.terms) out += variables[slot].i * factor;
    return out;
  }
  int64_t address(const CodeRef& ref);
  Value read(const View& view, int64_t at);
  void write(const View& view, int64_t at, Value v, bool stream = false);
  Value combined(Op op, DType type, Value a, Value b);
  /// What a read or a write would break, without doing it; both are remembered. `defined`: K12 too.
  void checkRead(const View& view, int64_t at, bool defined = true);
  void checkWrite(const View& view, int64_t at);

  // Queues: of each thread of a team, or of the tile
  void issue(const std::string& queue, Pending operation);
  void waitFor(const std::string& queue, int64_t pending);
  void checkQueuesEmpty();

  [[noreturn]] void fault(int rule, const std::string& what) const;
  std::string element(const View& view, int64_t at) const;  // "y[3, 4]"
  uint64_t random();

 private:
  struct Queue {
    int id;
    std::deque<Pending> operations;
  };
  struct Flight {
    int queue;
    bool write;
  };
  int64_t apply(const Node& n);
  double applyReal(const Node& n);
  void checkFlight(const View& view, int64_t at, bool write, int queue);
  void complete(Queue& queue);

  std::string place_;
  std::vector<uint64_t> stamps_;
  std::vector<Value> memos_;
  uint64_t generation_ = 1;
  uint64_t random_;
  std::map<std::tuple<std::string, int, int>, Queue> queues_;
  std::unordered_map<const Shadow*, std::vector<Flight>> flights_;
  int completing_ = -1;
};

}  // namespace tektite::code
