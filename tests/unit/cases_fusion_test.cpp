// What goes wrong in fusion compilers, of what is fused: fusions that a view hides, plans that are slower than a part of them, work done again.
#include <algorithm>

#include "../evaluators.h"
#include "fusion/fuse.h"
#include "golden.h"
#include "ir/builder.h"
#include "ops/util.h"
#include "passes/pass.h"

namespace tektite {
namespace {

struct Plans {
  std::string text;  ///< of all kernels
  size_t kernels = 0;
  double seconds = 0;
  double mostRecompute = 0;  ///< a kernel's recompute over its budget
};
Plans plansOf(const Graph& g, const Target& target, const FusionOptions& options = {}) {
  Plans out;
  for (const Node& n : fuse(g, target, options).graph.nodes)
    if (const Group* group = n.as<Group>()) {
      const Cost& c = group->plan->cost;
      out.text += toText(*group->plan);
      out.kernels++;
      out.seconds += c.seconds;
      out.mostRecompute = std::max(out.mostRecompute, c.recompute / c.mostRecompute);
    }
  return out;
}

// ---- a view between two that fuse

using Insert = std::function<Value(Builder&, const Value&)>;
Value flatAndBack(Builder& b, const Value& v) {
  const std::vector<Expr> shape = b.type(v).shape;
  return b.reshape(b.reshape(v, {Expr(b.type(v).elements())}), shape);
}
Value turnedTwice(Builder& b, const Value& v) {
  const int rank = static_cast<int>(b.type(v).shape.size());
  std::vector<int> back(static_cast<size_t>(rank));
  for (int d = 0; d < rank; d++) back[static_cast<size_t>(d)] = rank - 1 - d;
  return b.transpose(b.transpose(v, back), back);
}
Value sliceOfAll(Builder& b, const Value& v) {
  std::vector<Expr> index = coordinates(static_cast<int>(b.type(v).shape.size()));
  return b.view(v, b.type(v).shape, index);
}

/// The graph with a view on the way of its `edge`th operand that is no constant; nothing where there are less.
std::optional<Graph> withView(const Graph& g, int edge, const Insert& insert) {
  Builder b;
  b.graph.dims = g.dims;
  std::map<Value, Value> to;
  int seen = 0;
  for (int n = 0; n < static_cast<int>(g.nodes.size()); n++) {
    Node now = g.nodes[n];
    for (Value& v : now.operands) {
      const bool here = !g.node(v).as<Const>() && !now.as<Update>() && seen++ == edge;
      v = here ? insert(b, to.at(v)) : to.at(v);
    }
    const int at = static_cast<int>(b.graph.nodes.size());
    for (int r = 0; r < static_cast<int>(now.results.size()); r++) to[{n, r}] = {at, r};
    b.graph.nodes.push_back(std::move(now));
  }
  for (const Value& v : g.outputs) b.graph.outputs.push_back(to.at(v));
  return seen > edge ? std::optional(b.graph) : std::nullopt;
}

TEST(CasesOfFusion, AViewThatChangesNothingChangesNoPlan) {
  const Target target = findTarget("gpu-class");
  int tried = 0;
  for (const char* name : {"elementwise", "reductions", "products", "attention", "stencils"})
    for (const std::string& text :
         goldenTexts(TEKTITE_TESTS "/fusion/" + std::string(name) + ".tk")) {
      const Graph g = runPasses(parseGraph(text, "case"), {});
      const Plans plain = plansOf(g, target);
      for (const Insert& insert : {Insert(flatAndBack), Insert(turnedTwice), Insert(sliceOfAll)})
        for (int edge = 0;; edge += 2) {
          const auto changed = withView(g, edge, insert);
          if (!changed) break;
          EXPECT_EQ(plansOf(runPasses(*changed, {}), target).text, plain.text) << edge << "\n"
                                                                               << text;
          tried++;
        }
    }
  EXPECT_GT(tried, 200);
}

// ---- partial plans

/// A pool read twice: neither computing it twice nor storing it is to be slower than any of the plans between.
TEST(CasesOfFusion, APoolReadTwiceIsNoSlowerThanAnyPartialPlan) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {1, 64, 56, 56}}),
              y = b.input("b", {DType::F32, {1, 64, 56, 56}});
  OpCall pool{"MaxPool", {x}};
  pool.attributes["kernel_shape"] = std::vector<int64_t>{3, 3};
  pool.attributes["pads"] = std::vector<int64_t>{1, 1, 1, 1};
  b.origin = "pool";
  const Value p = buildOp(b, pool)[0];
  b.origin = "product";
  const Value m = b.map("a * b", {p, y});
  b.origin = "sum";
  b.graph.outputs = {b.map("a + b", {p, m})};
  const Graph g = runPasses(b.graph, {});
  const std::vector<std::pair<std::string, std::string>> edges = {
      {"pool", "product"}, {"product", "sum"}, {"pool", "sum"}};
  for (const char* name : {"cpu:avx2", "cpu:avx512", "gpu-class"}) {
    const Target target = findTarget(name);
    const Plans whole = plansOf(g, target);
    EXPECT_LE(whole.mostRecompute, 1) << name;
    for (size_t some = 1; some < 8; some++) {
      FusionOptions options;
      for (size_t e = 0; e < edges.size(); e++)
        if (some >> e & 1) options.cut.push_back(edges[e]);
      EXPECT_LE(whole.seconds, plansOf(g, target, options).seconds * (1 + 1e-9)) << name << some;
    }
    FusionOptions unfused;
    unfused.unfused = true;
    EXPECT_LE(whole.seconds, plansOf(g, target, unfused).seconds) << name;
  }
}

// ---- work done again

/// A mask of random numbers and a function of many steps, each read by sums over different axes and by maps of other shapes.
TEST(CasesOfFusion, WhatIsExpensiveIsNotComputedForEachReader) {
  for (const char* name : {"cpu:avx2", "cpu:avx512", "gpu-class"}) {
    Builder b;
    const Value x = b.input("x", {DType::F32, {512, 768}});
    Value mask = b.map("a + f32(xor(u32(d0 * 768 + d1) * 2654435761, u32(d1))) * 2.3e-10", {x});
    for (int i = 0; i < 6; i++) mask = b.map("exp(tanh(a)) * 0.3", {mask});
    for (const std::vector<int>& axes : {std::vector{0}, std::vector{1}, std::vector{0, 1}})
      for (const char* combine : {"sum", "max"})
        b.graph.outputs.push_back(b.reduce(combine, mask, axes));
    b.graph.outputs.push_back(b.map("a * 2", {b.transpose(mask, {1, 0})}));
    b.graph.outputs.push_back(b.map("a + 1", {mask}));
    const Graph g = runPasses(b.graph, {});
    const Target target = findTarget(name);
    double flops = 0, least = 0;
    for (const bool unfused : {false, true}) {
      FusionOptions options;
      options.unfused = unfused;
      for (const Node& n : fuse(g, target, options).graph.nodes)
        if (const Group* group = n.as<Group>())
          (unfused ? least : flops) += group->plan->cost.slots;
    }
    EXPECT_LE(flops, 1.35 * least) << name;
    EXPECT_LE(plansOf(g, target).mostRecompute, 1) << name;
  }
}

// ---- a norm in training form and a dropout of one value

TEST(CasesOfFusion, TrainingNormAndDropoutReadTheirInputOnce) {
  const int64_t n = 8, c = 112, hw = 24;
  Builder b;
  const Value x = b.input("x", {DType::F32, {n, c, hw, hw}}),
              g = b.input("g", {DType::F32, {c, 1, 1}});
  const auto mean = [&](const Value& v) {
    return b.map(fmt::format("a / {}", n * hw * hw), {b.reduce("sum", v, {0, 2, 3})});
  };
  const Value m = mean(x), d = b.map("a - b", {x, m}), v = mean(b.map("a * a", {d}));
  const Value norm = b.map("a / sqrt(b + 0.00001) * c", {d, v, b.broadcast(g, {n, c, hw, hw})});
  const Value flat = b.reshape(x, {n, c * hw * hw});
  const Value dropped =
      b.map("select(xor(u32(d0 * 64512 + d1) * 2654435761, 77) % 10 < 3, 0, a / 0.7)", {flat});
  b.graph.outputs = {norm, dropped, m, v};
  const Graph graph = runPasses(b.graph, {});
  for (const char* name : {"cpu:avx2", "cpu:avx512", "gpu-class"}) {
    int64_t read = 0, written = 0, kernels = 0;
    for (const Node& node : fuse(graph, findTarget(name), {}).graph.nodes)
      if (const Group* group = node.as<Group>()) {
        kernels++;
        read += group->plan->cost.bytesRead;
        written += group->plan->cost.bytesWritten;
      }
    EXPECT_EQ(kernels, 1) << name;
    EXPECT_EQ(read, 4 * (n * c * hw * hw + c)) << name;
    EXPECT_EQ(written, 4 * (2 * n * c * hw * hw + 2 * c)) << name;
  }
}

// ---- one row by the sum of itself: a reduction across tiles may be cheapest, what is behind it reads all that they read

TEST(CasesOfFusion, WhatIsBehindAReductionAcrossTilesIsDoneWhole) {
  for (const int64_t n : {4097, 5000, 6625, 20000})
    for (const int cores : {2, 4}) {
      Builder b;
      const Value x = b.input("x", {DType::F32, {1, 1, n}});
      b.graph.outputs = {b.map("a / b", {x, b.reduce("sum", x, {2})})};
      std::vector<double> values;
      double sum = 0;
      for (int64_t i = 0; i < n; i++) sum += values.emplace_back(1 + static_cast<double>(i % 7));
      Target target = hostTarget();
      target.cores = cores;
      const auto out = runCompiled(b.graph, {tensor(DType::F32, {1, 1, n}, values)}, false, target);
      const auto* y = static_cast<const float*>(out.at(0).data->data);
      for (int64_t i = 0; i < n; i++)
        ASSERT_NEAR(y[i] * sum, values[static_cast<size_t>(i)], 1e-4)
            << n << " " << cores << " " << i;
    }
}

// ---- softmax over the outer axis, written out

Graph softmaxOverRows(int64_t columns) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {1024, columns}});
  const auto named = [&](const char* name, const char* text, std::vector<Value> operands) {
    b.origin = name;
    return b.map(text, std::move(operands));
  };
  b.origin = "max";
  const Value m = b.reduce("max", x, {0});
  const Value e = named("exp", "exp(a)", {named("sub", "a - b", {x, m})});
  b.origin = "sum";
  const Value s = b.reduce("sum", e, {0});
  b.graph.outputs = {named("div", "a / b", {e, s})};
  return b.graph;
}

TEST(CasesOfFusion, SoftmaxOverTheOuterAxisIsOneKernelOrSaysWhyNot) {
  const Graph g = softmaxOverRows(257);
  for (const int cores : {1, 2}) {
    Target target = findTarget("cpu:avx512");
    target.cores = cores;
    EXPECT_EQ(plansOf(g, target).kernels, 1u) << cores;
  }
  EXPECT_EQ(plansOf(g, findTarget("gpu-class")).kernels, 1u);
  // With cores to spare, columns don't feed them: the quotient is better off with rows of its own.
  const Target many = findTarget("cpu:avx512");
  const Fused f = fuse(g, many, {});
  const Refusal why = f.ledger.between("sum", "div").at(0).refusal;
  EXPECT_EQ(why.reason, Reason::NoGain);
  FusionOptions one;
  one.force = {{"max", "div"}};
  EXPECT_NEAR(why.available, plansOf(g, many, one).seconds, 1e-9);
  EXPECT_NEAR(why.needed, plansOf(g, many).seconds, 1e-9);
  EXPECT_LT(why.needed, why.available);
}

/// 257 columns are 33 vectors, 5 for each of 7 cores; 256 are 4 for each of 8, 512 are 8. Whatever is chosen is no later than one kernel.
TEST(CasesOfFusion, ColumnsThatLeaveACoreIdleAreToldApart) {
  Target eight = findTarget("cpu:avx2");
  eight.cores = 8;
  const Fused f = fuse(softmaxOverRows(257), eight, {});
  const Refusal why = f.ledger.between("sum", "div").at(0).refusal;
  EXPECT_EQ(why.reason, Reason::Parallelism);
  EXPECT_EQ(why.available, 8);
  EXPECT_EQ(why.needed, 7);
  FusionOptions one;
  one.force = {{"max", "div"}};
  for (const int64_t columns : {256, 257, 512}) {
    const Graph g = softmaxOverRows(columns);
    EXPECT_LE(plansOf(g, eight).seconds, plansOf(g, eight, one).seconds) << columns;
  }
}

}  // namespace
}  // namespace tektite
