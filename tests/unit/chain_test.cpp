// Models in parts: how many parts a run compiles, and what it makes of data that decides shapes.
#include "../model_case.h"

namespace tektite {
namespace {

std::string model(const std::string& name) {
  return (std::filesystem::path(TEKTITE_TESTS) / "models" / name / "model.onnx").string();
}

Carried integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  const auto array = std::make_shared<Array>(DType::I64, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<int64_t*>(array->data()));
  return carriedFrom(std::shared_ptr<const Array>(array));
}

Carried floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  const auto array = std::make_shared<Array>(DType::F32, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<float*>(array->data()));
  return carriedFrom(std::shared_ptr<const Array>(array));
}

/// One way to run a model.
struct Parts {
  Team team{1};
  Chain chain;
  Parts(const std::string& name, bool interpreted = false, Chain::Limits limits = Chain::Limits())
      : chain(openOnnx(model(name)), compileOptions(false), team, interpreted, limits) {}
};

void expectSame(const std::vector<Carried>& a, const std::vector<Carried>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++)
    EXPECT_EQ(difference(tensorFrom(a[i]), tensorFrom(b[i]), 1e-5), "") << "output " << i;
}

TEST(Chain, AModelOfKnownShapesIsOneGraph) {
  for (const char* name : {"transformer", "convnet", "recurrent"})
    EXPECT_TRUE(openModel(model(name)).graph) << name;
  for (const char* name : {"decode", "picking", "boxes"}) {
    const OpenedModel opened = openModel(model(name));
    EXPECT_FALSE(opened.graph) << name;
    EXPECT_TRUE(opened.parts) << name;
  }
}

TEST(Chain, PartsAreCompiledOnce) {
  Parts run("decode");
  const std::vector<Carried> in = {integers({1, 2}, {3, 1}), integers({}, {7})};
  const auto first = run.chain.run(in);
  const int compiled = run.chain.compilations();
  EXPECT_GT(compiled, 1);
  expectSame(run.chain.run(in), first);
  EXPECT_EQ(run.chain.compilations(), compiled);
  // Fewer steps: their parts are there, what follows has another shape.
  const auto fewer = run.chain.run({integers({1, 2}, {3, 1}), integers({}, {3})});
  EXPECT_EQ(fewer.at(1).shape, (std::vector<int64_t>{3, 1}));
  EXPECT_LE(run.chain.compilations(), compiled + 2);
}

TEST(Chain, FewPartsAreKeptAndAllIsRight) {
  Parts few("decode", false, {1, 1 << 30}), interpreted("decode", true);
  const std::vector<Carried> in = {integers({1, 2}, {3, 1}), integers({}, {5})};
  const auto expected = interpreted.chain.run(in);
  EXPECT_EQ(interpreted.chain.compilations(), 0);
  expectSame(few.chain.run(in), expected);
  Parts small("decode", false, {1000, 1});
  expectSame(small.chain.run(in), expected);
  const int once = few.chain.compilations();
  EXPECT_EQ(small.chain.compilations(), once);
  expectSame(few.chain.run(in), expected);
  EXPECT_GT(few.chain.compilations(), once);  // nothing of the run before was left
}

TEST(Chain, LoopsOfNoStep) {
  Parts run("decode");
  const auto out = run.chain.run({integers({1, 1}, {2}), integers({}, {0})});
  EXPECT_EQ(out.at(0).shape, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(out.at(1).shape,
            (std::vector<int64_t>{0, 1}));  // nothing stacked, of the shape that a step would give
}

/// Results of every size, none of them included, against loops written out.
TEST(Chain, AsManyResultsAsDataSays) {
  Parts run("picking");
  for (const float limit : {2.f, 0.f, -0.7f, -9.f}) {
    std::vector<float> x(24), expected;
    for (size_t i = 0; i < x.size(); i++) x[i] = std::sin(static_cast<float>(i)) - limit;
    for (const float v : x)
      if (v > 0.3f) expected.push_back(v);
    const std::vector<int64_t> kinds = {2, 0, 2, 3, 3, 3, 0, 2, 2, 3};
    const auto out = run.chain.run({floats({3, 8}, x), integers({10}, kinds)});
    ASSERT_EQ(out.at(0).shape, (std::vector<int64_t>{static_cast<int64_t>(expected.size())}));
    for (size_t i = 0; i < expected.size(); i++)
      EXPECT_EQ(static_cast<const float*>(out[0].data)[i], expected[i]);
    const auto* distinct = static_cast<const int64_t*>(out.at(6).data);
    EXPECT_EQ(std::vector<int64_t>(distinct, distinct + out[6].shape[0]),
              (std::vector<int64_t>{0, 2, 3}));
    const auto* counts = static_cast<const int64_t*>(out.at(8).data);
    EXPECT_EQ(std::vector<int64_t>(counts, counts + 3), (std::vector<int64_t>{2, 4, 4}));
  }
}

TEST(Chain, WrongInputsAreNamed) {
  Parts run("decode");
  const auto message = [&](const std::vector<Carried>& in) -> std::string {
    try {
      run.chain.run(in);
    } catch (const UserError& e) {
      const std::string text = e.what();
      const size_t at = text.find("model.onnx: ");
      return at == std::string::npos ? text : text.substr(at + 12);
    }
    return "no error";
  };
  EXPECT_EQ(message({integers({1, 2}, {3, 1})}), "1 inputs found, expected 2");
  EXPECT_EQ(message({floats({1, 2}, {3, 1}), integers({}, {3})}),
            "input 'start': f32[1x2] found, expected i64[1 x length]");
}

}  // namespace
}  // namespace tektite
