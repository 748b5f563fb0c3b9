#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "ir/graph_eval.h"
#include "plan_executor.h"
#include "support/check.h"

namespace tektite {
namespace {

/// Random small graphs of every fusible kind: plans, run point by point, against the graph interpreter.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {}

  Graph make() {
    for (int i = 0; i < 2 + pick(2); i++)
      values_.push_back(b_.input("x" + std::to_string(i), {DType::F32, shape()}));
    const int steps = 3 + pick(14);
    for (int i = 0; i < steps; i++) {
      b_.origin = "n" + std::to_string(i);
      const Value v = step();
      if (v && b_.type(v).elements() <= 4000) values_.push_back(v);
    }
    b_.graph.outputs.push_back(values_.back());
    for (int i = 0; i < pick(3); i++) b_.graph.outputs.push_back(any());
    return b_.graph;
  }

 private:
  std::mt19937 random_;
  Builder b_;
  std::vector<Value> values_;

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::vector<Expr> shape() {
    std::vector<Expr> out;
    for (int i = 0; i < 1 + pick(4); i++)
      out.push_back(Expr(std::vector{1, 2, 3, 4, 6, 8, 12}[static_cast<size_t>(pick(7))]));
    return out;
  }
  Value any() {
    return values_[static_cast<size_t>(
        pick(2) ? static_cast<int>(values_.size()) - 1 -
                      pick(std::min<int>(3, static_cast<int>(values_.size())))
                : pick(static_cast<int>(values_.size())))];
  }
  int64_t extent(Value v, int axis) { return b_.type(v).extent(axis); }
  std::vector<Expr> axes(int rank) {
    std::vector<Expr> out;
    for (int i = 0; i < rank; i++) out.push_back(var(coordinate(i)));
    return out;
  }

  Value step() {
    const Value v = any();
    const int rank = b_.rank(v);
    switch (pick(13)) {
      case 0: return b_.map("a * 0.5 + 0.25", {v});
      case 1: return b_.map("tanh(a)", {v});
      case 2: return b_.map("max(a, 0.1)", {v});
      case 3:
      case 4: return binary(v);
      case 5:
      case 6: return rank ? b_.reduce(pick(2) ? "sum" : "max", v, {pick(rank)}) : Value{};
      case 7: {
        std::vector<int> p(static_cast<size_t>(rank));
        for (int i = 0; i < rank; i++) p[static_cast<size_t>(i)] = i;
        std::shuffle(p.begin(), p.end(), random_);
        return b_.transpose(v, p);
      }
      case 8: return reshape(v);
      case 9: return pad(v);
      case 10: return slice(v);
      case 11: return product(v);
      default: return pick(2) ? windows(v) : joined(v);
    }
  }
  Value binary(Value v) {
    for (int i = 0; i < 8; i++) {
      const Value w = any();
      try {
        if (b_.rank(w) > 4) continue;
        return b_.map(pick(2) ? "a + b" : "a * b - 0.5", {v, w});
      } catch (const UserError&) {
      }
    }
    return b_.map("a - b", {v, v});
  }
  Value reshape(Value v) {
    const int64_t n = b_.type(v).elements();
    std::vector<Expr> to;
    int64_t left = n;
    for (int64_t f : {2, 3, 4, 2})
      if (left % f == 0 && pick(2)) to.push_back(Expr(f)), left /= f;
    to.push_back(Expr(left));
    std::shuffle(to.begin(), to.end(), random_);
    return b_.reshape(v, to);
  }
  Value pad(Value v) {
    std::vector<int64_t> before, after;
    for (int i = 0; i < b_.rank(v); i++) before.push_back(pick(2)), after.push_back(pick(3));
    return b_.pad(v, before, after, imm(DType::F32, 0.5));
  }
  Value slice(Value v) {
    if (!b_.rank(v)) return {};
    std::vector<Expr> starts, sizes;
    std::vector<int64_t> steps;
    for (int i = 0; i < b_.rank(v); i++) {
      const int64_t e = extent(v, i), start = pick(static_cast<int>(e)), step = 1 + pick(2);
      starts.push_back(Expr(start));
      steps.push_back(step);
      sizes.push_back(Expr((e - start + step - 1) / step));
    }
    return b_.slice(v, starts, sizes, steps);
  }
  Value product(Value v) {
    const int rank = b_.rank(v);
    if (rank < 1 || rank > 4) return {};
    const Value w = b_.input("w" + std::to_string(values_.size()),
                             {DType::F32, {b_.type(v).shape.back(), Expr(1 + pick(9))}});
    const std::string left = std::string("abcd").substr(0, static_cast<size_t>(rank - 1));
    return b_.contract(left + "k,kn->" + left + "n", v, w);
  }
  Value windows(Value v) {
    const int rank = b_.rank(v);
    if (rank < 1 || rank > 3) return {};
    const int64_t e = extent(v, rank - 1), stride = 1 + pick(2);
    const Value w = b_.windows(v, {3}, {stride}, {1}, {1}, {Expr((e + stride - 1) / stride)},
                               imm(DType::F32, pick(2) ? 0 : -1));
    if (pick(2)) return b_.reduce("max", w, {rank});
    const Value k =
        b_.input("k" + std::to_string(values_.size()), {DType::F32, {Expr(3), Expr(4)}});
    const std::string left = std::string("abc").substr(0, static_cast<size_t>(rank));
    return b_.contract(left + "k,kn->" + left + "n", w, k);
  }
  Value joined(Value v) {
    if (!b_.rank(v)) return {};
    return b_.concat({v, b_.map("a + 1", {v}), v}, pick(b_.rank(v)));
  }
};

void expectLikeInterpreter(unsigned seed, bool unfused) {
  const Graph g = RandomGraph(seed).make();
  if (std::getenv("TEKTITE_FUZZ_PRINT")) fmt::print(stderr, "seed {}\n{}", seed, toText(g));
  verify(g);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<Tensor> inputs;
  std::vector<TestTensor> leaves;
  for (const Value& v : g.inputs()) {
    TestTensor t{g.type(v), {}, {}};
    for (int64_t i = 0; i < t.type.elements(); i++) t.real.push_back(uniform(random));
    t.integer.resize(t.real.size());
    leaves.push_back(t);
    inputs.push_back(Tensor::of(DType::F32, g.type(v).extents(), t.real));
  }
  const std::vector<Tensor> want = evaluate(g, inputs);
  FusionOptions options;
  options.unfused = unfused;
  const Fused f = fuse(g, findTarget("cpu:avx2"), options);
  std::string text = toText(g);
  for (const Node& n : f.graph.nodes)
    if (const Group* group = n.as<Group>()) text += n.origin + "\n" + toText(*group->plan);
  std::vector<TestTensor> got;
  try {
    got = runGroups(f.graph, leaves);
  } catch (const std::exception& e) {
    FAIL() << "seed " << seed << ": " << e.what() << "\n" << text;
  }
  for (size_t o = 0; o < want.size(); o++)
    for (int64_t i = 0; i < want[o].elements(); i++) {
      const double a = got[o].real[static_cast<size_t>(i)], b = want[o].at(i);
      ASSERT_TRUE(a == b || std::abs(a - b) <= 1e-6 * (1 + std::abs(b)))
          << "seed " << seed << " output " << o << " at " << i << ": " << a << ", not " << b << "\n"
          << text;
    }
  for (const Edge& e : f.ledger.edges)
    EXPECT_TRUE((e.verdict == Verdict::Unfused) == (e.refusal.reason != Reason::None))
        << "seed " << seed;
}

TEST(FusionFuzz, PlansLikeTheInterpreter) {
  const char* count = std::getenv("TEKTITE_FUZZ_GRAPHS");
  const unsigned most = count ? static_cast<unsigned>(std::atoi(count)) : 250;
  for (unsigned seed = 0; seed < most; seed++) {
    expectLikeInterpreter(seed, seed % 5 == 4);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace tektite
