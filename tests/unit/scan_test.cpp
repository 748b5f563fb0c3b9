// Recurrences as kernels: what a scan's plan becomes, in the kernel interpreter and compiled, against the graph interpreter.
#include "fusion/scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "fusion/absorb.h"
#include "fuzz/fuzz.h"
#include "fuzz_seeds.h"
#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/scan.h"
#include "lowered_executor.h"
#include "ops/op.h"
#include "ops/util.h"
#include "passes/rebuild.h"
#include "runtime/compile.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite {
namespace {

struct Memory {
  std::vector<char> bytes;
  int64_t elements;
};
Memory memoryOf(const TensorType& type) {
  return {std::vector<char>(static_cast<size_t>(type.elements() * bytes(type.dtype)) + 8),
          type.elements()};
}
Memory memoryOf(const Tensor& t) {
  Memory m = memoryOf(t.type());
  t.toRaw(m.bytes.data());
  return m;
}
Memory packed(const PackedConstant& p, const GroupPlan& plan) {
  const PlanBuffer& source = plan.buffer(p.source);
  const Tensor from = Tensor::fromConst(*source.constant);
  Memory m = memoryOf(p.type);
  const std::vector<int64_t> positions = packedPositions(p, source.type);
  for (size_t i = 0; i < positions.size(); i++)
    storeFloat(p.type.dtype, m.bytes.data(), static_cast<int64_t>(i),
               positions[i] < 0 ? 0 : from.at(positions[i]));
  return m;
}

/// A graph that is one scan over its inputs, lowered for a target and run in the kernel interpreter, tiles in shuffled order. `verified`:
/// the rules hold before a run too, by proof; the interpreter checks each element either way.
std::vector<Tensor> runKernel(const Graph& g, const std::vector<Tensor>& inputs,
                              const std::string& target, bool verified = true) {
  const bool scheduled = target != "naive";
  const Target machine = findTarget(scheduled ? target : "cpu:avx2");
  const PlanResult r = planGroup(g, machine, {});
  if (!r.plan) throw std::runtime_error(toText(r.refusal));
  const LoweredScan s = lowerScan(*r.plan, machine, "k", scheduled);
  SCOPED_TRACE(toText(s.kernel.module));
  if (verified)
    for (const KernelFault& fault : faultsOf(s.kernel.module, {&machine}))
      ADD_FAILURE() << fault.what();
  std::map<std::string, Memory> memory;
  const std::vector<Value> ports = g.inputs();
  for (const PlanBuffer& b : s.plan.buffers) {
    const auto port = std::ranges::find(ports, b.value);
    if (b.kind == PlanBuffer::Input)
      memory[b.name] = memoryOf(inputs[static_cast<size_t>(port - ports.begin())]);
    else if (b.kind == PlanBuffer::Constant)
      memory[b.name] = memoryOf(Tensor::fromConst(b.constant ? *b.constant : g.node(b.value)));
    else if (b.kind == PlanBuffer::Output)
      memory[b.name] = memoryOf(b.type);
  }
  for (const PackedConstant& p : s.kernel.packed) memory[p.param] = packed(p, s.plan);
  std::map<std::string, EvalBuffer> buffers;
  for (size_t i = 0; i < s.kernel.arguments.size(); i++) {
    Memory& m = memory.at(s.kernel.arguments[i]);
    buffers[s.kernel.kernel().params[i].buffer.name] = {m.bytes.data(), m.elements};
  }
  KernelEvalOptions options;
  options.order = scheduled ? KernelEvalOptions::Shuffled : KernelEvalOptions::Forward;
  KernelEvaluator(s.kernel.module, s.kernel.kernel()).run(buffers, {}, options);
  std::vector<Tensor> out;
  for (const Value& v : g.outputs)
    for (const PlanBuffer& b : s.plan.buffers)
      if (b.kind == PlanBuffer::Output && b.value == v)
        out.push_back(
            Tensor::fromRaw(b.type.dtype, b.type.extents(), memory.at(b.name).bytes.data()));
  return out;
}

void agree(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); i++)
    EXPECT_LT(largestDifference(found[i], expected[i]), 1e-5) << "output " << i;
}

void inKernelInterpreter(const Graph& g, uint64_t seed) {
  const std::vector<Tensor> inputs = randomInputs(g, seed, false);
  const std::vector<Tensor> expected = evaluate(g, inputs);
  for (const char* target : {"naive", "cpu:x86-64", "cpu:avx2", "cpu:avx512", "test:sm_80"}) {
    SCOPED_TRACE(target);
    agree(runKernel(g, inputs, target), expected);
  }
}

/// Compiled and run by 1, 2 and 3 threads: the same bits. Answers the number of kernels.
size_t compiled(const Graph& g, uint64_t seed, double launchSeconds = 1e-7) {
  const std::vector<Tensor> inputs = randomInputs(g, seed, false);
  const std::vector<Tensor> expected = evaluate(g, inputs);
  std::vector<Memory> in, first;
  size_t kernels = 0;
  for (const Tensor& t : inputs) in.push_back(memoryOf(t));
  for (int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    CompileOptions options;
    options.target = hostTarget();
    options.target.cores = 3;
    options.target.launchSeconds = launchSeconds;
    options.target.gridSyncSeconds = launchSeconds / 2;
    options.threads = threads;
    const auto program = compile(prepareGraph(g, {}, {.disabled = {"unroll-scans"}}), options);
    Team team(threads);
    std::vector<const void*> from;
    std::vector<void*> to;
    std::vector<Memory> out;
    for (const Memory& m : in) from.push_back(m.bytes.data());
    for (const TensorType& t : program->outputs) out.push_back(memoryOf(t));
    for (Memory& m : out) to.push_back(m.bytes.data());
    Session(program, &team).run(from.data(), to.data());
    for (const KernelInfo& k : program->kernels) EXPECT_FALSE(k.interpreted) << k.name;
    if (threads == 1) {
      first = out;
      std::vector<Tensor> found;
      for (size_t i = 0; i < out.size(); i++)
        found.push_back(Tensor::fromRaw(program->outputs[i].dtype, program->outputs[i].extents(),
                                        out[i].bytes.data()));
      agree(found, expected);
    }
    for (size_t i = 0; i < out.size(); i++) EXPECT_EQ(out[i].bytes, first[i].bytes) << i;
    kernels = program->kernels.size();
  }
  return kernels;
}

Graph cell(int64_t steps, int64_t batch, int64_t hidden) {
  return bindDims(parseGraph(R"(
graph (dim T: 0..99, dim B: 1..64, dim H: 1..1024, x: f32[T x B x 2 x H], r: f32[H x 2 x H], h0: f32[B x H], c0: f32[B x H]) {
  %4.0, %4.1, %4.2, %4.3 = scan [h0, c0] [x] [r] reverse=[0, 0, 1] body (h: f32[B x H], c: f32[B x H], g: f32[B x 2 x H], r: f32[H x 2 x H]) {
    %4 = contract h, r bk,kqh->bqh : f32[B x 2 x H]
    %5 = map (%4, g) { $0 * 0.02 + $1 } : f32[B x 2 x H]
    %6 = view %5 (d0, d1) -> (d0, 0, d1) : f32[B x H]
    %7 = view %5 (d0, d1) -> (d0, 1, d1) : f32[B x H]
    %8 = map (c, %6) { tanh($0 * 0.5 + $1) } : f32[B x H]
    %9 = map (%8, %7) { $0 / (1 + exp(-$1)) } : f32[B x H]
    return %9, %8, %9, c
  } : f32[B x H], f32[B x H], f32[T x B x H], f32[T x B x H]
  return %4.0, %4.1, %4.2, %4.3
})",
                             "cell"),
                  {{"T", steps}, {"B", batch}, {"H", hidden}});
}
Graph runningSum(int64_t steps, int64_t width) {
  return bindDims(parseGraph(R"(
graph (dim T: 0..999, dim N: 1..9999, x: f32[T x N], s0: f32[N]) {
  %2.0, %2.1 = scan [s0] [x] [] reverse=[1, 1] body (s: f32[N], x: f32[N]) {
    %2 = map (s, x) { $0 + $1 } : f32[N]
    return %2, s
  } : f32[N], f32[T x N]
  return %2.0, %2.1
})",
                             "sum"),
                  {{"T", steps}, {"N", width}});
}

/// Layers on top of each other, products and a bias between them, something ahead and behind.
Graph layers(int64_t steps, int64_t hidden, bool back) {
  return bindDims(parseGraph(fmt::format(R"(
graph (dim T: 0..99, dim H: 1..1024, x: f32[T x 2 x H], w: f32[H x H], b: f32[1 x 1 x H], h0: f32[2 x H]) {{
  %4 = map (x) {{ tanh($0) }} : f32[T x 2 x H]
  %5.0, %5.1 = scan [h0] [%4] [w] reverse=[{0}, {0}] body (h: f32[2 x H], x: f32[2 x H], w: f32[H x H]) {{
    %3 = contract h, w bk,kh->bh : f32[2 x H]
    %4 = map (%3, x) {{ tanh($0 * 0.1 + $1) }} : f32[2 x H]
    return %4, %4
  }} : f32[2 x H], f32[T x 2 x H]
  %6 = contract %5.1, w tbk,hk->tbh : f32[T x 2 x H]
  %7 = map (%6, b) {{ $0 * 0.1 + $1 }} : f32[T x 2 x H]
  %8.0, %8.1 = scan [h0] [%7] [w] reverse=[{0}, {0}] body (h: f32[2 x H], x: f32[2 x H], w: f32[H x H]) {{
    %3 = contract h, w bk,hk->bh : f32[2 x H]
    %4 = map (%3, x) {{ tanh($0 * 0.1 - $1) }} : f32[2 x H]
    return %4, %4
  }} : f32[2 x H], f32[T x 2 x H]
  %9 = view %8.1 (d0, d1, d2) -> (d1, d0, d2) : f32[2 x T x H]
  %10 = reduce sum %9 axes=[2] : f32[2 x T x 1]
  %11 = map (%10) {{ abs($0) }} : f32[2 x T x 1]
  %12.0, %12.1 = scan [h0] [%8.1] [] reverse=[{0}, 0] body (h: f32[2 x H], x: f32[2 x H]) {{
    %2 = map (h, x) {{ $0 * 0.5 + $1 }} : f32[2 x H]
    return %2, %2
  }} : f32[2 x H], f32[T x 2 x H]
  %13 = concat %5.0, %8.0 axis=0 : f32[4 x H]
  return %11, %12.0, %13, %12.1
}})",
                                         back ? 1 : 0),
                             "layers"),
                  {{"T", steps}, {"H", hidden}});
}
/// Maps between scans go into the later one's body.
Graph joinedScans(Graph g) {
  for (size_t n = 0; n < g.nodes.size(); n++) {
    const Scan* scan = g.nodes[n].as<Scan>();
    if (!scan || !scan->scanned) continue;
    const int from = g.nodes[n].operands[static_cast<size_t>(scan->states)].node;
    if (!g.nodes[static_cast<size_t>(from)].as<Map>()) continue;
    if (const auto now = absorbed(g, static_cast<int>(n), {from})) g.nodes[n] = *now;
  }
  return rebuild(g, [](Graph& out, Node n) { return keep(out, std::move(n)); });
}
int numbered(const Graph& g, int scan) {
  for (int n = 0;; n++)
    if (g.nodes[static_cast<size_t>(n)].as<Scan>() && scan-- == 0) return n;
}

}  // namespace

TEST(Scan, AbsorbsWhatWorksStepByStep) {
  const Graph g = layers(3, 8, false);
  const int second = numbered(g, 1);
  const auto now = absorbed(g, second, {second - 2, second - 1});
  ASSERT_TRUE(now);
  Graph joined = g;
  joined.nodes[static_cast<size_t>(second)] = *now;
  const std::vector<Tensor> inputs = randomInputs(g, 5, false);
  agree(evaluate(joined, inputs), evaluate(g, inputs));
}

TEST(Scan, LayersRunAStepBehindEachOther) {
  for (bool back : {false, true})
    for (int steps : {2, 3, 6}) {
      const Graph g = layers(steps, 32, back);
      const Target cheap = findTarget("cpu:avx2");
      Target target = cheap;
      target.launchSeconds = 4e-6;
      target.gridSyncSeconds = 2e-6;
      const Fused one = fuse(g, target, {});
      int groups = 0;
      for (const Node& n : one.graph.nodes) groups += n.as<Group>() != nullptr;
      EXPECT_EQ(groups, 1);
      const std::vector<Tensor> inputs = randomInputs(g, 6, false);
      for (const Node& n : one.graph.nodes) {
        const Group* group = n.as<Group>();
        if (!group) continue;
        std::vector<Tensor> in;
        const std::vector<Value> ports = one.graph.inputs();
        for (const Value& v : n.operands)
          in.push_back(inputs[static_cast<size_t>(std::ranges::find(ports, v) - ports.begin())]);
        const std::vector<Tensor> expected = evaluate(*group->body, in);
        for (const char* name : {"naive", "cpu:avx2", "test:sm_80"})
          agree(runKernel(*group->body, in, name), expected);
      }
      EXPECT_EQ(compiled(g, 6, 4e-6), 1u);
      EXPECT_GT(compiled(g, 6), 1u);
    }
}

TEST(Scan, KernelsKeepTheRulesAndComputeWhatTheBodyMeans) {
  for (const auto& [steps, batch, hidden] :
       {std::tuple{0, 2, 5}, {1, 1, 8}, {2, 2, 11}, {3, 1, 40}, {4, 9, 16}})
    inKernelInterpreter(cell(steps, batch, hidden), 1);
  for (int steps : {0, 1, 4, 5}) inKernelInterpreter(runningSum(steps, 37), 2);
}

TEST(Scan, ThreadsDontChangeTheBits) {
  for (const auto& [steps, batch, hidden] :
       {std::tuple{0, 2, 5}, {1, 1, 8}, {5, 2, 11}, {6, 1, 200}})
    compiled(cell(steps, batch, hidden), 3);
  compiled(runningSum(7, 4000), 4);
}

TEST(Scan, IsOneLaunchAndItsSyncsCountApart) {
  const PlanResult r = planGroup(cell(10, 1, 16), findTarget("cpu:avx2"), {});
  ASSERT_TRUE(r.plan);
  EXPECT_EQ(r.plan->cost.launches, 1);
  EXPECT_GE(r.plan->cost.gridSyncs, 10);
}

/// Gates of one unit stand together, with weights of integers, too: a step's product and what follows are one part, shared by all cores.
TEST(Scan, StepsOfQuantisedGatesAreShared) {
  Target t = findTarget("cpu:avx512");
  t.cores = 2;
  const int64_t hidden = 768;
  Builder b;
  OpCall call;
  call.op = "DynamicQuantizeLSTM";
  const auto weights = [&](DType type, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (const int64_t e : shape) n *= e;
    std::vector<double> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<double>(i % 7 + 1);
    return constantOf(b, type, values, {shape.begin(), shape.end()});
  };
  call.in = {b.input("x", {DType::F32, {20, 1, 64}}),
             weights(DType::I8, {1, 64, 4 * hidden}),
             weights(DType::I8, {1, hidden, 4 * hidden}),
             {},
             {},
             {},
             {},
             {},
             weights(DType::F32, {1}),
             weights(DType::I8, {1}),
             weights(DType::F32, {1}),
             weights(DType::I8, {1})};
  call.attributes["hidden_size"] = hidden;
  b.graph.outputs = {buildOp(b, call, "com.microsoft").at(0)};
  int scans = 0;
  for (const Node& n : fuse(prepareGraph(b.graph, {}, {}), t, {}).graph.nodes)
    if (const Group* group = n.as<Group>(); group && group->plan->scan) {
      const std::vector<ScanPart>& each = group->plan->scan->each;
      ASSERT_EQ(each.size(), 1u);
      EXPECT_EQ(each[0].plan->lists[0].tiles.at(0).count(), t.cores);
      scans++;
    }
  EXPECT_EQ(scans, 1);
}

TEST(Scan, RunsInsideATileWhereStatesStayThere) {
  const PlanResult r = planGroup(runningSum(10, 64), findTarget("cpu:avx2"), {});
  ASSERT_TRUE(r.plan);
  EXPECT_TRUE(r.plan->scan->carried);
  EXPECT_LE(r.plan->cost.gridSyncs, 3);
  EXPECT_FALSE(planGroup(cell(10, 1, 16), findTarget("cpu:avx2"), {}).plan->scan->carried);
}

/// TEKTITE_FUZZ=N runs N seeds, TEKTITE_SEED=S only one.
TEST(Scan, RandomBodiesInTheKernelInterpreter) {
  const Seeds seeds = fuzzSeeds(12);
  int behind = 0;
  for (uint64_t s = seeds.first; s < seeds.last; s++) {
    RandomGraphOptions shape;
    shape.nodes = 2 + static_cast<int>(s % 7);
    shape.mostElements = 128;
    shape.updates = false;  // lanes may store an element twice
    const Graph g = joinedScans(randomScan(s, shape));
    verify(g);
    const PlanResult plan = planGroup(g, findTarget("cpu:avx2"), {});
    if (!plan.plan) continue;  // scans that go opposite ways
    behind += plan.plan->scan && plan.plan->scan->delay > 0;
    const std::vector<Tensor> inputs = randomInputs(g, s, false);
    const std::vector<Tensor> expected = evaluate(g, inputs);
    SCOPED_TRACE(fmt::format("seed {}\n{}", s, toText(g)));
    try {
      agree(runKernel(g, inputs,
                      s % 3 == 0   ? "cpu:avx2"
                      : s % 3 == 1 ? "naive"
                                   : "test:sm_80",
                      false),
            expected);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_TRUE(seeds.one || behind > 0) << "no scan reads another one's slices";
}

}  // namespace tektite
