#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "lowered_executor.h"
#include "passes/pass.h"
#include "tiny_target.h"

namespace tektite {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kRows = 6, kDepth = 4;

/// Rows of scores q k^T s + mask, their softmax times v, and the logarithm of the sums of their exponentials.
struct Attention {
  int64_t keys;
  std::vector<double> q, k, v, mask;  // [rows, depth], [keys, depth] twice, [rows, keys]
  explicit Attention(int64_t n, double scale = 1) : keys(n) {
    std::mt19937 random(static_cast<unsigned>(n));
    std::uniform_real_distribution<double> uniform(-1, 1);
    const auto fill = [&](std::vector<double>& to, int64_t size, double by) {
      for (int64_t i = 0; i < size; i++)
        to.push_back(static_cast<double>(static_cast<float>(by * uniform(random))));
    };
    fill(q, kRows * kDepth, scale);
    fill(k, n * kDepth, 1);
    fill(v, n * kDepth, 1);
    mask.assign(static_cast<size_t>(kRows * n), 0);
  }
  double& maskAt(int64_t r, int64_t j) { return mask[static_cast<size_t>(r * keys + j)]; }

  /// The definition, in double precision: rows * depth results, then a logarithm a row.
  std::vector<double> expected() const {
    std::vector<double> out, logs;
    for (int64_t r = 0; r < kRows; r++) {
      std::vector<double> s(static_cast<size_t>(keys));
      double most = -kInf, sum = 0;
      for (int64_t j = 0; j < keys; j++) {
        double dot = 0;
        for (int64_t d = 0; d < kDepth; d++) dot += q[r * kDepth + d] * k[j * kDepth + d];
        s[j] = dot * 0.5 + mask[r * keys + j];
        most = std::max(most, s[j]);
      }
      for (double& x : s) sum += x = std::exp(x - most);
      for (int64_t d = 0; d < kDepth; d++) {
        double o = 0;
        for (int64_t j = 0; j < keys; j++) o += s[j] / sum * v[j * kDepth + d];
        out.push_back(o);
      }
      logs.push_back(std::log(sum) + most);
    }
    out.insert(out.end(), logs.begin(), logs.end());
    return out;
  }
  Graph graph(bool divideLater) const {
    Builder b;
    const Value x = b.input("q", {DType::F32, {kRows, kDepth}}),
                y = b.input("k", {DType::F32, {keys, kDepth}}),
                z = b.input("v", {DType::F32, {keys, kDepth}}),
                m = b.input("m", {DType::F32, {kRows, keys}});
    const Value s = b.map("a * 0.5 + b", {b.contract("rd,jd->rj", x, y), m});
    const Value most = b.reduce("max", s, {1}), e = b.map("exp(a - b)", {s, most});
    const Value sum = b.reduce("sum", e, {1});
    const Value o = divideLater ? b.map("a / b", {b.contract("rj,jd->rd", e, z), sum})
                                : b.contract("rj,jd->rd", b.map("a / b", {e, sum}), z);
    b.graph.outputs = {o, b.map("log(a) + b", {sum, most})};
    return b.graph;
  }
  std::map<Value, TestTensor> leaves(const Graph& g) const {
    std::map<Value, TestTensor> out;
    const std::vector<const std::vector<double>*> data = {&q, &k, &v, &mask};
    for (size_t i = 0; i < data.size(); i++)
      out[g.inputs()[i]] = {g.type(g.inputs()[i]), *data[i], {}};
    return out;
  }
  void check(const std::vector<TestTensor>& found, double tolerance) const {
    std::vector<double> got = found[0].real;
    got.insert(got.end(), found[1].real.begin(), found[1].real.end());
    const std::vector<double> want = expected();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); i++) {
      if (std::isnan(want[i]))
        EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
      else
        EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << i;
    }
  }
  void check(bool divideLater, bool expectWalk = true) const {
    const Graph g = graph(divideLater);
    const PlanResult r = planGroup(g, tinyTarget(), {});
    ASSERT_TRUE(r.plan) << toText(r.refusal);
    EXPECT_TRUE(!expectWalk || walks(*r.plan)) << toText(*r.plan);
    check(runPlan(*r.plan, g, leaves(g)), 1e-9);
    for (const char* target : {"naive", "cpu:avx2", "cpu:avx512"})
      check(runLowered(*r.plan, g, leaves(g), target), 2e-5);
  }
};

TEST(Streaming, AttentionHoldsNoRow) {
  Attention(500).check(false);
  Attention(500).check(true);
}

TEST(Streaming, LargeScores) { Attention(500, 1e4).check(false); }

TEST(Streaming, LengthsAroundTheBlock) {
  const Graph g = Attention(500).graph(false);
  const PlanResult r = planGroup(g, tinyTarget(), {});
  int64_t block = 0;
  for (const TileAxis& t : r.plan->lists[0].tiles)
    if (!t.grid) block = t.tile;
  ASSERT_GT(block, 1);
  for (int64_t n : {int64_t{1}, int64_t{2}, block - 1, block, block + 1, 2 * block + 1})
    Attention(n).check(false, false);
}

TEST(Streaming, MaskedRowsAndBlocks) {
  Attention a(500);
  for (int64_t j = 0; j < 500; j++) {
    a.maskAt(0, j) = -kInf;               // no key at all: no number, as without streaming
    if (j < 450) a.maskAt(1, j) = -kInf;  // the first blocks
    if (j > 20) a.maskAt(2, j) = -kInf;   // the last ones
    if (j != 250) a.maskAt(3, j) = -kInf;
  }
  a.check(false);
  a.check(true);
}

TEST(Streaming, SpecialScores) {
  Attention a(500);
  a.maskAt(0, 300) = kInf;
  a.maskAt(1, 300) = std::nan("");
  a.check(false);
}

/// Mean and variance of rows, by their definition in double precision.
struct Moments {
  std::vector<int64_t> shape;  // the first axis stays
  std::vector<double> x;
  Moments(std::vector<int64_t> dims, double about) : shape(std::move(dims)) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-1, 1);
    int64_t size = 1;
    for (int64_t d : shape) size *= d;
    for (int64_t i = 0; i < size; i++)
      x.push_back(static_cast<double>(static_cast<float>(about + uniform(random))));
  }
  Graph graph(const std::string& distance) const {
    Builder b;
    const Value v = b.input("x", {DType::F32, {shape.begin(), shape.end()}});
    std::vector<int> axes;
    double count = 1;
    for (size_t d = 1; d < shape.size(); d++)
      axes.push_back(static_cast<int>(d)), count *= static_cast<double>(shape[d]);
    const std::string byCount = fmt::format("a * {:.9g}", 1 / count);
    const Value mean = b.map(byCount, {b.reduce("sum", v, axes)}), d = b.map(distance, {v, mean});
    b.graph.outputs = {mean, b.map(byCount, {b.reduce("sum", b.map("a * a", {d}), axes)})};
    return b.graph;
  }
  void check(bool walking = true, double tolerance = 1e-5,
             const std::string& distance = "a - b") const {
    const Graph g = graph(distance);
    const PlanResult r = planGroup(g, tinyTarget(), {});
    ASSERT_TRUE(r.plan) << toText(r.refusal);
    EXPECT_EQ(walks(*r.plan), walking) << toText(*r.plan);
    const std::map<Value, TestTensor> leaves = {{g.inputs()[0], {g.type(g.inputs()[0]), x, {}}}};
    expect(runPlan(*r.plan, g, leaves), 1e-7);  // 1 / n is rounded
    for (const char* target : {"naive", "cpu:avx2", "cpu:avx512"})
      expect(runLowered(*r.plan, g, leaves, target), tolerance);
  }
  void expect(const std::vector<TestTensor>& found, double tolerance) const {
    const size_t rows = static_cast<size_t>(shape[0]), n = x.size() / rows;
    for (size_t r = 0; r < rows; r++) {
      double mean = 0, squares = 0;
      for (size_t i = 0; i < n; i++) mean += x[r * n + i] / static_cast<double>(n);
      for (size_t i = 0; i < n; i++) squares += (x[r * n + i] - mean) * (x[r * n + i] - mean);
      squares /= static_cast<double>(n);
      for (const auto& [got, want] :
           {std::pair(found[0].real[r], mean), std::pair(found[1].real[r], squares)})
        if (std::isnan(want))
          EXPECT_TRUE(std::isnan(got)) << r << ": " << got;
        else if (std::isinf(want))
          EXPECT_EQ(got, want) << r;
        else
          EXPECT_NEAR(got, want, tolerance * (1 + std::abs(want))) << r;
    }
  }
};

TEST(Streaming, MeanAndVarianceInOnePass) {
  Moments({3, 5000}, 0.5).check();
  Moments({3, 5000}, 0.5).check(true, 1e-5, "b - a");
  Moments({3, 600, 40}, -2).check();          // of two axes one is walked
  Moments({2, 5000}, 1e3).check(true, 2e-4);  // sums of squares would cancel to nothing
}

TEST(Streaming, MomentsOfLengthsAroundTheBlock) {
  const PlanResult r = planGroup(Moments({3, 5000}, 0).graph("a - b"), tinyTarget(), {});
  int64_t block = 0;
  for (const TileAxis& t : r.plan->lists[0].tiles)
    if (!t.grid) block = t.tile;
  ASSERT_GT(block, 1);
  for (int64_t n : {block - 1, block, block + 1, 2 * block + 1})
    Moments({3, 5000 / block * block + n}, 3).check();
}

TEST(Streaming, MomentsOfSpecialValues) {
  Moments m({4, 5000}, 0);
  m.x[3000] = kInf;
  m.x[5000] = std::nan("");
  m.x[2 * 5000 + 4999] = -kInf;
  m.check();
}

TEST(Streaming,
     OnlyDistancesFromTheirOwnMean) {  // else their sum is not 0, and the rule doesn't hold
  Moments({3, 5000}, 0.5).check(false, 1e-5, "a - b * 1");
  Builder b;
  const Value x = b.input("x", {DType::F32, {3, 5000}}), y = b.input("y", {DType::F32, {3, 5000}});
  const Value mean = b.map("a / 5000", {b.reduce("sum", x, {1})}),
              part = b.map("a / 4999", {b.reduce("sum", x, {1})});
  const auto walking = [&](const Value& v, const Value& m) {
    const Value d = b.map("a - b", {v, m});
    Builder c = b;
    c.graph.outputs = {c.reduce("sum", c.map("a * a", {d}), {1})};
    return walks(*planGroup(runPasses(c.graph, {}), tinyTarget(), {}).plan);
  };
  EXPECT_TRUE(walking(x, mean));
  EXPECT_FALSE(walking(y, mean));
  EXPECT_FALSE(walking(x, part));
}

TEST(Streaming, NotWhereSumsMayNotBeRoundedDifferently) {
  FusionOptions o;
  o.numerics = Numerics::Strict;
  const PlanResult r = planGroup(Attention(500).graph(false), tinyTarget(), o);
  EXPECT_FALSE(r.plan && walks(*r.plan));
}

TEST(Streaming, NotWhereTheProbabilitiesAreAResult) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {8, 5000}}), y = b.input("y", {DType::F32, {5000, 8}});
  const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {1})});
  const Value p = b.map("a / b", {e, b.reduce("sum", e, {1})});
  b.graph.outputs = {p, b.contract("rj,jd->rd", p, y)};
  const PlanResult r = planGroup(b.graph, tinyTarget(), {});
  ASSERT_TRUE(r.plan);
  EXPECT_FALSE(walks(*r.plan));
}

}  // namespace
}  // namespace tektite
