#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusion/plan.h"

namespace tektite {

/// A tensor of the tests: floats as double, integers and bool as int64.
struct TestTensor {
  TensorType type;
  std::vector<double> real;
  std::vector<int64_t> integer;
};
/// Runs a plan point by point: naive, and strict about it. Throws where scratch is read before it is written or outside its region,
/// where an output's element is stored by two tiles or by none. Results in the body's order of outputs.
std::vector<TestTensor> runPlan(const GroupPlan&, const Graph& body,
                                const std::map<Value, TestTensor>& leaves);
/// Runs a graph of groups; the inputs in order.
std::vector<TestTensor> runGroups(const Graph&, const std::vector<TestTensor>& inputs);

}  // namespace tektite
