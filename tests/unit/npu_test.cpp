#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "backends/npu/simulate.h"
#include "counted_kernels.h"
#include "fusion/fuse.h"
#include "fusion/product_tile.h"
#include "ir/graph_eval.h"
#include "ir/kernel_eval.h"
#include "ir/kernel_verify.h"
#include "lower/dma.h"
#include "npu_graphs.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

/// A graph fused for a machine, lowered, held to its rules, counted, and run on random values.
struct Outcome {
  Simulated counted;
  int64_t plannedRead = 0, plannedWritten = 0;
  double worst = 0;                    ///< of the largest value of each output
  double planned = 0;                  ///< seconds
  std::set<std::string> instructions;  ///< declared
};

Tensor randomTensor(const TensorType& type, std::mt19937& engine) {
  Tensor t = Tensor::zeros(type.dtype, type.extents());
  std::uniform_real_distribution<double> real(-1, 1);
  for (int64_t i = 0; i < t.elements(); i++)
    if (isFloat(t.dtype))
      t.reals()[i] = real(engine);
    else
      t.integers()[i] = static_cast<int64_t>(engine() % 7);
  std::vector<char> raw(static_cast<size_t>(t.elements() * bytes(t.dtype)) + 8);
  t.toRaw(raw.data());
  return Tensor::fromRaw(t.dtype, t.shape, raw.data());
}

/// Row-major elements in the order of the buffer's memory, or back.
std::vector<char> laidOut(const std::vector<char>& from, const PlanBuffer& b, bool back) {
  std::vector<char> out(from.size());
  const auto shape = b.type.extents(), strides = memoryStrides(b);
  const size_t size = static_cast<size_t>(bytes(b.type.dtype));
  for (int64_t i = 0; i < b.type.elements(); i++) {
    int64_t rest = i, place = 0;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) place += rest % shape[d] * strides[d];
    const auto row = static_cast<size_t>(i) * size, at = static_cast<size_t>(place) * size;
    std::memcpy(&out[back ? row : at], &from[back ? at : row], size);
  }
  return out;
}

class Trial {
 public:
  Trial(const std::string& text, const Target& target) : target_(target) {
    Graph g = parseGraph(text, "test");
    verify(g);
    std::map<std::string, std::shared_ptr<const ConstData>> data;
    for (const Node& n : g.nodes)
      if (const Const* c = n.as<Const>(); c && c->data && !c->data->data)
        data[n.name] = randomTensor(n.results[0], engine_).toConst();
    graph_ = withData(g, data);
  }

  Outcome operator()(bool unfused = false) {
    FusionOptions options;
    options.unfused = unfused;
    const Fused fused = fuse(graph_, target_, options);
    std::vector<Tensor> inputs;
    for (size_t n = 0; n < fused.graph.nodes.size(); n++) {
      const Node& node = fused.graph.nodes[n];
      if (node.as<Input>()) {
        inputs.push_back(randomTensor(node.results[0], engine_));
        values_[{static_cast<int>(n), 0}] = inputs.back();
      } else if (node.as<Const>()) {
        values_[{static_cast<int>(n), 0}] = Tensor::fromConst(node);
      } else {
        kernel(static_cast<int>(n), node);
      }
    }
    const auto wanted = evaluate(graph_, inputs);
    for (size_t i = 0; i < wanted.size(); i++)
      compare(values_.at(fused.graph.outputs[i]), wanted[i]);
    return std::move(out_);
  }

 private:
  Target target_;
  std::mt19937 engine_{7};
  Graph graph_;
  std::map<Value, Tensor> values_;
  Outcome out_;

  void compare(const Tensor& is, const Tensor& wanted) {
    double largest = 1e-30, worst = 0;
    for (int64_t i = 0; i < wanted.elements(); i++) {
      largest = std::max(largest, std::abs(wanted.at(i)));
      const double off = std::abs(is.at(i) - wanted.at(i));
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
    out_.worst = std::max(out_.worst, worst / largest);
  }
  void kernel(int number, const Node& node) {
    const Group& group = *node.as<Group>();
    const LoweredKernel k = lowerExplicit(*group.plan, target_, "k");
    KernelVerifyOptions options;
    options.target = &target_;
    ASSERT_NO_THROW(verifyKernels(k.module, options)) << toText(*group.plan) << toText(k.module);
    const std::string printed = toText(parseKernels(toText(k.module), "printed"));
    EXPECT_EQ(toText(parseKernels(printed, "printed again")), printed);
    out_.counted.add(countKernel(k.module, k.kernel(), target_, {}));
    for (const IntrinDef& i : k.module.intrins) out_.instructions.insert(i.name);
    out_.planned += group.plan->cost.seconds;
    out_.plannedRead += group.plan->cost.bytesRead;
    out_.plannedWritten += group.plan->cost.bytesWritten;
    std::map<std::string, std::vector<char>> memory;
    std::map<std::string, EvalBuffer> buffers;
    const std::vector<Value> inputs = group.body->inputs();
    for (size_t i = 0; i < k.arguments.size(); i++) {
      const PlanBuffer& b = group.plan->buffer(k.arguments[i]);
      const std::string& name = k.kernel().params[i].buffer.name;
      std::vector<char> raw(static_cast<size_t>(b.type.elements() * bytes(b.type.dtype)) + 8);
      if (b.kind == PlanBuffer::Input)
        values_.at(node.operands[std::ranges::find(inputs, b.value) - inputs.begin()])
            .toRaw(raw.data());
      if (b.kind == PlanBuffer::Constant)
        Tensor::fromConst(group.body->node(b.value)).toRaw(raw.data());
      memory[name] = laidOut(raw, b, false);
      buffers[name] = {memory[name].data(), b.type.elements()};
    }
    KernelEvalOptions how;
    how.order = KernelEvalOptions::Shuffled;
    ASSERT_NO_THROW(KernelEvaluator(k.module, k.kernel()).run(buffers, {}, how))
        << toText(k.module);
    for (size_t i = 0; i < k.arguments.size(); i++) {
      const PlanBuffer& b = group.plan->buffer(k.arguments[i]);
      if (b.kind != PlanBuffer::Output) continue;
      const auto& outputs = group.body->outputs;
      const int result = static_cast<int>(std::ranges::find(outputs, b.value) - outputs.begin());
      const auto raw = laidOut(memory.at(k.kernel().params[i].buffer.name), b, true);
      values_[{number, result}] = Tensor::fromRaw(b.type.dtype, b.type.extents(), raw.data());
    }
  }
};

const char* const kMachines[] = {"npu:ascend910b", "npu:ethos-u65-512", "npu:ethos-u85-1024",
                                 "npu:gemmini", "npu:neuroncore2"};

Target machine(const std::string& name, int64_t scratch = 0) {
  Target t = findTarget(name);
  for (Level& l : t.levels)
    if (scratch && l.name == t.scratch) l.bytes = scratch;
  return t;
}

class Npu : public testing::TestWithParam<const char*> {};
TEST_P(Npu, GraphsKeepTheirValues) {
  for (const char* text : {kChain, kSoftmax, kProduct, kAttention, kConvolutions, kQuantised,
                           kDepthwise, kKept, kParts, kRows})
    for (const int64_t scratch : {0, 32768, 4096})
      for (const bool unfused : {false, true}) {
        const Outcome o = Trial(text, machine(GetParam(), scratch))(unfused);
        EXPECT_LT(o.worst, 2e-6) << text << scratch;
      }
}
TEST_P(Npu, ReductionsToFewValuesKeepThem) {
  for (const char* text : {kNorm, kExtrema, kFirstMaximum, kColumns})
    for (const int64_t scratch : {0, 32768}) {
      const Outcome o = Trial(text, machine(GetParam(), scratch))();
      EXPECT_LT(o.worst, 1e-4) << text << scratch;  // of a value near the sum of the magnitudes
      EXPECT_EQ(o.counted.launches, 1) << text;
    }
}
INSTANTIATE_TEST_SUITE_P(Machines, Npu, testing::ValuesIn(kMachines));

TEST(NpuCount, ChainsMoveTheirOperandsAndResultsOnce) {
  for (const char* name : kMachines) {
    const Outcome o = Trial(kChain, machine(name, 16384))();
    EXPECT_EQ(o.counted.launches, 1) << name;
    EXPECT_EQ(o.counted.bytesRead, 4 * (64 * 300 + 300)) << name;
    EXPECT_EQ(o.counted.bytesWritten, 4 * 64 * 300) << name;
    EXPECT_LE(o.counted.scratchPeak, 16384) << name;
  }
}

TEST(NpuCount, FewerLaunchesAndBytesThanUnfused) {
  for (const char* text : {kChain, kSoftmax, kProduct}) {
    const Target t = machine("npu:neuroncore2");
    const Outcome fused = Trial(text, t)(), apart = Trial(text, t)(true);
    EXPECT_LE(fused.counted.launches, apart.counted.launches) << text;
    EXPECT_LE(fused.counted.bytesRead, apart.counted.bytesRead) << text;
  }
}

/// Sums of a unit that has an output of its own leave by it while others are summed up, and channels share an instruction.
TEST(NpuCount, TheUnitsOwnInstructionsAreUsed) {
  for (const char* name : {"npu:ethos-u85-1024", "npu:ethos-u65-512"}) {
    const Outcome o = Trial(kDepthwise, machine(name))();
    EXPECT_EQ(o.instructions, (std::set<std::string>{"mac.dwmad_u8_i8", "mac.mmad_u8_i8",
                                                     "out.scale0", "out.scale1"}))
        << name;
    const Outcome deep = Trial(kDeep, machine(name))();
    const auto& busy = deep.counted.busy;
    double sum = 0;
    for (const char* engine : {"feed", "mac", "out"}) sum += busy.at(engine);
    EXPECT_LT(deep.counted.cycles, 0.95 * (sum + busy.at("load"))) << name;
    EXPECT_EQ(busy.count("vector"), 0U) << name;
  }
}

/// What the next tile wants is on its way while this one is worked on, and what the last one made.
TEST(NpuCount, EnginesRunAtTheSameTime) {
  for (const char* name : kMachines) {
    const Target target = machine(name);
    std::vector<TraceEvent> trace;
    const Graph g = parseGraph(R"(
graph (x: f32[4096x1024]) {
  %1 = map (x) { exp($0) * tanh($0) } : f32[4096x1024]
  return %1
})",
                               "test");
    const Fused fused = fuse(g, target, {});
    for (const Node& n : fused.graph.nodes)
      if (const Group* group = n.as<Group>()) {
        const LoweredKernel k = lowerExplicit(*group->plan, target, "k");
        countKernel(k.module, k.kernel(), target, {}, &trace);
      }
    for (const MemoryPath* path :
         {target.path("main", target.scratch), target.path(target.scratch, "main")}) {
      double together = 0, moves = 0;
      for (const TraceEvent& a : trace) {
        if (a.engine != path->engine) continue;
        moves += a.seconds;
        for (const TraceEvent& b : trace)
          if (b.engine == "vector")
            together += std::max(0.0, std::min(a.start + a.seconds, b.start + b.seconds) -
                                          std::max(a.start, b.start));
      }
      EXPECT_GT(together, 0.5 * moves) << name << " " << path->engine;
    }
  }
}

TEST(NpuCount, WhatIsPlannedIsWhatIsMoved) {
  for (const char* text :
       {kChain, kSoftmax, kProduct, kAttention, kConvolutions, kDepthwise, kParts, kRows})
    for (const int64_t scratch : {0, 32768, 8192}) {
      const Outcome o = Trial(text, machine("npu:neuroncore2", scratch))();
      EXPECT_EQ(o.counted.bytesRead, o.plannedRead) << text << scratch;
      EXPECT_EQ(o.counted.bytesWritten, o.plannedWritten) << text << scratch;
    }
}

/// The plan's seconds are near the simulator's, however it is cut, so that what is chosen by the one is better by the other.
TEST(NpuCount, PlannedSecondsAreSimulatedSeconds) {
  for (const char* name : kMachines)
    for (const char* text : {kChain, kSoftmax, kProduct, kAttention, kConvolutions, kQuantised,
                             kDepthwise, kHalves, kParts, kRows})
      for (const bool unfused : {false, true}) {
        const Target t = machine(name);
        const Outcome o = Trial(text, t)(unfused);
        const double ratio = o.counted.cycles / t.hertz / o.planned;
        EXPECT_GT(ratio, 0.6) << name << text << unfused;
        EXPECT_LT(ratio, 1.6) << name << text << unfused;
      }
}

/// A reduction to few values is shared by all cores: their parts pass through main memory.
TEST(NpuCount, ReductionsToFewValuesAreSpreadOverCores) {
  const Target all = machine("npu:ascend910b");
  Target one = all;
  one.cores = 1;
  for (const char* text : {kNorm, kExtrema, kFirstMaximum, kColumns}) {
    const Outcome spread = Trial(text, all)(), alone = Trial(text, one)();
    const double launch = all.launchSeconds * all.hertz;
    EXPECT_LT((spread.counted.cycles - launch) * 2, alone.counted.cycles - launch) << text;
    EXPECT_EQ(spread.counted.bytesRead, spread.plannedRead) << text;
    EXPECT_EQ(spread.counted.bytesWritten, spread.plannedWritten) << text;
    EXPECT_LT(spread.counted.bytesRead, 1.02 * static_cast<double>(alone.counted.bytesRead))
        << text;
    const double ratio = spread.counted.cycles / all.hertz / spread.planned;
    EXPECT_GT(ratio, 0.6) << text;
    EXPECT_LT(ratio, 1.6) << text;
  }
}

/// What a scratchpad doesn't hold goes through it piece by piece, and isn't fetched element by element.
TEST(NpuCount, LongReductionsAreBroughtInPieces) {
  for (const char* name : kMachines) {
    const Target t = machine(name, 131072);
    const MemoryPath& path = *t.path("main", t.scratch);
    for (const char* text : {kNorm, kColumns}) {
      const Outcome o = Trial(text, t)();
      const double bytes = static_cast<double>(o.counted.bytesRead);
      EXPECT_LT(o.counted.busy.at(path.engine) / t.hertz, 4 * bytes / path.bytesPerSecond)
          << name << text;
    }
  }
}

/// Parts of one result are brought into its place in the scratchpad, and go from there at once, by engines.
TEST(NpuCount, PartsOfAResultAreMovedByEngines) {
  for (const char* name : {"npu:ethos-u65-512", "npu:gemmini"}) {
    const Target t = machine(name);
    const Outcome o = Trial(kParts, t)();
    for (const bool written : {false, true}) {
      const MemoryPath& path = written ? *t.path(t.scratch, "main") : *t.path("main", t.scratch);
      const auto bytes =
          static_cast<double>(written ? o.counted.bytesWritten : o.counted.bytesRead);
      EXPECT_LT(o.counted.busy.at(path.engine) / t.hertz, 2 * bytes / path.bytesPerSecond)
          << name;  // eight times as long, element by element
    }
  }
}

/// What is small and would come in many parts comes once: a copy has its start.
TEST(NpuCount, SmallOperandsAreBroughtOnce) {
  const Target t = machine("npu:ethos-u85-1024");
  const Graph g = parseGraph(R"(
graph (x: f32[1x1024], b: f32[1x4096]) {
  %1 = const data "w" : f32[1024x4096]
  %2 = contract x, %1 mk,kn->mn : f32[1x4096]
  %3 = map (%2, b) { max($0 + $1, 0) } : f32[1x4096]
  return %3
})",
                             "test");
  int64_t parts = 0, wholes = 0;
  for (const Node& n : fuse(g, t, {}).graph.nodes) {
    const Group* group = n.as<Group>();
    if (!group) continue;
    for (const PlanBuffer& b : group->plan->buffers) {
      if (b.copyOf.empty()) continue;
      const PlanBuffer::Kind kind = group->plan->buffer(b.copyOf).kind;
      if (kind == PlanBuffer::Input) (b.depth == 0 ? wholes : parts)++;
      if (kind == PlanBuffer::Constant) {
        EXPECT_GT(b.depth, 0) << toText(*group->plan);  // 16 MB
      }
    }
  }
  EXPECT_EQ(wholes, 2);
  EXPECT_EQ(parts, 0);
}

/// A chain of small products is one core's work: all cores alike would bring all weights each.
TEST(NpuCount, CoresDontRepeatEachOther) {
  std::string text =
      "graph (x: f32[1x64]) {\n  %1 = const data \"w1\" : f32[64x64]\n"
      "  %2 = contract x, %1 mk,kn->mn : f32[1x64]\n";
  for (int i = 3; i < 61; i += 2)
    text += fmt::format(
        "  %{} = const data \"w{}\" : f32[64x64]\n  %{} = contract %{}, %{} mk,kn->mn : "
        "f32[1x64]\n",
        i, i, i + 1, i - 1, i);
  const Outcome o = Trial(text + "  return %60\n}", machine("npu:ascend910b"))();
  EXPECT_EQ(o.counted.launches, 1);
  EXPECT_LT(o.counted.bytesRead, 1.1 * 4 * (30 * 64 * 64 + 64));
}

/// Layers of a dilated convolution, a gate, and what it adds to the next layer's input and to the result.
std::string gatedLayers(int layers) {
  std::string text = "graph (x: f32[1x1x1024]) {\n", sum, skips;
  int n = 0;
  const auto add = [&](const std::string& what, const char* shape) {
    text += fmt::format("  %{} = {} : f32[{}]\n", ++n, what, shape);
    return fmt::format("%{}", n);
  };
  const auto product = [&](const std::string& x, const char* labels, const char* weights,
                           const char* shape) {
    const std::string w = add(fmt::format("const data \"w{}\"", n), weights);
    return add(fmt::format("contract {}, {} {}->nop", x, w, labels), shape);
  };
  const char *const narrow = "1x32x1024", *const wide = "1x64x1024";
  sum = product("x", "ncp,oc", "32x1", narrow);
  for (int layer = 0; layer < layers; layer++) {
    const std::string windows =
        add(fmt::format("view {} (d0, d1, d2, d3) -> (0, d1, d2 + d3 * {} - {}) fill=0", sum,
                        1 << layer % 6, 1 << layer % 6),
            "1x32x1024x2");
    const std::string both = product(windows, "ncpi,oci", "64x32x2", wide),
                      a = add("view " + both + " (d0, d1, d2) -> (0, d1, d2)", narrow),
                      b = add("view " + both + " (d0, d1, d2) -> (0, d1 + 32, d2)", narrow),
                      gate = add(fmt::format("map ({}, {}) {{ tanh($0) * sigmoid($1) }}", a, b),
                                 narrow),
                      skip = product(gate, "ncp,oc", "64x32", wide);
    if (layer + 1 < layers) {
      const std::string more = product(gate, "ncp,oc", "32x32", narrow);
      sum = add(fmt::format("map ({}, {}) {{ $0 + $1 }}", more, sum), narrow);
    }
    skips = layer ? add(fmt::format("map ({}, {}) {{ $0 + $1 }}", skips, skip), wide) : skip;
  }
  return text + "  return " + skips + "\n}";
}

/// Channels that each have a left operand of their own, side by side: as many as half of the unit's memory holds windows of.
TEST(NpuCount, WindowsOfManyChannelsFitTheUnit) {
  const Target t = machine("npu:ethos-u85-1024");
  for (const int channels : {32, 64, 384, 960})
    for (const int side : {7, 14, 28})
      for (const int taps : {3, 5}) {
        const std::string text = fmt::format(R"(
graph (x: f32[1x{0}x{1}x{1}]) {{
  %1 = const data "w" : f32[{0}x{2}x{2}]
  %2 = view x (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 + d4, d3 + d5) fill=0 : f32[1x{0}x{1}x{1}x{2}x{2}]
  %3 = contract %2, %1 ncpqij,cij->ncpq : f32[1x{0}x{1}x{1}]
  return %3
}})",
                                             channels, side, taps);
        for (const Node& n : fuse(parseGraph(text, "test"), t, {}).graph.nodes)
          if (const Group* group = n.as<Group>())
            for (const Stage& s : group->plan->lists[0].stages)
              if (const auto product = productOf(s, t)) {
                std::vector<ProductAxis> axes;
                for (const StageAxis& a : s.axes) axes.push_back({a.extent, true});
                const ProductTile tile = tileProduct(s, *product, axes, 1 << 16, true, t);
                ASSERT_TRUE(tile.each);
                EXPECT_LE(
                    2 * 4 * tile.rows() * tile.columnBlock * tile.deepBlock * tile.flatDepthSize,
                    t.level(t.matrix.left)->bytes)
                    << text;
              }
      }
}

/// Where cube and vector cores share no memory, results wait in the scratchpad for vector instructions: what is brought ahead leaves room.
TEST(NpuCount, WhatIsBroughtAheadLeavesRoomForResults) {
  const int64_t scratch = 65536;
  for (const auto& [plan, counted] : countedKernels(parseGraph(gatedLayers(12), "test"),
                                                    machine("npu:ascend910b", scratch), false))
    EXPECT_LE(counted.scratchPeak, scratch) << toText(*plan);
}

TEST(NpuCount, RequantisedSumsAreHeldAsBytes) {
  Target t = machine("npu:ethos-u85-1024");
  for (Level& l : t.levels)
    if (l.name == "main") l.bytesPerSecond = 1e6;  // so that one kernel pays
  const Graph g = parseGraph(kQuantised, "test");
  const Fused fused = fuse(g, t, {});
  int scratch = 0;
  for (const Node& n : fused.graph.nodes)
    if (const Group* group = n.as<Group>())
      for (const PlanBuffer& b : group->plan->buffers)
        if (b.kind == PlanBuffer::Scratch && b.copyOf.empty()) {
          EXPECT_EQ(bytes(b.type.dtype), 1) << toText(*group->plan);
          scratch++;
        }
  EXPECT_GT(scratch, 0);
}

/// CONTRIBUTING's example: a machine that is only a file.
TEST(NpuTarget, AFileIsEnough) {
  const std::string file = std::string(TEKTITE_TESTS) + "/targets/dsp.toml";
  for (const char* text : {kChain, kSoftmax, kProduct, kAttention, kConvolutions})
    for (const int64_t scratch : {0, 8192}) {
      const Outcome o = Trial(text, machine(file, scratch))();
      EXPECT_LT(o.worst, 2e-6) << text << scratch;
      EXPECT_LE(o.counted.scratchPeak, scratch ? scratch : 65536) << text;
    }
}

TEST(NpuTarget, PresetsAreTheirText) {
  for (const char* name : kMachines) {
    const Target t = findTarget(name);
    EXPECT_EQ(t.kind, "npu");
    EXPECT_TRUE(t.hasExplicitMemory());
    EXPECT_NE(t.path("main", t.scratch), nullptr);
    EXPECT_NE(t.toText().find("[matrix]"), std::string::npos);
  }
}

TEST(NpuRules, AMissingWaitIsFound) {
  const KernelModule m = parseKernels(R"(
kernel k(x: f32[8], out y: f32[8]) {
  for t in 1 parallel {
    alloc a: f32[8]@sbuf
    copy a[i] <- x[i] for i in 8 async load
    for i in 8 serial {
      y[i] = a[i]
    }
    sync load 0
  }
})",
                                      "k");
  std::vector<float> x(8, 1), y(8);
  const KernelEvaluator k(m, m.kernels[0]);
  EXPECT_THROW(k.run({{"x", {x.data(), 8}}, {"y", {y.data(), 8}}}, {}), KernelFault);
}

}  // namespace
}  // namespace tektite
