// Main-memory traffic as `explain` shows it: near the least there can be where memory is the limit, and far below unfused for chains.
#include "../evaluators.h"
#include "fusion/plan_body.h"
#include "runtime/report.h"

namespace tektite {
namespace {

struct Case {
  std::string name;
  Graph graph;
  double least;  ///< unfused traffic over fused
};

class Cases {
 public:
  std::vector<Case> run() {
    chain();
    norms();
    sums();
    horizontal();
    convolution();
    attention();
    return std::move(out_);
  }

 private:
  Builder b_;
  std::vector<Case> out_;
  Value in(const char* name, const std::vector<int64_t>& shape) {
    return b_.input(name, {DType::F32, {shape.begin(), shape.end()}});
  }
  Value op(const std::string& name, std::vector<Value> args) {
    return buildOp(b_, {name, std::move(args), {}})[0];
  }
  void done(const char* name, double least, std::vector<Value> outputs) {
    b_.graph.outputs = std::move(outputs);
    for (size_t i = 0; i < b_.graph.nodes.size(); i++)
      b_.graph.nodes[i].origin = "n" + std::to_string(i);
    out_.push_back({name, std::move(b_.graph), least});
    b_ = Builder();
  }

  void chain() {
    Value x = in("x", {4096, 4096});
    for (int i = 0; i < 10; i++) x = b_.map(fmt::format("tanh(a) * {}.5", i), {x});
    done("ten maps", 2, {x});
  }
  void norms() {
    const Value x = in("x", {4096, 1024}), s = in("s", {1024}), t = in("t", {1024});
    done("layer norm", 2, {op("LayerNormalization", {x, s, t})});
    const Value z = in("z", {4096, 1000});
    done("softmax", 2, {op("Softmax", {z})});
  }
  void sums() {
    const Value x = in("x", {1 << 24});
    done("l2 norm", 2, {b_.map("sqrt(a)", {b_.reduce("sum", b_.map("a * a", {x}), {0})})});
    const Value a = in("a", {1 << 22}), b = in("b", {1 << 22}), c = in("c", {1 << 22}),
                d = in("d", {1 << 22});
    const Value sum = b_.map("a + b", {a, b});
    done("distributive", 2,
         {b_.map("a + b", {b_.map("a * b", {sum, c}), b_.map("a * b", {sum, d})})});
    const Value p = in("p", {4096, 1}), q = in("q", {1, 4096}), w = in("w", {1, 4096});
    const Value far = b_.map("a * a", {b_.map("a - b", {p, q})});
    done("distances", 100, {b_.reduce("sum", b_.map("a * b", {far, w}), {1})});
  }
  void horizontal() {
    const Value x = in("x", {32, 64, 56, 56}), m = in("m", {64, 1, 1}), s = in("s", {64, 1, 1});
    done("norm and dropout", 1.3,
         {b_.map("(a - b) * c", {x, m, s}),
          b_.map("select((d0 * 7 + d1 * 5 + d2 * 3 + d3) % 10 < 3, 0, a / 0.7)", {x})});
  }
  void convolution() {
    const Value x = in("x", {1, 32, 112, 112}), w = in("w", {32, 32, 3, 3}),
                c = in("c", {32, 1, 1});
    OpCall conv{"Conv", {x, w}, {}};
    conv.attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
    done("convolution, bias, activation", 2,
         {b_.map("max(a, 0)", {b_.map("a + b", {buildOp(b_, conv)[0], c})})});
  }
  void attention() {
    const Value q = in("q", {8, 2048, 64}), k = in("k", {8, 2048, 64}), v = in("v", {8, 2048, 64});
    const Value s = b_.map("a * 0.125", {b_.contract("hqd,hkd->hqk", q, k)});
    done("attention", 10, {op("MatMul", {op("Softmax", {s}), v})});
  }
};

TEST(Traffic, IsNearTheLeastAndFarBelowUnfused) {
  for (const Case& c : Cases().run()) {
    CompileOptions fused, unfused;
    fused.code = false;
    fused.interpret = true;  // planned, not compiled
    fused.target = findTarget("gpu-class");
    unfused = fused;
    unfused.fusion.unfused = true;
    const Graph g = prepareGraph(c.graph, {}, {});
    const auto program = compile(g, fused), apart = compile(g, unfused);
    const Report r = makeReport(*program, apart.get());
    EXPECT_LE(static_cast<double>(r.bytes), 1.1 * static_cast<double>(r.bytesMinimum)) << c.name;
    EXPECT_GE(r.bytes, r.bytesMinimum) << c.name;
    EXPECT_GE(static_cast<double>(r.bytesUnfused), c.least * static_cast<double>(r.bytes))
        << c.name;
    EXPECT_LE(r.peakBytes, r.peakBytesUnfused) << c.name;
  }
}

/// Tiles are cut along groups and along the channels of a group, both of them along one axis of the result: all of it is written.
TEST(Traffic, ResultsOfTilesWithinTilesAreWrittenWhole) {
  const Graph g = parseGraph(R"(graph (x: f32[4x96x80x80], s: f32[96x1x1]) {
  %2 = view x (d0, d1, d2) -> (d0, d1 * 8 + d2 // 6400, d2 // 80 % 80, d2 % 80) : f32[4x12x51200]
  %3 = reduce sum %2 axes=[2] : f32[4x12x1]
  %4 = map (%2, %3) { $0 - $1 / 51200 } : f32[4x12x51200]
  %5 = map (%4) { $0 * $0 } : f32[4x12x51200]
  %6 = reduce sum %5 axes=[2] : f32[4x12x1]
  %7 = map (%4, %6) { $0 / sqrt($1 / 51200 + 0.00001) } : f32[4x12x51200]
  %8 = view %7 (d0, d1, d2, d3) -> (d0, d1 // 8, d1 % 8 * 6400 + d2 * 80 + d3) : f32[4x96x80x80]
  %9 = map (%8, s) { $0 * $1 * sigmoid($0 * $1) } : f32[4x96x80x80]
  return %9
})",
                             "groups");
  const PlanResult r = planGroup(g, findTarget("gpu-class"), {});
  ASSERT_TRUE(r.plan) << toText(r.refusal);
  int along = 0;  // tile axes
  for (const TileAxis& t : r.plan->lists[0].tiles) along += t.count() > 1;
  EXPECT_EQ(along, 3) << toText(*r.plan);
  EXPECT_EQ(r.plan->cost.bytesWritten, 4 * 4 * 96 * 80 * 80) << toText(*r.plan);
}

}  // namespace
}  // namespace tektite
