#pragma once
#include "onnx/importer.h"

namespace tektite {

std::shared_ptr<Rest> newRest();  ///< with a number of its own

/// Imports one part, and makes what is left where it ends.
class PartImporter {
 public:
  PartImporter(const Rest&, const std::map<int, TensorType>& types,
               const std::map<int, std::shared_ptr<const ConstData>>& values);
  Part run();

 private:
  void end();                    ///< of the model, or the body
  bool pause(const NeedValue&);  ///< false: the value follows from constants, and the part goes on
  void pause(const HostLoop&);
  std::optional<int> inputBehind(Value) const;
  std::optional<Value> computed(Value);
  void replace(Value from, Value to);
  void beginAgainWith(int input);

  int carry(Value);
  Held hold(Value, bool asCarried = false);
  LoopPart loopPart(const HostLoop&, const std::vector<FixedState>&);
  RestPtr bodyOf(const onnx::GraphProto&, LoopPart&, const std::vector<FixedState>&);
  RestPtr restFrom(std::optional<Pending> then, std::vector<int> shaped, std::vector<Held> valued);

  const Rest& rest_;
  const ImportState& state_;
  Importer importer_;
  std::optional<Pending> pending_;
  Part part_;
  int nextCarried_;
  std::map<Value, int> numbers_;  ///< of carried values that this part makes
};

}  // namespace tektite
