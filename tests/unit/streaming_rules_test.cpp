// Every rule of streaming_rules.cpp: graphs that need it walk their axis and come out right; graphs that lack what it needs don't walk, and come
// out right, too. Right is what the graph interpreter says, which knows nothing of fusion.
#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <sstream>

#include "bits.h"
#include "fusion/fuse.h"
#include "fusion/plan_body.h"
#include "fusion/stages.h"
#include "fusion/streaming.h"
#include "fuzz/random_graph.h"
#include "ir/graph_eval.h"
#include "lowered_executor.h"
#include "tiny_target.h"

namespace tektite {
namespace {

/// The maximum of each row of x is %3.
const char* const kMaximum = "  %3 = reduce max x axes=[1] : f32[2x1]\n";
const char* const kExponentials =
    "  %3 = reduce max x axes=[1] : f32[2x1]\n"
    "  %4 = map (x, %3) { exp($0 - $1) } : f32[2x700]\n";
const char* const kShares =
    "  %3 = reduce max x axes=[1] : f32[2x1]\n"
    "  %4 = map (x, %3) { exp($0 - $1) } : f32[2x700]\n"
    "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n"
    "  %6 = map (%4, %5) { $0 / $1 } : f32[2x700]\n";
const char* const kMean =
    "  %3 = reduce sum x axes=[1] : f32[2x1]\n"
    "  %4 = map (%3) { $0 / 700 } : f32[2x1]\n";

/// Of a graph over x, y: f32[2x700], v: f32[700x4].
struct Case {
  Algebraic rule;
  bool applies;
  const char* before;
  const char* rest;
};
const Case kCases[] = {
    // reductions of all kinds are carried; a value along the axis that changes may be no result
    {Algebraic::Carry, true, kExponentials,
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5, %3\n"},
    {Algebraic::Carry, true, kExponentials,
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  %6 = reduce min y axes=[1] : f32[2x1]\n"
     "  %7 = map (%5, %6) { $0 + $1 } : f32[2x1]\n  return %7\n"},
    {Algebraic::Carry, false, kExponentials,
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5, %4\n"},
    {Algebraic::Carry, false, kExponentials,
     "  %5 = reduce max %4 axes=[1] : f32[2x1]\n  return %5\n"},
    // exp(c (x - m)): c > 0, and m the maximum of this x
    {Algebraic::Shift, true, kMaximum,
     "  %4 = map (x, %3) { exp(($0 - $1) * 0.25) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, true, kMaximum,
     "  %4 = map (x, %3) { exp($0 * 0.25 - $1 * 0.25) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, kMaximum,
     "  %4 = map (x, %3) { exp($1 - $0) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, kMaximum,
     "  %4 = map (x, %3) { exp(($0 - $1) * -0.25) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, kMaximum,
     "  %4 = map (x, %3) { exp($0 - $1 * 2) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, kMaximum,
     "  %4 = map (x, %3, y) { exp($0 - $1 + $2) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, kMaximum,
     "  %4 = map (y, %3) { exp($0 - $1) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, "  %3 = reduce min x axes=[1] : f32[2x1]\n",
     "  %4 = map (x, %3) { exp($0 - $1) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    {Algebraic::Shift, false, kMaximum,
     "  %4 = map (x, %3) { tanh($0 - $1) } : f32[2x700]\n"
     "  %5 = reduce sum %4 axes=[1] : f32[2x1]\n  return %5\n"},
    // products
    {Algebraic::Factor, true, kExponentials,
     "  %5 = contract %4, v rj,jd->rd : f32[2x4]\n  return %5\n"},
    {Algebraic::Factor, true, kExponentials,
     "  %5 = map (%4, y) { $0 * $0 * $1 } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    {Algebraic::Factor, false, kExponentials,
     "  %5 = map (%4, y) { $0 * $1 } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[0, 1] : f32[1x1]\n  return %6\n"},
    {Algebraic::Factor, false, kExponentials,
     "  %5 = map (%4, y) { $0 * $1 } : f32[2x700]\n"
     "  %6 = reduce product %5 axes=[1] : f32[2x1]\n  return %6\n"},
    // the same factor on both sides
    {Algebraic::SameFactor, true, kExponentials,
     "  %5 = map (%4, y) { select($1 < 0, $0, 0) + $0 * $1 } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    {Algebraic::SameFactor, false, kExponentials,
     "  %5 = map (%4, y) { $0 + $1 } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    {Algebraic::SameFactor, false, kExponentials,
     "  %5 = map (%4, y) { $0 - $0 * $0 * $1 } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    {Algebraic::SameFactor, false, kExponentials,
     "  %5 = map (%4) { select($0 < 0.5, $0, 0) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    {Algebraic::SameFactor, false, kExponentials,
     "  %5 = map (%4, y) { select($1 < 0, $0, 1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    // quotients
    {Algebraic::Quotient, true, kExponentials,
     "  %5 = map (%4, y) { $0 / ($1 + 3) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    {Algebraic::Quotient, false, kExponentials,
     "  %5 = map (%4, y) { $1 / ($0 + 1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6\n"},
    // Welford
    {Algebraic::Mean, true, kMean,
     "  %5 = map (x, %4) { ($0 - $1) * ($0 - $1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6, %4\n"},
    {Algebraic::Mean, false, kMean,
     "  %5 = map (y, %4) { ($0 - $1) * ($0 - $1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6, %4\n"},
    {Algebraic::Mean, false, kMean,
     "  %5 = map (x, %4) { ($0 - $1) * ($0 - $1) * ($0 - $1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6, %4\n"},
    {Algebraic::Mean, false,
     "  %3 = reduce sum x axes=[1] : f32[2x1]\n  %4 = map (%3) { $0 / 699 } : f32[2x1]\n",
     "  %5 = map (x, %4) { ($0 - $1) * ($0 - $1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[1] : f32[2x1]\n  return %6, %4\n"},
    {Algebraic::Mean, false, kMean,
     "  %5 = map (x, %4) { ($0 - $1) * ($0 - $1) } : f32[2x700]\n"
     "  %6 = reduce sum %5 axes=[0, 1] : f32[1x1]\n  return %6, %4\n"},
    // a factor leaves the sum
    {Algebraic::Defer, true, kShares, "  %7 = contract %6, v rj,jd->rd : f32[2x4]\n  return %7\n"},
    {Algebraic::Defer, false, kShares,
     "  %7 = contract %6, v rj,jd->rd : f32[2x4]\n  return %7, %6\n"},
    {Algebraic::Defer, false, kShares, "  %7 = contract %6, v rj,jd->d : f32[4]\n  return %7\n"},
    {Algebraic::Defer, false, kShares,
     "  %7 = map (%6, y) { $0 * $0 + $1 } : f32[2x700]\n"
     "  %8 = reduce sum %7 axes=[1] : f32[2x1]\n  return %8\n"},
};

/// x is a product, which no near memory of the tiny machine holds a row of.
/// `x`, where it stands alone, is the second node.
std::string named(const std::string& text) {
  const auto letter = [&](size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
  };
  std::string out;
  for (size_t i = 0; i < text.size(); i++)
    if (text[i] == 'x' && !letter(i - 1) && !letter(i + 1))
      out += "%2";
    else
      out += text[i];
  return out;
}

Graph graphOf(const Case& c) {
  const std::string text = named(std::string(c.before) + c.rest);
  std::string out =
      "graph (a: f32[2x4], b: f32[4x700], y: f32[2x700], v: f32[700x4]) {\n"
      "  %4 = contract a, b rd,dj->rj : f32[2x700]\n";
  for (size_t i = 0; i < text.size(); i++) {
    out += text[i];
    if (text[i] == '%') out += std::to_string(text[++i] - '0' + 2);  // two nodes more stand before
  }
  return parseGraph(out + "}\n", "case");
}
std::optional<Streamed> walkOf(const Graph& g) {
  StageMemory memory;
  StageSet set = formStages(g, std::get<Defs>(defsOf(g, accessesOf(g))), memory);
  return streamed(set, shapeOf(set));
}

TestTensor testTensor(const Tensor& t) {
  TestTensor out{t.type(), {}, {}};
  for (int64_t i = 0; i < t.elements(); i++) out.real.push_back(t.at(i));
  return out;
}
void expectEqual(const std::vector<TestTensor>& got, const std::vector<Tensor>& want,
                 double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t o = 0; o < want.size(); o++)
    for (int64_t i = 0; i < want[o].elements(); i++)
      ASSERT_NEAR(got[o].real[static_cast<size_t>(i)], want[o].at(i),
                  tolerance * (1 + std::abs(want[o].at(i))))
          << o << " " << i;
}

TEST(StreamingRules, ApplyWhereTheirPreconditionsHoldOnly) {
  for (const Case& c : kCases) {
    const Graph g = graphOf(c);
    SCOPED_TRACE(toText(g));
    const auto walk = walkOf(g);
    EXPECT_EQ(walk && walk->rules.count(c.rule), c.applies);
    const std::vector<Tensor> in = randomInputs(g, 9, false), want = evaluate(g, in);
    std::map<Value, TestTensor> leaves;
    for (size_t i = 0; i < in.size(); i++) leaves[g.inputs()[i]] = testTensor(in[i]);
    for (const Numerics mode : {Numerics::Strict, Numerics::Ordered, Numerics::Fast}) {
      FusionOptions options;
      options.numerics = mode;
      const PlanResult plan = planGroup(g, tinyTarget(), options);
      ASSERT_TRUE(plan.plan) << toText(plan.refusal);
      EXPECT_EQ(walks(*plan.plan), walk && allowed(walk->rules, mode)) << toText(*plan.plan);
      EXPECT_FALSE(mode == Numerics::Strict && walks(*plan.plan));
      expectEqual(runPlan(*plan.plan, g, leaves), want, 1e-6);
      expectEqual(runLowered(*plan.plan, g, leaves, "cpu:avx2"), want, 2e-5);
    }
  }
}

bool isWalk(const Node& n) {
  const Group* group = n.as<Group>();
  return group && walks(*group->plan);
}

/// All nodes of a case as one kernel of a machine whose near memory holds no row, compiled for this one: where a rule is used, bits don't depend
/// on threads or runs; in `strict` they are those of the nodes by themselves.
TEST(StreamingRules, BitsAreThoseThatTheModePromises) {
  for (const Case& c : kCases) {
    if (!c.applies) continue;
    Graph g = graphOf(c);
    for (size_t n = 0; n < g.nodes.size(); n++) g.nodes[n].origin = "%" + std::to_string(n);
    SCOPED_TRACE(toText(g));
    const std::vector<Tensor> in = randomInputs(g, 9, false);
    CompileOptions options = compileOptions(false, tinyTarget(hostTarget()));
    for (const Value& v : g.outputs)
      options.fusion.force.push_back({g.nodes[4].origin, g.node(v).origin});
    for (const Numerics mode : {Numerics::Strict, Numerics::Ordered, Numerics::Fast}) {
      options.fusion.numerics = mode;
      const Fused fused = fuse(g, options.target, options.fusion);
      EXPECT_EQ(std::ranges::any_of(fused.graph.nodes, isWalk), mode != Numerics::Strict);
      Results first;
      if (mode == Numerics::Strict) {
        CompileOptions apart = compileOptions(true, options.target);
        apart.fusion.numerics = mode;
        first = runOn(compile(g, apart), in);
      }
      for (const int threads : {1, 2, 3}) {
        Team team(threads);
        options.threads = threads;
        const auto program = compile(g, options);
        for (int run = 0; run < 2; run++) {
          Results now = runOn(program, in, &team);
          if (first.empty())
            first = std::move(now);
          else
            EXPECT_EQ(difference(first, now), "") << threads << " threads";
        }
      }
    }
  }
}

TEST(StreamingRules, AllHaveCasesOfBothKinds) {
  for (const StreamingRule& r : streamingRules())
    for (const bool applies : {true, false})
      EXPECT_TRUE(std::ranges::any_of(
          kCases, [&](const Case& c) { return c.rule == r.rule && c.applies == applies; }))
          << r.name << " " << applies;
}

std::string_view name(Numerics mode) {
  return mode == Numerics::Strict ? "strict" : mode == Numerics::Ordered ? "ordered" : "fast";
}

TEST(StreamingRules, AreWhatTheDocumentLists) {
  std::string rows;
  for (const StreamingRule& r : streamingRules())
    rows += fmt::format("| `{}` | {} | {} | {} |\n", r.name, name(r.mode), r.says, r.needs);
  std::ifstream file(TEKTITE_TESTS "/../docs/streaming.md");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find("| --- | --- | --- | --- |\n" + rows + "\n"), std::string::npos)
      << rows;
}

/// A sum that held values above 1 on the way would overflow there, and what overflowed is no number once it is corrected.
TEST(StreamingRules, NothingOverflowsOnTheWay) {
  const Graph g = parseGraph(
      "graph (x: f32[2x4000], y: f32[2x4000]) {\n  %2 = reduce max x axes=[1] : f32[2x1]\n"
      "  %3 = map (x, %2, y) { exp($0 - $1 + $2) } : f32[2x4000]\n"
      "  %4 = reduce sum %3 axes=[1] : f32[2x1]\n  return %4\n}\n",
      "case");
  std::vector<double> x(8000), y(8000, 0);
  for (int i = 0; i < 8000; i++)
    x[i] = i % 4000 < 2000 ? -1000 : 0, y[i] = i % 4000 < 2000 ? 900 : 0;
  const PlanResult r = planGroup(g, tinyTarget(), {});
  ASSERT_TRUE(r.plan);
  const TensorType type{DType::F32, {2, 4000}};
  const auto got = runLowered(
      *r.plan, g, {{g.inputs()[0], {type, x, {}}}, {g.inputs()[1], {type, y, {}}}}, "cpu:avx2");
  for (const double sum : got[0].real) EXPECT_NEAR(sum, 2000, 0.1);
}

}  // namespace
}  // namespace tektite
