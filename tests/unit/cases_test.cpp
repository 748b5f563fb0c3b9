// What goes wrong in fusion compilers (results, memory, dynamic shapes, determinism): small inputs, each with its right value worked out here.
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "../evaluators.h"
#include "runtime/specialize.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Numbers = std::vector<double>;

Numbers numbers(const TensorAttribute& t) {
  Numbers out;
  for (int64_t i = 0; i < t.type.elements(); i++)
    out.push_back(isFloat(t.type.dtype)
                      ? loadFloat(t.type.dtype, t.data->data, i)
                      : static_cast<double>(loadInteger(t.type.dtype, t.data->data, i)));
  return out;
}
Numbers range(int n, const std::function<double(int)>& f) {
  Numbers out;
  for (int i = 0; i < n; i++) out.push_back(f(i));
  return out;
}

/// The first output on every evaluator; the values must agree as bits (NaN with NaN, -0 with -0) or to a relative tolerance.
void expectAll(const Graph& g, const std::vector<TensorAttribute>& in, const Numbers& expected,
               double tolerance = 0) {
  verify(g);
  for (const Evaluator& e : evaluators()) {
    const Numbers got = numbers(e.run(g, in).at(0));
    ASSERT_EQ(got.size(), expected.size()) << e.name;
    for (size_t i = 0; i < got.size(); i++) {
      if (std::isnan(expected[i]))
        EXPECT_TRUE(std::isnan(got[i])) << e.name << " " << i << ": " << got[i];
      else if (tolerance == 0 || std::isinf(expected[i]))
        EXPECT_TRUE(got[i] == expected[i] && std::signbit(got[i]) == std::signbit(expected[i]))
            << e.name << " " << i << ": " << got[i] << ", expected " << expected[i];
      else
        EXPECT_NEAR(got[i], expected[i], tolerance * std::max(1.0, std::fabs(expected[i])))
            << e.name << " " << i;
    }
  }
}
void expectAll(const std::string& text, const std::vector<TensorAttribute>& in,
               const Numbers& expected, double tolerance = 0) {
  expectAll(parseGraph(text, "case"), in, expected, tolerance);
}
/// One operator on inputs.
Graph graphOf(const OpCall& call, const std::vector<TensorType>& types) {
  Builder b;
  OpCall c = call;
  for (size_t i = 0; i < types.size(); i++)
    c.in.push_back(b.input(fmt::format("in{}", i), types[i]));
  b.graph.outputs = buildOp(b, c);
  return b.graph;
}

TEST(Cases, AnArrayAndItsReverse) {
  for (const int n : {7, 8}) {
    const Numbers x = range(n, [](int i) { return i * 1.5 - 2; });
    expectAll(fmt::format("graph (x: f32[{0}]) {{\n  %1 = view x (d0) -> ({1} - d0) : f32[{0}]\n"
                          "  %2 = map (x, %1) {{ $0 + $1 }} : f32[{0}]\n  return %2\n}}\n",
                          n, n - 1),
              {tensor(DType::F32, {n}, x)}, range(n, [&](int i) {
                return x[static_cast<size_t>(i)] + x[static_cast<size_t>(n - 1 - i)];
              }));
  }
}

TEST(Cases, TakeOfASum) {
  expectAll(R"(graph (x: f32[4], i: i64[3]) {
  %2 = map (x) { $0 + 1 } : f32[4]
  %3 = gather %2 [i] (d0) -> ($1[d0]) fill=0 : f32[3]
  return %3
})",
            {tensor(DType::F32, {4}, {10, 20, 30, 40}), tensor(DType::I64, {3}, {3, 0, 3})},
            {41, 11, 41});
}

TEST(Cases, ScatterOfARepeatedRow) {
  expectAll(R"(graph (x: f32[1x4], i: i64[3]) {
  %2 = view x (d0, d1) -> (0, d1) : f32[3x4]
  %3 = const 0 : f32[2x4]
  %4 = update %3 [i] %2 (d0, d1) -> ($1[d0], d1) combine=sum : f32[2x4]
  return %4
})",
            {tensor(DType::F32, {1, 4}, {1, 2, 3, 4}), tensor(DType::I64, {3}, {0, 1, 0})},
            {2, 4, 6, 8, 1, 2, 3, 4});
}

TEST(Cases, StrictDoesNotContract) {
  const Graph g = parseGraph(R"(graph (a: f32[16], b: f32[16], x: f32[16]) {
  %3 = map (a, x) { $0 * $1 } : f32[16]
  %4 = map (b, x) { $0 * $1 } : f32[16]
  %5 = map (%3, %4) { $0 + $1 } : f32[16]
  return %5
})",
                             "case");
  CompileOptions options = compileOptions(false);
  options.fusion.numerics = options.passes.numerics = Numerics::Strict;
  const auto program = compile(prepareGraph(g, {}, options.passes), options);
  ASSERT_EQ(program->kernels.size(), 1u);
  const std::vector<float> a(16, 1.1e11f), b(16, -1.1e11f), x(16, 0.3e11f);
  std::vector<float> y(16, 1);
  const void* in[] = {a.data(), b.data(), x.data()};
  void* out[] = {y.data()};
  Session(program, nullptr).run(in, out);
  EXPECT_EQ(y, std::vector<float>(16, 0));
}

TEST(Cases, CastsRoundInsideAKernel) {
  const float x = 1.001f;
  expectAll(R"(graph (x: f32[1]) {
  %1 = map (x) { bf16($0) } : bf16[1]
  %2 = map (%1, x) { f32($0) - $1 } : f32[1]
  return %2
})",
            {tensor(DType::F32, {1}, {x})}, {1.0f - x});  // 1.001 rounds to 1 in bf16
}

TEST(Cases, NanAndNegativeZero) {
  const auto x = tensor(DType::F32, {5}, {NAN, -0.0, 0.0, -kInf, kInf});
  const auto of = [&](const std::string& body, const Numbers& expected) {
    expectAll(fmt::format("graph (x: f32[5]) {{\n  %1 = map (x) {{ {} }} : f32[5]\n"
                          "  %2 = map (%1) {{ $0 * 1 }} : f32[5]\n  return %2\n}}\n",
                          body),
              {x}, expected);
  };
  of("max($0, 0)", {NAN, -0.0, 0.0, 0.0, kInf});            // the first of equals
  of("select(0 < $0, $0, 0)", {0.0, 0.0, 0.0, 0.0, kInf});  // nothing is greater than NaN
  of("min(max($0, -1), 1)", {NAN, -0.0, 0.0, -1, 1});
  expectAll(graphOf({.op = "Relu", .in = {}, .attributes = {}}, {x.type}), {x},
            {NAN, -0.0, 0.0, 0.0, kInf});
}

TEST(Cases, IntegerDivision) {
  const double low = std::numeric_limits<int32_t>::min();
  const Numbers a = {-7, -7, -7, 7, 7, 7, low, low, low}, b = {2, -2, -1, 2, -2, -1, 2, -2, -1};
  const std::vector<TensorAttribute> in = {tensor(DType::I32, {9}, a), tensor(DType::I32, {9}, b)};
  const auto floors = [&](const std::string& op, const Numbers& expected) {
    expectAll(
        fmt::format("graph (a: i32[9], b: i32[9]) {{\n  %2 = map (a, b) {{ $0 {} $1 }} : i32[9]\n"
                    "  %3 = map (%2) {{ $0 + 1 }} : i32[9]\n  return %3\n}}\n",
                    op),
        in, expected);
  };
  floors("//", {-3, 5 - 1, 8, 4, -3, -6, low / 2 + 1, -low / 2 + 1, low + 1});  // low // -1 wraps
  floors("%", {2, 0, 1, 2, 0, 1, 1, 1, 1});
  const std::vector<TensorType> types = {in[0].type, in[1].type};
  OpCall mod{"Mod", {}};
  mod.attributes["fmod"] = int64_t{1};
  expectAll(graphOf({"Div", {}}, types), in, {-3, 3, 7, 3, -3, -7, low / 2, -low / 2, low});
  expectAll(graphOf({"Mod", {}}, types), in, {1, -1, 0, 1, -1, 0, 0, 0, 0});
  expectAll(graphOf(mod, types), in, {-1, -1, 0, 1, 1, 0, 0, 0, 0});
}

/// x [1, groups * in, 5], w [groups * out, in, 3], padded by 1; + r; at least 0.
void groupedConvolution(int groups, int in, int out) {
  Builder b;
  const auto f32 = [](std::vector<Expr> shape) { return TensorType{DType::F32, std::move(shape)}; };
  const Value x = b.input("x", f32({1, groups * in, 5})),
              w = b.input("w", f32({groups * out, in, 3})),
              r = b.input("r", f32({1, groups * out, 5}));
  OpCall conv{"Conv", {x, w}};
  conv.attributes["group"] = int64_t{groups};
  conv.attributes["pads"] = std::vector<int64_t>{1, 1};
  b.graph.outputs = {b.map("max(a + b, 0)", {buildOp(b, conv)[0], r})};
  const Numbers xs = range(groups * in * 5, [](int i) { return (i * 7 % 11) - 5; }),
                ws = range(groups * out * in * 3, [](int i) { return (i * 5 % 7) - 3; }),
                rs = range(groups * out * 5, [](int i) { return i % 3; });
  Numbers expected;
  for (int o = 0; o < groups * out; o++)
    for (int p = 0; p < 5; p++) {
      double sum = rs[static_cast<size_t>(o * 5 + p)];
      for (int c = 0; c < in; c++)
        for (int k = 0; k < 3; k++)
          if (p + k >= 1 && p + k <= 5)
            sum += xs[static_cast<size_t>((o / out * in + c) * 5 + p + k - 1)] *
                   ws[static_cast<size_t>((o * in + c) * 3 + k)];
      expected.push_back(std::max(sum, 0.0));
    }
  expectAll(
      b.graph,
      {tensor(DType::F32, {1, groups * in, 5}, xs), tensor(DType::F32, {groups * out, in, 3}, ws),
       tensor(DType::F32, {1, groups * out, 5}, rs)},
      expected);
}
TEST(Cases, GroupedConvolution) {
  groupedConvolution(2, 3, 4);
  groupedConvolution(6, 1, 2);  // depthwise, two results a channel
}

OpCall softmax() {
  OpCall c{"Softmax", {}};
  c.attributes["axis"] = int64_t{-1};
  return c;
}
TEST(Cases, SoftmaxOfAMaskedRow) {
  const auto x = tensor(DType::F32, {2, 3}, {-kInf, -kInf, -kInf, 0, -kInf, 0});
  expectAll(graphOf(softmax(), {x.type}), {x}, {NAN, NAN, NAN, 0.5, 0, 0.5});
}

TEST(Cases, SoftmaxOfLargeScores) {
  for (const int n : {1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 511, 512, 513}) {
    const Numbers x = range(n, [](int i) { return (i % 3 - 1) * 1e4 + i % 5; });
    const double top = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const double v : x) sum += std::exp(v - top);
    const auto t = tensor(DType::F32, {1, n}, x);
    expectAll(graphOf(softmax(), {t.type}), {t},
              range(n, [&](int i) { return std::exp(x[static_cast<size_t>(i)] - top) / sum; }),
              1e-6);
  }
}

TEST(Cases, EmptyAndSingle) {
  expectAll("graph (x: f32[0x3]) {\n  %1 = reduce sum x axes=[0] : f32[1x3]\n  return %1\n}\n",
            {tensor(DType::F32, {0, 3}, {})}, {0, 0, 0});
  expectAll("graph (x: f32[2x0]) {\n  %1 = reduce max x axes=[1] : f32[2x1]\n  return %1\n}\n",
            {tensor(DType::F32, {2, 0}, {})}, {-kInf, -kInf});
  expectAll(
      "graph (x: f32[2x0], y: f32[0x3]) {\n  %2 = contract x, y mk,kn->mn : f32[2x3]\n"
      "  return %2\n}\n",
      {tensor(DType::F32, {2, 0}, {}), tensor(DType::F32, {0, 3}, {})}, Numbers(6, 0));
  expectAll("graph (x: f32[0x4]) {\n  %1 = map (x) { exp($0) } : f32[0x4]\n  return %1\n}\n",
            {tensor(DType::F32, {0, 4}, {})}, {});
  expectAll("graph (x: f32, y: f32) {\n  %2 = map (x, y) { $0 - $1 } : f32\n  return %2\n}\n",
            {tensor(DType::F32, {}, {3}), tensor(DType::F32, {}, {5})}, {-2});
  expectAll("graph (x: f32[1x1]) {\n  %1 = reduce sum x axes=[0, 1] : f32[1x1]\n  return %1\n}\n",
            {tensor(DType::F32, {1, 1}, {3})}, {3});
}

TEST(Cases, OneValueAsTwoOutputsAndAnInputAsOne) {
  const Graph g = parseGraph(
      "graph (x: f32[3]) {\n  %1 = map (x) { $0 + 1 } : f32[3]\n"
      "  return %1, %1, x\n}\n",
      "case");
  for (const Evaluator& e : evaluators()) {
    const auto out = e.run(g, {tensor(DType::F32, {3}, {1, 2, 3})});
    EXPECT_EQ(numbers(out.at(0)), (Numbers{2, 3, 4})) << e.name;
    EXPECT_EQ(numbers(out.at(1)), (Numbers{2, 3, 4})) << e.name;
    EXPECT_EQ(numbers(out.at(2)), (Numbers{1, 2, 3})) << e.name;
  }
}

TEST(Cases, PeakMemoryOfADiamond) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {4096, 4096}});
  std::vector<Value> level;
  for (int i = 0; i < 16; i++)
    level.push_back(b.reduce("max", b.map(fmt::format("exp(a * {}.5)", i), {x}), {1}));
  for (Value& v : level) v = b.map("a - b", {x, v});
  for (; level.size() > 1; level.resize(level.size() / 2))
    for (size_t i = 0; i < level.size() / 2; i++)
      level[i] = b.map("a * b", {level[2 * i], level[2 * i + 1]});
  b.graph.outputs = level;
  const auto peak = [&](bool unfused) {
    CompileOptions options = compileOptions(unfused);
    options.code = false;
    return compile(prepareGraph(b.graph, {}, {}), options)->arenaBytes;
  };
  EXPECT_LE(peak(false), peak(true));
}

/// Row `i` of Gelu(LayerNorm(x) * scale + shift) w + c), in double.
Numbers layerNormGeluRow(const float* x, const std::vector<float>& scale,
                         const std::vector<float>& shift, const std::vector<float>& w,
                         const std::vector<float>& c) {
  const size_t n = scale.size(), m = c.size();
  double mean = 0, variance = 0;
  for (size_t k = 0; k < n; k++) mean += x[k] / static_cast<double>(n);
  for (size_t k = 0; k < n; k++) variance += std::pow(x[k] - mean, 2) / static_cast<double>(n);
  Numbers out(c.begin(), c.end());
  for (size_t j = 0; j < m; j++) {
    for (size_t k = 0; k < n; k++)
      out[j] += ((x[k] - mean) / std::sqrt(variance + 1e-5) * scale[k] + shift[k]) * w[k * m + j];
    out[j] *= 0.5 * (1 + std::erf(out[j] / std::sqrt(2.0)));
  }
  return out;
}

TEST(Cases, LayerNormToGeluForAnyBatch) {
  constexpr int64_t kIn = 48, kOut = 36;
  Builder b;
  b.graph.dims["N"] = {0, 257};
  const auto f32 = [](std::vector<Expr> shape) { return TensorType{DType::F32, std::move(shape)}; };
  const Value x = b.input("x", f32({var("N"), kIn})), scale = b.input("scale", f32({kIn})),
              shift = b.input("shift", f32({kIn})), w = b.input("w", f32({kIn, kOut})),
              c = b.input("c", f32({kOut}));
  const Value y = buildOp(b, {"LayerNormalization", {x, scale, shift}})[0];
  b.graph.outputs = buildOp(b, {"Gelu", {buildOp(b, {"Gemm", {y, w, c}})[0]}});
  const auto some = [](int64_t n, int seed) {
    std::vector<float> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); i++)
      v[i] = static_cast<float>((i + 1) * static_cast<size_t>(seed) % 211) / 100 - 1;
    return v;
  };
  const auto scales = some(kIn, 37), shifts = some(kIn, 53), ws = some(kIn * kOut, 97),
             cs = some(kOut, 61), xs = some(257 * kIn, 131);
  Specializer all(b.graph, compileOptions(false), 32);
  std::set<int64_t> seen;
  double largest = 0;
  for (const int64_t n : {0,  1,  2,   3,   5,   7,   8,   9,   15,  16,  17, 31, 33, 63,
                          64, 65, 100, 127, 128, 129, 200, 255, 256, 257, 1,  64, 0,  257}) {
    std::vector<float> ys(static_cast<size_t>(n * kOut) + 1, 7);
    const void* in[] = {xs.data(), scales.data(), shifts.data(), ws.data(), cs.data()};
    void* out[] = {ys.data()};
    all.at({{n, kIn}, {kIn}, {kIn}, {kIn, kOut}, {kOut}}).session->run(in, out);
    seen.insert(n);
    EXPECT_EQ(all.compilations(), static_cast<int>(seen.size())) << n;
    for (int64_t i = 0; i < n; i++) {
      const Numbers row = layerNormGeluRow(xs.data() + i * kIn, scales, shifts, ws, cs);
      for (int64_t j = 0; j < kOut; j++) {
        const double expected = row[static_cast<size_t>(j)];
        largest = std::max(largest, std::fabs(expected));
        ASSERT_NEAR(ys[static_cast<size_t>(i * kOut + j)], expected, 2e-5)
            << n << " " << i << " " << j;
      }
    }
    EXPECT_EQ(ys.back(), 7);
  }
  EXPECT_GT(largest, 5);  // the values are spread: a wrong row would be seen
}

TEST(Cases, TheSameBytesForAnyThreadsRunsAndCompilations) {
  const Graph g = parseGraph(R"(graph (x: f32[64x300], w: f32[300x70]) {
  %2 = contract x, w mk,kn->mn : f32[64x70]
  %3 = reduce max %2 axes=[1] : f32[64x1]
  %4 = map (%2, %3) { exp($0 - $1) } : f32[64x70]
  %5 = reduce sum %4 axes=[0, 1] : f32[1x1]
  %6 = map (%4, %5) { $0 / $1 } : f32[64x70]
  return %6
})",
                             "case");
  std::vector<float> x(64 * 300), w(300 * 70);
  for (size_t i = 0; i < x.size(); i++) x[i] = static_cast<float>(i * 7919 % 1009) / 500 - 1;
  for (size_t i = 0; i < w.size(); i++) w[i] = static_cast<float>(i * 104729 % 997) / 700 - 0.7f;
  std::string first;
  for (const int threads : {1, 2, 4, 8}) {
    for (int compilation = 0; compilation < 2; compilation++) {
      CompileOptions options = compileOptions(false);
      options.threads = threads;
      Team team(threads);
      Session session(compile(prepareGraph(g, {}, {}), options), &team);
      for (int run = 0; run < 100; run++) {
        std::string y(64 * 70 * sizeof(float), '\0');
        const void* in[] = {x.data(), w.data()};
        void* out[] = {y.data()};
        session.run(in, out);
        if (first.empty()) first = y;
        ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size()), 0) << threads << " " << run;
      }
    }
  }
}

}  // namespace
}  // namespace tektite
