#include "ir/graph_eval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "support/check.h"

namespace tektite {
namespace {

Graph load(const std::string& name) {
  std::ifstream in(std::filesystem::path(TEKTITE_TESTS) / "graph/language" / (name + ".tk"));
  std::stringstream text;
  text << in.rdbuf();
  Graph g = parseGraph(text.str(), name);
  verify(g);
  return g;
}

/// Uniform numbers, small multiples of 1/64 so that every float type holds them.
Tensor random(std::vector<int64_t> shape, int seed, DType t = DType::F32, int low = -128,
              int high = 128, double unit = 1.0 / 64) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::uniform_int_distribution<int> number(low, high);
  Tensor out = Tensor::zeros(t, std::move(shape));
  for (int64_t i = 0; i < out.elements(); i++)
    if (isFloat(t))
      out.reals()[i] = number(generator) * unit;
    else
      out.integers()[i] = number(generator);
  return out;
}

double near(double expected) { return 1e-12 * (1 + std::fabs(expected)); }
#define EXPECT_CLOSE(found, expected)   \
  do {                                  \
    const double e_ = (expected);       \
    EXPECT_NEAR((found), e_, near(e_)); \
  } while (false)

using T = const Tensor&;
double at(T t, int64_t i) { return t.reals()[i]; }
double at(T t, int64_t i, int64_t j) { return t.reals()[i * t.shape[1] + j]; }
double at(T t, int64_t i, int64_t j, int64_t k) {
  return t.reals()[(i * t.shape[1] + j) * t.shape[2] + k];
}
double at(T t, int64_t i, int64_t j, int64_t k, int64_t l) {
  return t.reals()[((i * t.shape[1] + j) * t.shape[2] + k) * t.shape[3] + l];
}

TEST(GraphEval, Softmax) {
  for (auto [m, n] : {std::pair{5, 19}, {1, 1}, {0, 3}, {2, 700}}) {
    const Tensor x = random({m, n}, 1);
    const Tensor y = evaluate(load("softmax"), {x})[0];
    for (int i = 0; i < m; i++) {
      double sum = 0;
      for (int j = 0; j < n; j++) sum += std::exp(at(x, i, j));
      for (int j = 0; j < n; j++) EXPECT_CLOSE(at(y, i, j), std::exp(at(x, i, j)) / sum);
    }
  }
  const Tensor special = Tensor::of(DType::F32, {1, 3}, {INFINITY, 0, -INFINITY});
  EXPECT_TRUE(std::isnan(at(evaluate(load("softmax"), {special})[0], 0)));
}

TEST(GraphEval, LayerNormByWelford) {
  const Tensor x = random({4, 19}, 1), g = random({19}, 2), b = random({19}, 3);
  const Tensor y = evaluate(load("layer_norm"), {x, g, b})[0];
  for (int i = 0; i < 4; i++) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 19; j++) mean += at(x, i, j) / 19;
    for (int j = 0; j < 19; j++) variance += std::pow(at(x, i, j) - mean, 2) / 19;
    for (int j = 0; j < 19; j++)
      EXPECT_CLOSE(at(y, i, j),
                   (at(x, i, j) - mean) / std::sqrt(variance + 1e-5f) * at(g, j) + at(b, j));
  }
}

TEST(GraphEval, Attention) {
  const int H = 3, S = 5, N = 17;
  const Tensor q = random({H, S, 16}, 1), k = random({H, N, 16}, 2), v = random({H, N, 16}, 3);
  const Tensor o = evaluate(load("attention"), {q, k, v})[0];
  for (int h = 0; h < H; h++)
    for (int s = 0; s < S; s++) {
      std::vector<double> p(N);
      double sum = 0;
      for (int t = 0; t < N; t++) {
        double dot = 0;
        for (int c = 0; c < 16; c++) dot += at(q, h, s, c) * at(k, h, t, c);
        sum += p[t] = std::exp(dot / 4);
      }
      for (int c = 0; c < 16; c++) {
        double expected = 0;
        for (int t = 0; t < N; t++) expected += p[t] / sum * at(v, h, t, c);
        EXPECT_CLOSE(at(o, h, s, c), expected);
      }
    }
}

TEST(GraphEval, MlpAndProjectionsAndTails) {
  const int M = 6, K = 5, F = 19, N = 37;
  const Tensor x = random({M, K}, 1), w1 = random({K, F}, 2), b1 = random({F}, 3),
               w2 = random({F, N}, 4), b2 = random({N}, 5);
  const Tensor y = evaluate(load("mlp"), {x, w1, b1, w2, b2})[0];
  const auto row = [](T a, int64_t i, T b, int64_t j) {
    double sum = 0;
    for (int64_t k = 0; k < b.shape[0]; k++) sum += at(a, i, k) * at(b, k, j);
    return sum;
  };
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      double expected = at(b2, j);
      for (int f = 0; f < F; f++) {
        const double h = row(x, i, w1, f) + at(b1, f);
        expected += 0.5 * h * (1 + std::erf(h * 0.70710677f)) * at(w2, f, j);
      }
      EXPECT_NEAR(at(y, i, j), expected, 1e-7 * (1 + std::fabs(expected)));
    }
  const Tensor wq = random({K, 19}, 6), wk = random({K, 9}, 7), wv = random({K, 9}, 8);
  const auto qkv = evaluate(load("qkv"), {x, wq, wk, wv});
  EXPECT_CLOSE(at(qkv[0], 3, 18), row(x, 3, wq, 18));
  EXPECT_CLOSE(at(qkv[1], 5, 8), row(x, 5, wk, 8));
  EXPECT_CLOSE(at(qkv[2], 0, 4), row(x, 0, wv, 4));
  const Tensor panels = random({3, K, 16}, 9);
  EvalOptions options;
  options.dims["N"] = N;
  const Tensor tail = evaluate(load("gemm_tail"), {x, panels, b2}, options)[0];
  for (int j = 0; j < N; j++) {
    double sum = at(b2, j);
    for (int k = 0; k < K; k++) sum += at(x, 2, k) * at(panels, j / 16, k, j % 16);
    EXPECT_CLOSE(at(tail, 2, j), std::max(sum, 0.0));
  }
}

TEST(GraphEval, ConvolutionsInSequence) {
  const int H = 6, W = 11;
  const Tensor x = random({2, H, W}, 1), w1 = random({3, 2, 3, 3}, 2), w2 = random({2, 3, 3, 3}, 3);
  const auto conv = [&](T in, T w, int64_t o, int64_t y, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < in.shape[0]; i++)
      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
          if (const int64_t r = y + a - 1, s = c + b - 1; r >= 0 && r < H && s >= 0 && s < W)
            sum += at(in, i, r, s) * at(w, o, i, a, b);
    return sum;
  };
  Tensor middle = Tensor::zeros(DType::F32, {3, H, W});
  for (int64_t i = 0; i < middle.elements(); i++)
    middle.reals()[i] = std::max(conv(x, w1, i / (H * W), i / W % H, i % W), 0.0);
  const Tensor y = evaluate(load("conv_conv"), {x, w1, w2})[0];
  for (int64_t i = 0; i < y.elements(); i++)
    EXPECT_CLOSE(at(y, i), conv(middle, w2, i / (H * W), i / W % H, i % W));
}

TEST(GraphEval, LstmAsScan) {
  const int N = 4, B = 2, H = 5;
  const Tensor x = random({N, B, H}, 1), w = random({H, 4, H}, 2, DType::F32, -32, 32),
               r = random({H, 4, H}, 3, DType::F32, -32, 32);
  const Tensor bias = random({4, H}, 4), h0 = random({B, H}, 5), c0 = random({B, H}, 6);
  const auto out = evaluate(load("lstm"), {x, w, r, bias, h0, c0});
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int b = 0; b < B; b++) {
    std::vector<double> h(H), c(H);
    for (int u = 0; u < H; u++) h[u] = at(h0, b, u), c[u] = at(c0, b, u);
    for (int t = 0; t < N; t++) {
      const std::vector<double> before = h;
      for (int u = 0; u < H; u++) {
        double g[4];
        for (int q = 0; q < 4; q++) {
          g[q] = at(bias, q, u);
          for (int k = 0; k < H; k++)
            g[q] += at(x, t, b, k) * at(w, k, q, u) + before[k] * at(r, k, q, u);
        }
        c[u] = sigmoid(g[1]) * c[u] + sigmoid(g[0]) * std::tanh(g[2]);
        h[u] = sigmoid(g[3]) * std::tanh(c[u]);
        EXPECT_CLOSE(at(out[0], t, b, u), h[u]);
      }
    }
    for (int u = 0; u < H; u++) {
      EXPECT_CLOSE(at(out[1], b, u), h[u]);
      EXPECT_CLOSE(at(out[2], b, u), c[u]);
    }
  }
  EXPECT_EQ(evaluate(load("lstm"), {random({0, B, H}, 1), w, r, bias, h0, c0})[0].shape,
            (std::vector<int64_t>{0, B, H}));
}

TEST(GraphEval, ArgmaxIsTheFirst) {
  const Tensor x = Tensor::of(
      DType::F32, {3, 4}, {1, 7, 7, 2, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0, -1, 5, 6});
  const Tensor y = evaluate(load("argmax"), {x})[0];
  EXPECT_EQ(y.integers()[0], 1);
  EXPECT_EQ(y.integers()[1], 0);
  EXPECT_EQ(y.integers()[2], 3);
}

TEST(GraphEval, NormalisationAndDropoutByCounter) {
  const uint32_t N = 2, C = 3, P = 11, seed = 77;
  const Tensor x = random({N, C, P}, 1), scale = random({C}, 2), shift = random({C}, 3);
  const auto out =
      evaluate(load("bn_dropout"), {x, scale, shift, Tensor::of(DType::U32, {}, {seed})});
  int kept = 0;
  for (uint32_t i = 0; i < N * C * P; i++) {
    const uint32_t c = i / P % C;
    EXPECT_CLOSE(at(out[0], i), at(x, i) * at(scale, c) + at(shift, c));
    uint32_t h = (i + seed) * 747796405u + 2891336453u;
    h = ((h >> 16) ^ h) * 277803737u;
    h = (h >> 15) ^ h;
    kept += h < 2147483648u;
    EXPECT_EQ(at(out[1], i), h < 2147483648u ? at(x, i) * 2 : 0);
  }
  EXPECT_GT(kept, 20);
  EXPECT_LT(kept, 46);
}

TEST(GraphEval, NormOfAVector) {
  const Tensor x = random({200}, 1);
  double sum = 0;
  for (int i = 0; i < 200; i++) sum += at(x, i) * at(x, i);
  const Tensor y = evaluate(load("l2norm"), {x})[0];
  EXPECT_TRUE(y.shape.empty());
  EXPECT_CLOSE(at(y, 0), std::sqrt(sum));
}

TEST(GraphEval, TransformerOfAnyLength) {
  const int B = 2, S = 7, E = 32, F = 64;
  const Tensor x = random({B, S, E}, 1), wqkv = random({3, E, E}, 2, DType::F32, -16, 16),
               wo = random({E, E}, 3, DType::F32, -16, 16);
  const Tensor w1 = random({E, F}, 4, DType::F32, -16, 16),
               w2 = random({F, E}, 5, DType::F32, -16, 16);
  Tensor mask = Tensor::of(DType::I64, {B, S}, std::vector<double>(B * S, 1));
  mask.integers()[S - 1] = 0;
  const Tensor rows = evaluate(load("transformer"), {x, mask, wqkv, wo, w1, w2})[0];
  ASSERT_EQ(rows.shape, (std::vector<int64_t>{B * S, E}));
  for (int b = 0; b < B; b++) {
    const auto project = [&](int p, int s, int f) {
      double sum = 0;
      for (int e = 0; e < E; e++) sum += at(x, b, s, e) * at(wqkv, p, e, f);
      return sum;
    };
    for (int s = 0; s < S; s++) {
      std::vector<double> mixed(E), y(E), hidden(F);
      for (int h = 0; h < 4; h++) {
        std::vector<double> p(S);
        double sum = 0;
        for (int t = 0; t < S; t++) {
          double dot = 0;
          for (int c = 0; c < 8; c++) dot += project(0, s, h * 8 + c) * project(1, t, h * 8 + c);
          sum += p[t] = mask.integers()[b * S + t] ? std::exp(dot * 0.35355338f) : 0;
        }
        for (int c = 0; c < 8; c++)
          for (int t = 0; t < S; t++) mixed[h * 8 + c] += p[t] / sum * project(2, t, h * 8 + c);
      }
      for (int f = 0; f < E; f++) {
        y[f] = at(x, b, s, f);
        for (int e = 0; e < E; e++) y[f] += mixed[e] * at(wo, e, f);
      }
      for (int f = 0; f < F; f++) {
        for (int e = 0; e < E; e++) hidden[f] += y[e] * at(w1, e, f);
        hidden[f] = std::max(hidden[f], 0.0);
      }
      for (int e = 0; e < E; e++) {
        double expected = y[e];
        for (int f = 0; f < F; f++) expected += hidden[f] * at(w2, f, e);
        EXPECT_NEAR(at(rows, b * S + s, e), expected, 1e-6 * (1 + std::fabs(expected)));
      }
    }
  }
}

TEST(GraphEval, IfAndLoop) {
  const Tensor x = random({3, 4}, 1, DType::F32, 1, 50);
  EXPECT_EQ(at(evaluate(load("if"), {x})[0], 2, 3), at(x, 2, 3));
  Tensor negative = x;
  negative.buffer = Tensor::of(DType::F32, {3, 4}, std::vector<double>(12, -1)).buffer;
  EXPECT_EQ(at(evaluate(load("if"), {negative})[0], 1, 2), -3);
  const auto out =
      evaluate(load("loop"), {Tensor::of(DType::F64, {}, {2}), Tensor::of(DType::I64, {}, {50})});
  EXPECT_CLOSE(at(out[0], 0), std::sqrt(2));
  EXPECT_GT(out[1].shape[0], 4);
  EXPECT_LT(out[1].shape[0], 10);
  EXPECT_EQ(at(out[1], 0), 1.5);
  EXPECT_EQ(
      evaluate(load("loop"), {Tensor::of(DType::F64, {}, {2}), Tensor::of(DType::I64, {}, {0})})[1]
          .shape[0],
      0);
}

TEST(GraphEval, ConvolutionOfBytes) {
  const Tensor x = random({1, 2, 4, 4}, 1, DType::U8, 0, 255),
               w = random({3, 2, 3, 3}, 2, DType::I8, -128, 127);
  const Tensor scale = Tensor::of(DType::F32, {3}, {1.0 / 1024, 1.0 / 512, 1});
  const Tensor y = evaluate(load("conv_int8"), {x, w, scale})[0];
  for (int o = 0; o < 3; o++)
    for (int r = 0; r < 4; r++)
      for (int c = 0; c < 4; c++) {
        int32_t sum = 0;
        for (int i = 0; i < 2; i++)
          for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
              const int s = r + a - 1, t = c + b - 1;
              if (s < 0 || s > 3 || t < 0 || t > 3) continue;
              sum += static_cast<int32_t>(x.integers()[(i * 4 + s) * 4 + t] - 128) *
                     static_cast<int32_t>(w.integers()[((o * 2 + i) * 3 + a) * 3 + b] - 1);
            }
        const double value = std::nearbyint(sum * at(scale, o)) + 7;
        EXPECT_EQ(y.integers()[(o * 4 + r) * 4 + c],
                  static_cast<int64_t>(std::min(std::max(value, 0.0), 255.0)));
      }
}

TEST(GraphEval, SumsOfIntegersWrap) {
  const Graph g =
      parseGraph("graph (x: i32[3]) {\n  %1 = contract x, x i,i-> : i32\n  return %1\n}\n", "wrap");
  const Tensor x = Tensor::of(DType::I32, {3}, {70000, 70000, 1});
  EXPECT_EQ(evaluate(g, {x})[0].integers()[0],
            static_cast<int32_t>(static_cast<uint32_t>(2u * 70000u * 70000u + 1)));
}

TEST(GraphEval, GatherAndUpdate) {
  const Tensor table = random({5, 3}, 1), by = random({4, 3}, 2),
               rows = Tensor::of(DType::I32, {4}, {4, 1, 9, 4});
  const auto out = evaluate(load("gather_update"), {table, rows, by});
  for (int j = 0; j < 3; j++) {
    EXPECT_EQ(at(out[0], 0, j), at(table, 4, j));
    EXPECT_EQ(at(out[0], 2, j), -1);
    EXPECT_EQ(at(out[1], 4, j), at(table, 4, j) + at(by, 0, j) + at(by, 3, j));
    EXPECT_EQ(at(out[1], 1, j), at(table, 1, j) + at(by, 1, j));
    EXPECT_EQ(at(out[1], 0, j), at(table, 0, j));
    EXPECT_EQ(at(out[2], 2, j), at(table, 4, j));
    EXPECT_EQ(at(out[2], 3, j), 0);
    EXPECT_EQ(at(out[2], 6, j), at(table, 1, j));
  }
}

TEST(GraphEval, RoutinesGroupsAndDataKeptAside) {
  Graph g = load("calls");
  const Tensor x = random({2, 3}, 1), a = Tensor::of(DType::F32, {}, {3});
  EvalOptions options;
  options.routine = [&](const Call& c, const Node&, const std::vector<Tensor>& in) {
    EXPECT_EQ(c.routine, "topk");
    EXPECT_EQ(c.numbers.at("k")[0], 2);
    EXPECT_EQ(in.size(), 1u);
    return std::vector<Tensor>{Tensor::zeros(DType::F32, {2, 2}),
                               Tensor::zeros(DType::I64, {2, 2})};
  };
  EXPECT_THROW(evaluate(g, {x, a}, options), UserError);
  const Tensor weights = random({3, 40}, 2);
  g = withData(g, {{"weights/0", weights.toConst()}});
  EXPECT_EQ(keptAside(g).size(), 1u);
  const auto out = evaluate(g, {x, a}, options);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 2; j++) {  // from the last step back: the state starts at 3 * x transposed
      EXPECT_CLOSE(at(out[1], 1, i, j), 3 * at(x, j, i) + at(x, 1, i));
      EXPECT_CLOSE(at(out[1], 0, i, j), 3 * at(x, j, i) + at(x, 1, i) + at(x, 0, i));
    }
  double expected = 0;
  for (int k = 0; k < 3; k++) expected += at(x, 1, k) * at(weights, k, 39);
  EXPECT_CLOSE(at(out[2], 1, 39), expected);
}

TEST(GraphEval, SamplesAgreeWithTheWhole) {
  const std::pair<const char*, std::vector<Tensor>> graphs[] = {
      {"conv_conv", {random({2, 20, 30}, 1), random({3, 2, 3, 3}, 2), random({2, 3, 3, 3}, 3)}},
      {"transformer",
       {random({2, 9, 32}, 1), random({2, 9}, 6, DType::I64, 0, 1), random({3, 32, 32}, 2),
        random({32, 32}, 3), random({32, 64}, 4), random({64, 32}, 5)}},
      {"softmax", {random({40, 30}, 1)}},
      {"layer_norm", {random({40, 30}, 1), random({30}, 2), random({30}, 3)}},
      {"gather_update",
       {random({5, 3}, 1), Tensor::of(DType::I32, {2}, {4, 1}), random({2, 3}, 2)}}};
  for (const auto& [name, inputs] : graphs) {
    const Graph g = load(name);
    const auto whole = evaluate(g, inputs);
    for (size_t o = 0; o < whole.size(); o++) {
      const std::vector<int64_t> elements{0, whole[o].elements() - 1, whole[o].elements() / 3};
      const auto some = evaluateAt(g, static_cast<int>(o), elements, inputs);
      for (size_t i = 0; i < elements.size(); i++)
        EXPECT_NEAR(some[i], whole[o].at(elements[i]), near(some[i])) << name;
    }
  }
}

TEST(GraphEval, WrongInputsAreNamed) {
  const Graph g = load("softmax");
  const auto message = [&](const std::vector<Tensor>& inputs) -> std::string {
    try {
      evaluate(g, inputs);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message({}), "found 0 inputs, expected 1");
  EXPECT_EQ(message({random({3}, 1)}), "input 'x': found f32[3], expected f32[M x N]");
  EXPECT_EQ(message({random({3, 4}, 1, DType::F64)}),
            "input 'x': found f64[3x4], expected f32[M x N]");
  EXPECT_EQ(message({random({3, 0}, 1)}), "dim 'N': found 0, expected 1..65536");
}

TEST(GraphEval, RawMemoryRoundsOnTheWayOut) {
  const Tensor t = Tensor::of(DType::BF16, {3}, {1.0 / 3, 1e30, -2});
  const auto raw = t.toConst();
  EXPECT_EQ(raw->bytes, 6u);
  const Tensor back = Tensor::fromRaw(DType::BF16, {3}, raw->data);
  for (int i = 0; i < 3; i++) EXPECT_EQ(at(back, i), roundTo(DType::BF16, at(t, i)));
}

}  // namespace
}  // namespace tektite
