#pragma once
#include <string>

#include "plan_executor.h"

namespace tektite {

/// Lowers a plan for a target ("naive": without a schedule) and runs the kernel in the kernel interpreter, tiles in shuffled order.
/// Results in the body's order of outputs. `counted`: tiles run in order, main memory's bytes are counted behind the target's last on-chip
/// level, and those of packed constants that are no part of the constant are told.
struct CountedBytes {
  int64_t read = 0, written = 0, padding = 0;
};
std::vector<TestTensor> runLowered(const GroupPlan&, const Graph& body,
                                   const std::map<Value, TestTensor>& leaves,
                                   const std::string& target, CountedBytes* counted = nullptr);

/// The packed constant's elements in row-major order, as positions in its source (-1: 0).
struct PackedConstant;
std::vector<int64_t> packedPositions(const PackedConstant&, const TensorType& source);
/// The same of floats.
std::vector<float> packedFloats(const PackedConstant&, const std::vector<float>& source,
                                const TensorType&);

}  // namespace tektite
