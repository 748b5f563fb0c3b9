#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/device.h"
#include "backends/launch_list.h"
#include "fusion/fuse.h"
#include "runtime/array.h"
#include "schedule/coalescing.h"

namespace tektite {

/// What was decided and made for one group.
struct KernelInfo {
  std::string name;                ///< short, readable, unique in the program: k3_conv1
  std::vector<std::string> nodes;  ///< of the input model
  std::string plan, schedule,
      text;  ///< readable; empty where it wasn't made; text: of the first kernel of the same plan
  Artifact artifact;
  Cost cost;
  std::optional<TeamFacts> team;  ///< of a GPU's kernel that is no recurrence
  int64_t packedBytes = 0;
  int sameAs = -1;           ///< the earlier kernel whose code it shares
  bool interpreted = false;  ///< no code: the graph interpreter executes it
  bool cached = false;       ///< the code came from disk
  double compileSeconds = 0;
  KernelFunction function = nullptr;
};

/// A node that is no kernel: the graph interpreter executes it, which takes long. (Host routines are no fallbacks: they are code.)
struct Fallback {
  std::string node, kind;  ///< its name in the model; "loop", "scan", "if"
  double steps = 0;        ///< scalar steps of a run; of a loop's body once
};
std::string toText(const Fallback&);  ///< one line

/// A compiled model with static shapes. Immutable; sessions run it.
struct Program : LaunchList {
  Graph graph;  ///< of groups
  Ledger ledger;
  std::vector<KernelInfo> kernels;
  std::vector<Fallback> fallbacks;
  int64_t packedBytes = 0, constantBytes = 0;
  int64_t scratchBytes = 0;  ///< of each thread
  double planSeconds = 0, codeSeconds = 0;
  std::map<Value, int> slotOf;  ///< of every value of `graph` that has memory
  std::vector<Memory> packed;
  std::shared_ptr<const void> code;  ///< loaded objects
  std::shared_ptr<Device> device;    ///< that runs the kernels; null: the CPU
};

class Hand;
class Team;

/// Runs a program: arena, scratch and pointer tables. Nothing is allocated after construction. One run at a time.
class Session {
 public:
  /// `team` may be null: one thread. It must outlive the session.
  Session(std::shared_ptr<const Program> program, Team* team);
  ~Session();
  /// Buffers of the caller, row-major, one for each input and output. Those that aren't aligned as kernels assume (the element; 64 bytes
  /// for large outputs) are copied. Outputs overlap nothing.
  void run(const void* const* inputs, void* const* outputs);
  /// The same, step by step; adds the seconds of each step to `seconds`. `after` (if any) is called after each step.
  void runTimed(const void* const* inputs, void* const* outputs, std::vector<double>& seconds,
                const std::function<void(int step)>& after = {});
  void* data(int slot) const;  ///< of the run before, or in `after`
  const Program& program() const { return *program_; }
  /// Arena, zeroed and scratch memory, bytes.
  int64_t bytes() const;

 private:
  struct State;
  void bind(const void* const* inputs, void* const* outputs);
  void execute(int step, Hand&);
  void runSteps(size_t first, size_t end, Hand&);
  void runShared(size_t part);  ///< by the team, where it has something to share

  std::shared_ptr<const Program> program_;
  std::unique_ptr<State> state_;
};

}  // namespace tektite
