// Attention in its spellings: whoever writes it, it is one kernel, and scores never reach main memory.
#include <algorithm>

#include "../evaluators.h"
#include "fusion/fuse.h"
#include "fuzz/fuzz.h"
#include "fuzz/random_graph.h"
#include "passes/pass.h"

namespace tektite {
namespace {

struct Spelling {
  int scale;  ///< on q, on k, product of the scores, quotient of the scores, roots on both sides, folded away
  int mask;     ///< none, added, chosen, causal
  int softmax;  ///< the operator, five nodes, exponentials without a maximum
  int keys;     ///< as rows, transposed by a node, transposed from the start
  int heads;  ///< one axis of batches and heads, two axes, grouped queries by broadcast, by expand and reshape
  std::string text() const {
    return fmt::format("scale {} mask {} softmax {} keys {} heads {}", scale, mask, softmax, keys,
                       heads);
  }
};

class Attention {
 public:
  Attention(const Spelling& s, int64_t n, int64_t d) : s_(s), n_(n), d_(d) {}
  Graph run() {
    const bool two = s_.heads >= 1;
    const int64_t keyHeads = s_.heads >= 2 ? 2 : 4;
    Value q = in("q", two ? Shape{2, 4, n_, d_} : Shape{8, n_, d_});
    const Shape rows = two ? Shape{2, keyHeads, n_, d_} : Shape{8, n_, d_};
    const Shape columns = two ? Shape{2, keyHeads, d_, n_} : Shape{8, d_, n_};
    Value k = in("k", s_.keys == 2 ? columns : rows), v = in("v", rows);
    if (s_.keys == 1) k = b_.transpose(k, two ? std::vector{0, 1, 3, 2} : std::vector{0, 2, 1});
    const double factor = 1 / std::sqrt(static_cast<double>(d_));
    if (s_.scale == 0) q = b_.map(fmt::format("a * {}", factor), {q});
    if (s_.scale == 1) k = b_.map(fmt::format("a * {}", factor), {k});
    if (s_.scale == 4) {
      q = b_.map(fmt::format("a * {}", std::sqrt(factor)), {q});
      k = b_.map(fmt::format("a / {}", 1 / std::sqrt(factor)), {k});
    }
    k = spread(k), v = spread(v);
    Value scores = s_.keys == 0 ? b_.contract(two ? "bhqd,bhkd->bhqk" : "hqd,hkd->hqk", q, k)
                                : op("MatMul", {q, k});
    if (s_.scale == 2) scores = b_.map(fmt::format("a * {}", factor), {scores});
    if (s_.scale == 3) scores = b_.map(fmt::format("a / {}", 1 / factor), {scores});
    const Value out = op("MatMul", {softmax(masked(scores)), v});
    b_.graph.outputs = {out};
    return runPasses(b_.graph, {});
  }

 private:
  using Shape = std::vector<int64_t>;
  const Spelling s_;
  const int64_t n_, d_;
  Builder b_;

  Value in(const std::string& name, const Shape& shape, DType t = DType::F32) {
    return b_.input(name, {t, {shape.begin(), shape.end()}});
  }
  Value op(const std::string& name, std::vector<Value> args) {
    return buildOp(b_, {name, std::move(args), {}})[0];
  }
  /// Two heads of keys for four of queries.
  Value spread(Value x) {
    if (s_.heads < 2) return x;
    const Shape e = b_.type(x).extents();
    Value five = b_.reshape(x, {2, 2, 1, e[2], e[3]});
    five = b_.broadcast(five, {2, 2, 2, e[2], e[3]});
    if (s_.heads == 3) five = b_.map("a * 1", {five});
    return b_.reshape(five, {2, 4, e[2], e[3]});
  }
  Value masked(Value scores) {
    if (s_.mask == 1) return b_.map("a + b", {scores, in("bias", {n_, n_})});
    if (s_.mask == 2)
      return b_.map("select(b, a, -10000)", {scores, in("mask", {n_, n_}, DType::Bool)});
    if (s_.mask == 3) {
      const std::string row = s_.heads >= 1 ? "d2" : "d1", column = s_.heads >= 1 ? "d3" : "d2";
      return b_.map("select(" + column + " <= " + row + ", a, -10000)", {scores});
    }
    return scores;
  }
  Value softmax(Value x) {
    const int last = b_.rank(x) - 1;
    if (s_.softmax == 0) {
      OpCall c{"Softmax", {x}, {}};
      c.attributes["axis"] = int64_t{-1};
      return buildOp(b_, c)[0];
    }
    const Value e = s_.softmax == 1
                        ? b_.map("exp(a)", {b_.map("a - b", {x, b_.reduce("max", x, {last})})})
                        : b_.map("exp(a)", {x});
    return b_.map("a / b", {e, b_.reduce("sum", e, {last})});
  }
};

std::vector<Spelling> spellings() {
  std::vector<Spelling> out;
  for (int i = 0; i < 36; i++) out.push_back({i % 6, i / 2 % 4, i / 3 % 3, i / 5 % 3, i / 7 % 4});
  return out;
}
size_t kernelsOf(const Graph& g, const std::string& target) {
  const Fused f = fuse(g, findTarget(target), {});
  return static_cast<size_t>(
      std::ranges::count_if(f.graph.nodes, [](const Node& n) { return n.as<Group>() != nullptr; }));
}

TEST(AttentionSpellings, EachIsOneKernel) {
  for (const Spelling& s : spellings())
    EXPECT_EQ(kernelsOf(Attention(s, 256, 64).run(), "gpu-class"), 1u) << s.text();
}

TEST(AttentionSpellings, EachComputesAttention) {
  for (const Spelling& s : spellings()) {
    const Graph g = Attention(s, 20, 8).run();
    const std::vector<Tensor> in = randomInputs(g, 7, false);
    std::vector<TensorAttribute> raw;
    for (const Tensor& t : in) raw.push_back({t.type(), t.toConst()});
    const auto got = runCompiled(g, raw, false);
    const Tensor y = Tensor::fromRaw(got[0].type.dtype, got[0].type.extents(), got[0].data->data);
    EXPECT_LE(largestDifference(y, evaluate(g, in)[0]), 1e-5) << s.text();
  }
}

}  // namespace
}  // namespace tektite
