#include <gtest/gtest.h>
#include <tektite/tektite.h>

#include <cmath>
#include <random>

namespace api = tektite::api;

namespace {

std::vector<float> randomFloats(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

api::Settings quick() {
  api::Settings settings;
  settings.cache = false;
  settings.threads = 2;
  return settings;
}

std::string messageOf(const std::function<void()>& use) {
  try {
    use();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

api::Tensor softmaxOf(const api::Tensor& x) {
  const api::Tensor e = exp(x - amax(x, {-1}));
  return e / sum(e, {-1});
}

}  // namespace

TEST(Api, aSoftmaxIsOneLineAndOneKernel) {
  api::Network network;
  const api::Tensor x = network.input("x", api::Type::F32, {5, 37});
  network.output("y", softmaxOf(x));
  api::Executable program = network.model().compile(quick());
  const std::vector<float> in = randomFloats(5 * 37, 1);
  std::vector<float> out(in.size());
  program.run({in.data()}, {out.data()});
  for (int row = 0; row < 5; ++row) {
    double total = 0;
    for (int i = 0; i < 37; ++i)
      total += std::exp(static_cast<double>(in[static_cast<size_t>(row * 37 + i)]));
    for (int i = 0; i < 37; ++i) {
      const size_t at = static_cast<size_t>(row * 37 + i);
      EXPECT_NEAR(out[at], std::exp(static_cast<double>(in[at])) / total, 1e-6);
    }
  }
  const api::Summary summary = program.summary();
  EXPECT_EQ(summary.launches, 1);
  EXPECT_GE(summary.launchesUnfused, summary.launches);
  EXPECT_GE(summary.bytes, summary.bytesMinimum);
  EXPECT_LE(summary.bytes, summary.bytesMinimum + 2 * 64);  // whole lines of two tensors
  EXPECT_EQ(summary.peakBytes, 0);
  EXPECT_NE(program.explain().find("launches"), std::string::npos);
}

TEST(Api, namedDimsCompileOnceForEachSetOfExtents) {
  api::Network network;
  const api::Tensor x = network.input("x", api::Type::F32, {"rows", 8});
  network.output("y", max(matmul(x, network.constant({8, 3}, randomFloats(24, 2))), 0.0));
  const api::Model model = network.model();
  EXPECT_EQ(model.inputs()[0].shape[0].name, "rows");
  api::Settings settings = quick();
  settings.kept = 2;
  api::Executable program = model.compile(settings);
  const std::vector<float> weights = randomFloats(24, 2);
  for (int64_t rows : {3, 1, 3, 0, 70}) {
    const std::vector<float> in = randomFloats(static_cast<size_t>(rows * 8 + 1), 3);
    std::vector<float> out(static_cast<size_t>(rows * 3 + 1), -1);
    EXPECT_EQ(program.outputShapes({{rows, 8}}), (std::vector<std::vector<int64_t>>{{rows, 3}}));
    program.run({in.data()}, {{rows, 8}}, {out.data()});
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      for (size_t column = 0; column < 3; ++column) {
        double expected = 0;
        for (size_t k = 0; k < 8; ++k)
          expected +=
              static_cast<double>(in[row * 8 + k]) * static_cast<double>(weights[k * 3 + column]);
        EXPECT_NEAR(out[row * 3 + column], std::max(expected, 0.0), 1e-5);
      }
    }
    EXPECT_EQ(out.back(), -1);
  }
  EXPECT_EQ(program.summary().compilations, 4);
}

TEST(Api, buffersNeedNotBeAligned) {
  api::Network network;
  const api::Tensor x = network.input("x", api::Type::F32, {100});
  network.output("y", x * 2.0 + 1.0);
  api::Executable program = network.model().compile(quick());
  const std::vector<float> in = randomFloats(101, 4);
  std::vector<float> out(102);
  program.run({in.data() + 1}, {out.data() + 1});
  for (size_t i = 0; i < 100; ++i) EXPECT_FLOAT_EQ(out[i + 1], in[i + 1] * 2 + 1);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(out[101], 0);
}

TEST(Api, outputsThatAreInputsConstantsOrTheSameAreCopied) {
  api::Network network;
  const api::Tensor x = network.input("x", api::Type::F32, {6});
  const api::Tensor y = -x;
  network.output("same", x);
  network.output("number", network.fill(api::Type::F32, 3, {2}));
  network.output("first", y);
  network.output("second", y);
  api::Executable program = network.model().compile(quick());
  const std::vector<float> in = randomFloats(6, 5);
  std::vector<float> same(6), number(2), first(6), second(6);
  program.run({in.data()}, {same.data(), number.data(), first.data(), second.data()});
  EXPECT_EQ(same, in);
  EXPECT_EQ(number, (std::vector<float>{3, 3}));
  EXPECT_EQ(first, second);
  EXPECT_EQ(first[2], -in[2]);
}

TEST(Api, fusedAndUnfusedAgreeForAnyNumberOfThreads) {
  api::Network network;
  const api::Tensor x = network.input("x", api::Type::F32, {32, 64});
  const api::Tensor h = sigmoid(matmul(x, network.constant({64, 96}, randomFloats(64 * 96, 6))));
  const api::Tensor centred = h - mean(h, {-1});
  network.output("y", centred / sqrt(mean(centred * centred, {-1}) + 1e-5));
  const api::Model model = network.model();
  const std::vector<float> in = randomFloats(32 * 64, 7);
  std::vector<std::vector<float>> results;
  for (const bool fuse : {false, true}) {
    for (const int threads : {1, 2, 3}) {
      api::Settings settings = quick();
      settings.fuse = fuse;
      settings.threads = threads;
      results.emplace_back(32 * 96);
      model.compile(settings).run({in.data()}, {results.back().data()});
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i], results[i / 3 * 3]);  // the same bits for any number of threads
    for (size_t k = 0; k < results[0].size(); ++k) ASSERT_NEAR(results[i][k], results[0][k], 1e-4);
  }
}

TEST(Api, longSumsKeepTheirDigits) {
  // Rounded after each of n additions, a sum of equal numbers may be off by n/4 units in the last place: 5e-4 here.
  for (const api::Shape& shape : {api::Shape{1, 96, 160, 160}, {25600, 96}, {1, 200, 200, 96}}) {
    api::Network network;
    const api::Tensor x = network.input("x", api::Type::F32, shape);
    const std::vector<int> axes = shape.size() == 2          ? std::vector<int>{0}
                                  : shape[3] == api::Dim(96) ? std::vector<int>{1, 2}
                                                             : std::vector<int>{2, 3};
    network.output("y", sum(x * x, axes));
    size_t count = 1;
    for (const api::Dim& d : shape) count *= static_cast<size_t>(d.number);
    const std::vector<float> in(count, 0.3f);
    std::vector<float> out(96);
    for (bool fuse : {true, false}) {
      api::Settings settings = quick();
      settings.fuse = fuse;
      network.model().compile(settings).run({in.data()}, {out.data()});
      const double square = static_cast<double>(0.3f * 0.3f);
      for (float y : out)
        EXPECT_NEAR(y / (square * static_cast<double>(count / 96)), 1, 5e-6) << shape.size();
    }
  }
}

TEST(Api, graphTextsReadBack) {
  api::Network network;
  const api::Tensor x = network.input("x", api::Type::F32, {4, 8});
  network.output("y", softmaxOf(x));
  const api::Model model = network.model();
  EXPECT_EQ(api::Model::parse(model.text()).text(), model.text());
}

TEST(Api, shapesThatARunDecides) {
  const api::Model model = api::Model::load(TEKTITE_TESTS "/models/decode/model.onnx");
  EXPECT_EQ(model.inputs().at(0).shape, (api::Shape{1, "length"}));
  EXPECT_EQ(model.outputs().size(), 5u);
  api::Executable program = model.compile(quick());
  const std::vector<int64_t> start = {3, 1};
  for (const int64_t most : {2, 4, 2}) {
    const auto results = program.results({start.data(), &most}, {{1, 2}, {}});
    EXPECT_EQ(results.at(0).shape, (std::vector<int64_t>{1, 2 + most}));
    EXPECT_EQ(results.at(1).shape, (std::vector<int64_t>{most, 1}));
    EXPECT_EQ(static_cast<const int64_t*>(results[0].data.get())[0], 3);
    float sum = 0;  // of a softmax
    for (int64_t i = 0; i < most; ++i) sum += static_cast<const float*>(results[2].data.get())[i];
    EXPECT_NEAR(sum, 1, 1e-5);
  }
  EXPECT_GT(program.summary().launches, 2);
  EXPECT_GT(program.summary().compilations, 2);
  EXPECT_NE(program.explain(), "");
  const std::string refused = messageOf([&] { program.outputShapes({{1, 2}, {}}); });
  EXPECT_TRUE(refused.starts_with("the shapes of the outputs depend on data (node 'loop_"))
      << refused;
}

TEST(Api, controlFlowAsANodeIsAFallback) {
  const api::Model model = api::Model::parse(R"(graph (x: f32[3]) {
  %1 = const 5 : i64
  %2 = const 1 : bool
  %3 = loop %1, %2 [x] [] body (i: i64, on: bool, s: f32[3]) {
    %3 = map (s) { $0 + $0 } : f32[3]
    return on, %3
  } : f32[3]
  return %3
})");
  api::Settings settings = quick();
  EXPECT_THROW(model.compile(settings), std::runtime_error);
  settings.allowFallback = true;
  api::Executable program = model.compile(settings);
  EXPECT_EQ(program.summary().fallbacks, 1);
  EXPECT_NE(program.explain().find("fallback: node '%3'"), std::string::npos);
}

TEST(Api, wrongUseIsOneLine) {
  EXPECT_EQ(messageOf([] { api::Model::load("missing.onnx"); }),
            "missing.onnx: No such file or directory");
  api::Network network, other;
  const api::Tensor x = network.input("x", api::Type::F32, {4, 8}),
                    z = other.input("z", api::Type::F32, {4, 8});
  EXPECT_EQ(messageOf([&] { x + z; }), "operands of two networks found, expected one");
  EXPECT_EQ(messageOf([&] { exp(api::Tensor()); }),
            "an empty tensor found, expected one of a network");
  network.output("y", -x);
  api::Executable program = network.model().compile(quick());
  float buffer[32] = {};
  EXPECT_EQ(messageOf([&] { program.run({}, {buffer}); }), "0 input buffers found, expected 1");
  EXPECT_EQ(messageOf([&] { program.run({buffer}, {{4, 9}}, {buffer}); }),
            "input 'x': f32[4x9] found, expected f32[4x8]");
  EXPECT_NE(messageOf([&] { matmul(x, x); }), "no error");
}
