#include <gtest/gtest.h>

#include "../evaluators.h"
#include "backends/backend.h"
#include "fuzz/fuzz.h"
#include "ir/graph.h"

namespace tektite {
namespace {

/// A product in panels whose staging takes several rounds, in the same kernel as one that reads all of its rows: PoCL 3.1 put barriers into
/// the rounds, and ran them wrong where a condition on the panel was around them.
TEST(OpenClDevice, RoundsUnderAConditionOfTheTeam) {
  const Target target = findTarget("opencl");
  const Backend* backend = findBackend("opencl");
  const std::shared_ptr<Device> held = backend ? backend->open(target) : nullptr;
  if (!held) GTEST_SKIP() << "no OpenCL device";
  const Graph graph = parseGraph(
      "graph (w: f32[200x64], x: f32[64x1280], v: f32[5x200]) {\n"
      "  %1 = contract w, x oc,cp->op : f32[200x1280]\n"
      "  %2 = map (%1) { max($0, 0) } : f32[200x1280]\n"
      "  %3 = contract v, %2 jo,op->jp : f32[5x1280]\n"
      "  return %3\n}\n",
      "product");
  std::vector<TensorAttribute> inputs;
  for (const Tensor& t : randomInputs(graph, 1, false)) inputs.push_back({t.type(), t.toConst()});
  const auto tensorOf = [](const TensorAttribute& t) {
    return Tensor::fromRaw(t.type.dtype, t.type.extents(), t.data->data);
  };
  const auto got = runCompiled(graph, inputs, false, target);
  EXPECT_LT(largestDifference(tensorOf(got.at(0)), tensorOf(interpret(graph, inputs).at(0))), 1e-5);
}

}  // namespace
}  // namespace tektite
