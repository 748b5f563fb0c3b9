#pragma once
#include <string>

#include "plan_executor.h"

namespace tektite {

/// Lowers a plan for a target ("naive": without a schedule) and runs the kernel in the kernel interpreter, tiles in shuffled order.
/// Results in the body's order of outputs.
std::vector<TestTensor> runLowered(const GroupPlan&, const Graph& body,
                                   const std::map<Value, TestTensor>& leaves,
                                   const std::string& target);

/// The packed constant's elements in row-major order, as positions in its source (-1: 0).
struct PackedConstant;
std::vector<int64_t> packedPositions(const PackedConstant&, const TensorType& source);

}  // namespace tektite
