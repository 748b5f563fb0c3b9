// Windows by fewer products: the matrices against plain sums in doubles, whole convolutions against the same, and how far they are off.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "../evaluators.h"
#include "../guarded_memory.h"
#include "ops/product.h"
#include "passes/short_products.h"
#include "runtime/team.h"

namespace tektite {
namespace {

TEST(ShortWindows, MatricesGiveWindowSums) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<double> numbers(-1, 1);
  int found = 0;
  for (int64_t m = 1; m <= 6; m++)
    for (int64_t r = 1; r <= 6; r++) {
      const auto p = shortProduct(m, r);
      EXPECT_EQ(p.has_value(), m >= 2 && r >= 2 && m + r - 1 <= 6) << m << " " << r;
      if (!p) continue;
      found++;
      const auto n = static_cast<size_t>(p->points());
      std::vector<double> d(n), g(static_cast<size_t>(r)), products(n);
      for (double& x : d) x = numbers(engine);
      for (double& x : g) x = numbers(engine);
      for (size_t j = 0; j < n; j++) {
        double a = 0, b = 0;
        for (size_t i = 0; i < n; i++) a += p->input[j * n + i] * d[i];
        for (size_t k = 0; k < g.size(); k++) b += p->weight[j * g.size() + k] * g[k];
        products[j] = a * b;
      }
      for (size_t i = 0; i < static_cast<size_t>(m); i++) {
        double y = 0, want = 0;
        for (size_t j = 0; j < n; j++) y += p->output[i * n + j] * products[j];
        for (size_t k = 0; k < g.size(); k++) want += g[k] * d[i + k];
        EXPECT_NEAR(y, want, 1e-5) << m << " " << r;
      }
    }
  EXPECT_GE(found, 8);
}

struct Shape {
  int64_t n, c, o;
  std::vector<int64_t> size, kernel, before, after;
};

std::vector<float> numbersOf(int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> numbers(0, 1);
  std::vector<float> out;
  for (int64_t i = 0; i < count; i++) out.push_back(numbers(engine));
  return out;
}
int64_t productOf(const std::vector<int64_t>& v) {
  int64_t n = 1;
  for (int64_t x : v) n *= x;
  return n;
}

class Convolution {
 public:
  explicit Convolution(Shape shape) : s_(std::move(shape)) {
    for (size_t k = 0; k < s_.size.size(); k++)
      out_.push_back(s_.size[k] + s_.before[k] + s_.after[k] - s_.kernel[k] + 1);
    x_ = numbersOf(s_.n * s_.c * productOf(s_.size), 2);
    w_ = numbersOf(s_.o * s_.c * productOf(s_.kernel), 3);
  }

  /// With a bias and a maximum behind it, as models have it.
  Graph graph() const {
    Builder b;
    std::vector<Expr> shape = {Expr(s_.n), Expr(s_.c)}, weight = {Expr(s_.o), Expr(s_.c)};
    for (int64_t e : s_.size) shape.emplace_back(e);
    for (int64_t e : s_.kernel) weight.emplace_back(e);
    const Value x = b.input("x", {DType::F32, shape});
    auto data = std::make_shared<ConstData>();
    data->data = w_.data();
    data->bytes = w_.size() * sizeof(float);
    const Value w = b.constant({DType::F32, weight}, data);
    const std::vector<int64_t> ones(s_.size.size(), 1);
    Windows g{s_.kernel, ones, ones, s_.before, s_.after, {}};
    for (int64_t e : out_) g.out.emplace_back(e);
    const Value y = convolution(b, x, w, g, 1, {}, imm(DType::F32, 0));
    b.graph.outputs = {b.map("max(a + 0.5, 0)", {y})};
    return b.graph;
  }

  std::vector<float> run(Numerics numerics, int threads, bool* shortened = nullptr) const {
    CompileOptions options = compileOptions(false);
    options.fusion.numerics = options.passes.numerics = numerics;
    options.threads = threads;
    const Graph g = prepareGraph(graph(), {}, options.passes);
    if (shortened)
      *shortened = std::ranges::count_if(
                       g.nodes, [](const Node& n) { return n.as<Contract>() != nullptr; }) > 1;
    const auto program = compile(g, options);
    Team team(threads);
    const auto count = static_cast<size_t>(program->outputs[0].elements());
    const bool atEnd = threads > 1;  // nothing outside of the tensors is touched, on either side
    GuardedMemory input(x_.size() * sizeof(float), atEnd), output(count * sizeof(float), atEnd);
    std::ranges::copy(x_, static_cast<float*>(input.data()));
    const void* in = input.data();
    void* to = output.data();
    Session(program, &team).run(&in, &to);
    const float* got = static_cast<const float*>(to);
    return {got, got + count};
  }

  /// The largest difference from sums in doubles, as a share of the root of the sum's length, which is what values here are like.
  double error(const std::vector<float>& got) const {
    double worst = 0;
    const int64_t points = productOf(out_), window = productOf(s_.kernel);
    for (int64_t i = 0; i < static_cast<int64_t>(got.size()); i++) {
      const int64_t n = i / points / s_.o, o = i / points % s_.o, at = i % points;
      double sum = 0;
      for (int64_t k = 0; k < window; k++) {
        const int64_t place = placeOf(at, k);
        if (place < 0) continue;
        for (int64_t c = 0; c < s_.c; c++)
          sum += static_cast<double>(
                     x_[static_cast<size_t>((n * s_.c + c) * productOf(s_.size) + place)]) *
                 w_[static_cast<size_t>((o * s_.c + c) * window + k)];
      }
      worst = std::max(worst, std::abs(got[static_cast<size_t>(i)] - std::max(sum + 0.5, 0.0)));
    }
    return worst / std::sqrt(static_cast<double>(s_.c * window));
  }

 private:
  /// Where in the input tap k of output `at` lies; -1: outside.
  int64_t placeOf(int64_t at, int64_t k) const {
    int64_t place = 0, step = 1;
    for (size_t d = out_.size(); d-- > 0;) {
      const int64_t x = at % out_[d] + k % s_.kernel[d] - s_.before[d];
      if (x < 0 || x >= s_.size[d]) return -1;
      place += x * step;
      step *= s_.size[d];
      at /= out_[d];
      k /= s_.kernel[d];
    }
    return place;
  }

  Shape s_;
  std::vector<int64_t> out_;
  std::vector<float> x_, w_;
};

// Roundings of plain sums, and what the transforms of each axis make of them: their matrices' rows sum up to 10 and 20.
constexpr double kPlain = 6e-6, kShort = 1.5e-5;

TEST(ShortWindows, ConvolutionsAgainstDoubles) {
  const Shape shapes[] = {{1, 32, 48, {28, 28}, {3, 3}, {1, 1}, {1, 1}},
                          {2, 32, 40, {20, 24}, {3, 3}, {0, 1}, {2, 1}},
                          {1, 48, 64, {30, 34}, {3, 3}, {0, 0}, {0, 0}},
                          {1, 64, 64, {200}, {3}, {1}, {1}},
                          {1, 64, 64, {18, 40}, {1, 3}, {0, 1}, {0, 1}},
                          {1, 32, 40, {40, 26}, {5, 5}, {2, 2}, {2, 2}},
                          {1, 16, 16, {8, 8, 12}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}}};
  for (const Shape& s : shapes)
    for (int threads : {1, 2}) {
      const Convolution conv(s);
      bool shortened = false;
      const double off = conv.error(conv.run(Numerics::Fast, threads, &shortened));
      EXPECT_TRUE(shortened) << s.size[0];
      EXPECT_LT(off, kShort * static_cast<double>(s.size.size())) << s.size[0];
      EXPECT_LT(conv.error(conv.run(Numerics::Ordered, threads, &shortened)), kPlain);
      EXPECT_FALSE(shortened) << s.size[0];
    }
}

/// Few channels, few tiles of many weights, places that tiles do not divide: the plain form stays.
TEST(ShortWindows, NotWhereItDoesNotPay) {
  for (const Shape& s : {Shape{1, 3, 64, {32, 32}, {3, 3}, {1, 1}, {1, 1}},
                         Shape{1, 64, 64, {4, 4}, {3, 3}, {1, 1}, {1, 1}},
                         Shape{1, 64, 64, {15, 27}, {3, 3}, {1, 1}, {1, 1}},
                         Shape{1, 64, 64, {28, 28}, {1, 1}, {0, 0}, {0, 0}}}) {
    bool shortened = true;
    const Convolution conv(s);
    EXPECT_LT(conv.error(conv.run(Numerics::Fast, 1, &shortened)), kPlain);
    EXPECT_FALSE(shortened) << s.c << " " << s.size[0];
  }
}

}  // namespace
}  // namespace tektite
