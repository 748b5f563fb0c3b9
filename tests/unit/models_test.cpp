// The models of tests/models against stored outputs (tests/models/make.py says where they come from).
#include "../model_case.h"

namespace tektite {
namespace {

TEST(Models, SmallOnesGiveTheirOutputs) {
  int models = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TEKTITE_TESTS) / "models")) {
    if (!entry.is_directory()) continue;
    for (const Evaluator& e : evaluators()) {
      const ModelOutcome outcome = runModel(entry.path(), e, 1e-5);
      EXPECT_TRUE(outcome.passed) << entry.path().filename() << ", " << e.name << ": "
                                  << outcome.why;
    }
    models++;
  }
  EXPECT_GE(models, 6);
}

TEST(Models, NamedDimsStayInTheGraph) {
  ModelInfo info;
  const Graph g = importOnnx(
      (std::filesystem::path(TEKTITE_TESTS) / "models/transformer/model.onnx").string(), {}, &info);
  verify(g);
  EXPECT_EQ(toText(info.outputs.at(0).type), "f32[batch x sequence x 16]");
  EXPECT_EQ(g.dims.at("sequence").high, 8);  // the table of positions ends there
}

}  // namespace
}  // namespace tektite
