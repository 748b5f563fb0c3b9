#pragma once
#include <functional>
#include <list>
#include <unordered_map>

#include "onnx/import.h"
#include "runtime/compile.h"
#include "runtime/team.h"

namespace tektite {

/// A tensor between the parts of a model: nobody changes it. `owner` keeps the memory, unless it is the caller's.
struct Carried {
  DType type = DType::F32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  std::shared_ptr<const void> owner;
};

/// A model in parts, run part by part: each is compiled for the shapes and the elements that the one before it made known, and
/// kept for the next time, within `Limits`: those used last. Loops between parts call the parts of their bodies.
class Chain {
 public:
  struct Stage {
    Part part;
    Graph graph;                             ///< static, after the passes
    std::shared_ptr<const Program> program;  ///< null where the part computes nothing
    std::unique_ptr<Session> session;
    std::vector<std::vector<std::shared_ptr<Array>>>
        pool;  ///< of each output: memory of runs before
    int64_t bytes = 0;
    int64_t lastRun = -1, times = 0;  ///< the last run that met it, and how often that one did
  };
  struct Limits {
    size_t parts = 1024;
    int64_t bytes = int64_t{1} << 30;  ///< of their packed constants, arenas and outputs
  };

  /// `interpreted`: parts are executed as they are imported, by the graph interpreter; nothing is compiled.
  Chain(RestPtr model, CompileOptions options, Team& team, bool interpreted, Limits limits);
  Chain(RestPtr model, CompileOptions options, Team& team, bool interpreted = false)
      : Chain(std::move(model), std::move(options), team, interpreted, Limits()) {}
  /// The model's outputs. UserError: inputs that don't fit, what no part can be made of.
  std::vector<Carried> run(const std::vector<Carried>& inputs);
  /// The part that inputs of these types begin with.
  const Stage& first(const std::vector<Carried>& inputs);

  /// Sees every part that runs, with its inputs, before it does.
  std::function<void(const Stage&, const std::vector<Carried>&)> observe;
  /// The parts that the last run met, in order.
  const std::vector<std::shared_ptr<Stage>>& reached() const { return reached_; }
  int compilations() const { return compilations_; }  ///< of parts, so far
  const CompileOptions& options() const { return options_; }

 private:
  using Values = std::map<int, Carried>;
  using Slot = std::pair<std::string, std::shared_ptr<Stage>>;

  std::vector<Carried> execute(RestPtr rest, Values values);
  std::shared_ptr<Stage> stageFor(const Rest&, const Values&);
  std::shared_ptr<Stage> make(const Rest&, const Values&);
  void compute(Stage&, Values&);
  void loop(const LoopPart&, Values&);
  std::vector<TensorType> stackedTypes(const LoopPart&, const Values&);

  RestPtr model_;
  CompileOptions options_;
  bool interpreted_;
  Limits limits_;
  Team& team_;
  std::list<Slot> stages_;  // the one used last first
  int64_t bytes_ = 0;       // of them
  std::unordered_map<std::string, std::list<Slot>::iterator> byKey_;
  std::vector<std::shared_ptr<Stage>> reached_;
  int64_t runs_ = 0;
  int compilations_ = 0;
};

Carried carriedFrom(const Array&);  ///< the caller's memory
Carried carriedFrom(std::shared_ptr<const Array>);
Array arrayFrom(const Carried&);  ///< a copy

}  // namespace tektite
