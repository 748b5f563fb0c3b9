// How graphs become kernels, as texts: the nests of each kernel with the nodes that they compute, what is kept between them, and a verdict
// for every edge. Each graph is also compiled and run against the interpreter.
#include <algorithm>

#include "../evaluators.h"
#include "fusion/fuse.h"
#include "fuzz/fuzz.h"
#include "fuzz/random_graph.h"
#include "golden.h"

namespace tektite {
namespace {

Graph withOrigins(Graph g) {
  for (size_t n = 0; n < g.nodes.size(); n++)
    if (!g.nodes[n].as<Input>() && !g.nodes[n].as<Const>())
      g.nodes[n].origin = "%" + std::to_string(n);
  return g;
}

std::string kindOf(const Stage& s) {
  if (s.contraction) return "product";
  std::string out;
  for (const Accumulator& a : s.accumulators) out += (out.empty() ? "" : "+") + a.combine.name;
  if (out.empty()) out = "map";
  return s.inner.empty() || s.accumulators.empty() ? out : out + " storing";
}

std::string shapeOf(const Node& node, const GroupPlan& plan) {
  std::string out = "kernel " + node.origin + "\n";
  for (const TileList& list : plan.lists) {
    if (plan.lists.size() > 1) out += "  stacked\n";
    for (const Stage& s : list.stages) out += "  " + kindOf(s) + " " + s.comment + "\n";
  }
  const auto kept = std::ranges::count(plan.buffers, PlanBuffer::Scratch, &PlanBuffer::kind);
  if (kept) out += fmt::format("  keeps {} in near memory\n", kept);
  return out;
}

std::string afterFusion(const std::string& text, const GoldenSettings& settings) {
  const Graph g = withOrigins(parseGraph(text, "case"));
  const Fused f = fuse(g, findTarget(settings.at("target")), {});
  std::string out;
  for (const Node& n : f.graph.nodes)
    if (const Group* group = n.as<Group>()) out += shapeOf(n, *group->plan);
  for (const auto* list : {&f.ledger.edges, &f.ledger.pairs})
    for (const Edge& e : *list)
      out += fmt::format(
          "{} {} {}: {}{}\n", e.fromName, e.beside ? "beside" : "->", e.toName, name(e.verdict),
          e.verdict == Verdict::Unfused ? fmt::format(", {}", name(e.refusal.reason)) : "");
  return out;
}

/// Compiled for this machine, with gpu-class' plans or its own, against the interpreter.
void expectRuns(const std::string& text) {
  const Graph g = parseGraph(text, "case");
  const std::vector<Tensor> in = randomInputs(g, 3, false);
  std::vector<TensorAttribute> raw;
  for (const Tensor& t : in) raw.push_back({t.type(), t.toConst()});
  const std::vector<Tensor> want = evaluate(g, in);
  const auto got = runCompiled(g, raw, false);
  for (size_t i = 0; i < want.size(); i++)
    EXPECT_LE(
        largestDifference(
            Tensor::fromRaw(got[i].type.dtype, got[i].type.extents(), got[i].data->data), want[i]),
        2e-5)
        << i << "\n"
        << text;
}

TEST(Golden, Fusion) {
  for (const auto& file : goldenFiles("fusion"))
    checkGoldens(
        file, [](const std::string& text) { return toText(parseGraph(text, "case")); },
        [](const std::string& text, const GoldenSettings& settings) {
          expectRuns(text);
          return afterFusion(text, settings);
        });
}

}  // namespace
}  // namespace tektite
