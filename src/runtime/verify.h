#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/compare.h"
#include "runtime/compile.h"

namespace tektite {

struct VerifyOptions {
  Tolerance tolerance;
  double scalarSteps =
      1e8;           ///< interpret whole graphs up to here, sampled elements of each group beyond
  int samples = 64;  ///< elements of each result of a group
  uint64_t seed = 1;
};

/// One output, or one result of a group, against the interpreter in double precision (outputs beyond `scalarSteps`: against unfused).
struct OutputCheck {
  std::string name;
  Comparison fused, unfused;
  bool interpreted =
      true;  ///< false: `fused` is against the unfused program, `unfused` says nothing
};
struct GroupCheck {
  std::string kernel;
  std::vector<std::string> nodes;
  Comparison error;  ///< of what it made of its actual inputs
  bool sampled = false;
};
struct Verification {
  std::vector<OutputCheck> outputs;
  std::vector<GroupCheck> fused, unfused;  ///< every group
  std::optional<size_t> firstWrong;        ///< the first of `fused` that parts from the interpreter
  std::optional<size_t> firstWrongUnfused;
  double scalarSteps = 0;  ///< of interpreting the whole graph
  bool ok = true;
};

/// Runs a graph (static, after the passes) fused and unfused, both as `options` say, and interprets it: in double precision, and what differs
/// then with every operation on float32 rounded, since before rounding to integers the last bit may decide. It has to agree with one.
Verification verifyProgram(const Graph& graph, const std::vector<Array>& inputs,
                           const CompileOptions& options, const VerifyOptions&);

}  // namespace tektite
