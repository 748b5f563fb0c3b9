#pragma once
#include "runtime/chain.h"

namespace tektite {

int64_t bytesOf(const Carried&);

/// One run of a loop by the host: what the next step is given, and what the steps before have left.
class HostLoopRun {
 public:
  HostLoopRun(const LoopPart&, const std::optional<Carried>& trips,
              const std::optional<Carried>& condition);
  std::vector<Carried> states, scanned;  ///< set before the first step

  bool goesOn() const;
  std::vector<Carried> bodyInputs() const;  ///< of the next step
  /// The body's results: condition (where it is counted), states, what is stacked.
  void take(const std::vector<Carried>& results);
  /// No step was taken, and there is something to stack: the types of that.
  bool needsTypes() const;
  void takeTypes(const std::vector<TensorType>&);
  std::vector<Carried> results() const;  ///< states, then stacks

 private:
  /// Slices of one shape, one after the other.
  struct Stack {
    DType type = DType::F32;
    std::vector<int64_t> shape;
    std::shared_ptr<Array> memory;  // bytes
    int64_t used = 0;
    void push(const Carried&, const std::string& origin, bool first);
  };
  int64_t steps() const;  ///< at most
  bool reversed(size_t flag) const { return flag < part_.reverse.size() && part_.reverse[flag]; }

  const LoopPart& part_;
  int64_t trips_, step_ = 0;
  bool condition_;
  std::vector<Stack> stacks_;
};

}  // namespace tektite
