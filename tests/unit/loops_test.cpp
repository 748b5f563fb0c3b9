// What becomes of loops after fusion, beside the passes of tests/kernel/passes: values and addresses that a body uses several times are computed
// once, what a loop adds up is in registers, what the next tile reads is fetched while this one runs. Before and after, and what that saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "backends/npu/simulate.h"
#include "emit/llvm_text.h"
#include "fusion/fuse.h"
#include "fusion/plan_body.h"
#include "golden.h"
#include "ir/expr_text.h"
#include "ir/kernel_walk.h"
#include "kernel_harness.h"
#include "lower/dma.h"
#include "lower/kernel_pass.h"
#include "lower/kernel_rewrite.h"
#include "lower/lower.h"
#include "small_models.h"

namespace tektite {
namespace {

// ---- before and after

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}
/// The lines of both, those of one only marked: as few as can be.
std::string differences(const std::string& before, const std::string& after) {
  const std::vector<std::string> a = linesOf(before), b = linesOf(after);
  std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
  for (size_t i = a.size(); i-- > 0;)
    for (size_t k = b.size(); k-- > 0;)
      common[i][k] =
          a[i] == b[k] ? common[i + 1][k + 1] + 1 : std::max(common[i + 1][k], common[i][k + 1]);
  std::string out;
  for (size_t i = 0, k = 0; i < a.size() || k < b.size();)
    if (i < a.size() && k < b.size() && a[i] == b[k])
      out += "  " + a[i++] + "\n", k++;
    else if (k == b.size() || (i < a.size() && common[i + 1][k] >= common[i][k + 1]))
      out += "- " + a[i++] + "\n";
    else
      out += "+ " + b[k++] + "\n";
  return out;
}
std::shared_ptr<const GroupPlan> planOf(const std::string& text, const Target& target) {
  const PlanResult r = planGroup(parseGraph(text, "case"), target, {});
  TEKTITE_CHECK(r.plan, "{}", toText(r.refusal));
  return r.plan;
}
void checkTexts(const std::string& folder,
                const std::function<std::string(const std::string&, const Target&)>& transform) {
  for (const auto& file : goldenFiles(folder))
    checkGoldens(
        file, [](const std::string& text) { return toText(parseGraph(text, "case")); },
        [&](const std::string& text, const GoldenSettings& settings) {
          return transform(text, findTarget(settings.at("target")));
        });
}

// ---- common subexpressions

std::string llvmOf(const std::string& kernel) {
  const KernelModule m = parseKernels(kernel, "case");
  const std::string text =
      emitLlvm(m, m.kernels.at(0), findTarget("cpu:avx2"), FastMath::None).text;
  return text.substr(0, text.find("\n}\n"));  // the tiles' function
}
/// Lines in which the parts stand one after the other.
int lines(const std::string& text, std::initializer_list<std::string_view> parts) {
  int n = 0;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    size_t at = 0;
    for (const std::string_view part : parts) {
      at = at == std::string::npos ? at : line.find(part, at);
      if (at != std::string::npos) at += part.size();
    }
    n += at != std::string::npos;
  }
  return n;
}

/// Two results of one fused body: the text says the root and its square twice, x at one place five times.
TEST(Loops, ValuesAreComputedOnceInABody) {
  const std::string ir = llvmOf(R"(kernel f(x: f32[512], out y: f32[512], out z: f32[512]) {
  for t in 8 parallel {
    for c in 8 serial {
      for l in 8 vector {
        y[t * 64 + c * 8 + l] = sqrt(x[t * 64 + c * 8 + l]) * x[t * 64 + c * 8 + l]
        z[t * 64 + c * 8 + l] = sqrt(x[t * 64 + c * 8 + l]) + x[t * 64 + c * 8 + l] * x[t * 64 + c * 8 + l]
      }
    }
  }
})");
  EXPECT_EQ(lines(ir, {"call ", "@llvm.sqrt"}), 1) << ir;
  EXPECT_EQ(lines(ir, {"= load <8 x float>"}), 1) << ir;
  EXPECT_EQ(lines(ir, {"store <8 x float>"}), 2) << ir;
}

/// One place counts for all three buffers, and what is 8 or 64 elements on is a constant further.
TEST(Loops, AddressesAreComputedOnceInABody) {
  const std::string body = R"(
      for l in 8 vector {
        y[t * 64 + c * 8 + l] = x[t * 64 + c * 8 + l] + x[t * 64 + c * 8 + 8 + l] + x[t * 64 + c * 8 + 64 + l]
      })";
  const auto kernel = [](const std::string& inside) {
    return "kernel f(x: f32[640], out y: f32[512]) {\n  for t in 8 parallel {\n    for c in 8 "
           "serial {" +
           inside + "\n    }\n  }\n}\n";
  };
  const std::string ir = llvmOf(kernel(body));
  EXPECT_EQ(lines(ir, {"= mul i64 %c"}), 1) << ir;                   // c * 8
  EXPECT_EQ(lines(ir, {"= getelementptr float, ptr %x"}), 1) << ir;  // and two constants behind it
  EXPECT_EQ(lines(ir, {"= getelementptr i8"}), 2) << ir;
  EXPECT_EQ(lines(ir, {"= getelementptr float, ptr %y"}), 1) << ir;
}

/// A register tile of 4 rows and 2 vectors: 16 loads are written, 6 are needed.
TEST(Loops, OperandsOfARegisterTileAreLoadedOnce) {
  const std::string ir = llvmOf(R"(kernel f(a: f32[4x32], b: f32[32x16], out c: f32[4x16]) {
  for t in 1 parallel {
    alloc s: f32[4x16]@reg
    for u in 4 unroll {
      for v in 2 unroll {
        for l in 8 vector {
          s[u, v * 8 + l] = 0
        }
      }
    }
    for k in 32 serial {
      for u in 4 unroll {
        for v in 2 unroll {
          for l in 8 vector {
            s[u, v * 8 + l] += a[u, k] * b[k, v * 8 + l]
          }
        }
      }
    }
    for u in 4 unroll {
      for v in 2 unroll {
        for l in 8 vector {
          c[u, v * 8 + l] = s[u, v * 8 + l]
        }
      }
    }
  }
})");
  EXPECT_EQ(lines(ir, {"= load float"}), 4) << ir;
  EXPECT_EQ(lines(ir, {"%b", " = load <8 x float>"}), 2) << ir;
  EXPECT_EQ(lines(ir, {"= fmul <8 x float>"}), 8) << ir;
}

/// What is stored between may be what is read: then it is read again.
TEST(Loops, AStoreForgetsWhatItMayHaveChanged) {
  const std::string ir = llvmOf(R"(kernel f(x: f32[64], inout y: f32[64], out z: f32[64]) {
  for t in 8 parallel {
    for l in 8 vector {
      z[t * 8 + l] = y[t * 8 + l] * x[t * 8 + l]
      y[t * 8 + l] = z[t * 8 + l]
      z[t * 8 + l] = y[t * 8 + l] + x[t * 8 + l]
    }
  }
})");
  EXPECT_EQ(lines(ir, {"= load <8 x float>"}), 4) << ir;  // x once, y twice, z once
}

/// What all tiles need and one of them stores is computed no more often than what nobody stores.
TEST(Loops, WhatOneTileStoresIsNotComputedForThat) {
  const auto roots = [](const char* results) {
    const Graph g =
        parseGraph(fmt::format("graph (x: f32[1x128], w: f32[128x512]) {{\n"
                               "  %2 = map (x) {{ sqrt($0) }} : f32[1x128]\n"
                               "  %3 = contract %2, w mk,kn->mn : f32[1x512]\n  return {}\n}}\n",
                               results),
                   "case");
    const Target target = findTarget("cpu:avx512");
    const PlanResult r = planGroup(g, target, {});
    EXPECT_EQ(toText(*r.plan).find("if t0 == 0") != std::string::npos,
              std::string_view(results) == "%3, %2")
        << toText(*r.plan);
    const LoweredKernel k = lowerGroup(*r.plan, target, "k");
    return lines(emitLlvm(k.module, k.kernel(), target, FastMath::None).text,
                 {"= call ", "@llvm.sqrt"});
  };
  EXPECT_GT(roots("%3"), 0);
  EXPECT_EQ(roots("%3, %2"), roots("%3"));
}

// ---- scalar promotion

/// An element outside of registers that a serial loop both reads and writes though its place doesn't change in it; "" where there is none.
std::string keptInMemory(const Kernel& k) {
  std::string found;
  Path path;
  path.declare(k.dims, k.params);
  walk(k.body, path,
       {[&](const Stmt& s, Path& at) {
          const Store* t = s.as<Store>();
          if (!t) return;
          for (const Ref& r : t->targets) {
            const Named* buffer = at.buffer(r.buffer);
            if (!buffer || buffer->buffer->space == "reg") continue;
            bool reads = !t->combine.empty();
            for (const Expr& value : t->values)
              for (const Expr& l : loadsOf(value))
                reads |= l.as<Load>()->buffer == r.buffer && l.as<Load>()->index == r.index;
            const std::vector<const For*> loops = at.loops();
            const auto moves = [&](const For* f) {
              return std::ranges::any_of(r.index, [&](const Expr& e) {
                return std::ranges::count(freeVars(e), f->var) > 0;
              });
            };
            for (size_t i = loops.size(); i-- > 0 && reads && !moves(loops[i]);)
              if (loops[i]->mode == LoopMode::Serial) found = firstLine(s) + " in " + loops[i]->var;
          }
        },
        nullptr});
  return found;
}

TEST(Loops, WhatALoopAddsUpIsInRegisters) {
  const auto in = [](const std::string& loop) {
    return keptInMemory(
        parseKernels("kernel f(x: f32[8x8], out y: f32[8]) {\n  for t in 8 parallel {\n"
                     "    y[t] = 0\n" +
                         loop + "  }\n}\n",
                     "case")
            .kernels[0]);
  };
  EXPECT_NE(in("    for i in 8 serial {\n      y[t] += x[t, i]\n    }\n"), "");  // it can be seen
  EXPECT_EQ(in("    for i in 8 serial {\n      y[i] = x[t, i]\n    }\n"), "");
  int kernels = 0;
  for (const NamedGraph& m : smallModels())
    for (const char* target : {"cpu:avx2", "cpu:avx512", "gpu-class"}) {
      const Target machine = findTarget(target);
      for (const Node& n : fuse(bindDims(m.graph, {}), machine, {}).graph.nodes)
        if (const Group* g = n.as<Group>(); g && !g->plan->scan) {
          const LoweredKernel k = lowerGroup(*g->plan, machine, "k");
          EXPECT_EQ(keptInMemory(k.kernel()), "") << m.name << " " << target << "\n"
                                                  << toText(k.module);
          kernels++;
        }
    }
  EXPECT_GT(kernels, 40);
}

Block inMemory(const Block& block, const std::set<std::string>& buffers) {
  Block out;
  for (const Stmt& s : block) {
    out.push_back(bodyOf(s) ? withBody(s, inMemory(*bodyOf(s), buffers)) : s);
    if (const Alloc* a = s.as<Alloc>(); a && buffers.count(a->buffer.name)) {
      Alloc moved = *a;
      moved.buffer.space = "l1";
      out.back().kind = moved;
    }
  }
  return out;
}
/// The kernel with what its loops add up in memory.
KernelModule withSumsInMemory(KernelModule m) {
  std::set<std::string> sums;
  Path path;
  walk(m.kernels[0].body, path,
       {[&](const Stmt& s, Path&) {
          const Store* t = s.as<Store>();
          for (size_t i = 0; t && i < t->targets.size() && !t->combine.empty(); i++)
            sums.insert(t->targets[i].buffer);
        },
        nullptr});
  m.kernels[0].body = inMemory(m.kernels[0].body, sums);
  return m;
}

/// Lowering puts what a loop adds up into registers: a kernel, what it would be without that, and what it saves.
TEST(Golden, ScalarPromotion) {
  checkTexts("kernel/promotion", [](const std::string& text, const Target& target) {
    const KernelModule after = lowerGroup(*planOf(text, target), target, "k").module,
                       before = withSumsInMemory(after);
    const auto counted = [](const KernelModule& m) {
      auto tensors = testing::makeTensors(m.kernels[0], {}, 11);
      return testing::runKernel(m, tensors, {}, {});
    };
    const EvalCounters was = counted(before), is = counted(after);
    EXPECT_EQ(was.flops, is.flops);
    return differences(toText(before), toText(after)) +
           fmt::format("counted: {} reads, {} writes -> {} reads, {} writes\n", was.reads,
                       was.writes, is.reads, is.writes);
  });
}

// ---- what the next tile reads

/// Every prefetch with the loops around it.
std::vector<std::string> fetchedBy(const Kernel& k) {
  std::vector<std::string> out;
  Path path;
  walk(k.body, path,
       {[&](const Stmt& s, Path& at) {
          const Copy* c = s.as<Copy>();
          if (!c || c->to) return;
          std::string loops;
          for (const For* f : at.loops())
            loops += fmt::format("{} in {}: ", f->var, toText(f->extent));
          out.push_back(loops + firstLine(s));
        },
        nullptr});
  return out;
}

/// What fetching ahead adds to the one kernel of a graph.
std::string addedByFetching(const std::string& text, const GoldenSettings& settings) {
  const Target target = findTarget(settings.at("target"));
  const Graph g = parseGraph(text, "case");
  const PlanResult r = planGroup(g, target, {});
  const GroupPlan plan = prepare(*r.plan, target);
  Schedule schedule = chooseSchedule(plan, target);
  const LoweredKernel with = lower(plan, schedule, target, "k");
  for (auto& list : schedule.lists)
    for (StageSchedule& s : list) s.ahead.clear();
  const LoweredKernel without = lower(plan, schedule, target, "k");
  EXPECT_EQ(fetchedBy(without.kernel()), std::vector<std::string>());
  EXPECT_EQ(toText(with.module) == toText(without.module), fetchedBy(with.kernel()).empty());
  std::string out;
  for (const std::string& line : fetchedBy(with.kernel())) out += "+ " + line + "\n";
  return out.empty() ? "nothing\n" : out;
}

/// With explicit memories the next tile's operands come, and the last one's results leave, while a tile is worked on, if memories have room for
/// both: a kernel, what it is where they haven't, and the cycles of the modelled machine.
TEST(Golden, SoftwarePipelining) {
  checkTexts("kernel/pipeline", [](const std::string& text, const Target& target) {
    Target full = target;  // no second copy fits
    for (Level& l : full.levels)
      if (l.name != "main") l.bytes = 1;
    const auto plan = planOf(text, target);
    const LoweredKernel before = lowerExplicit(*plan, full, "k"),
                        after = lowerExplicit(*plan, target, "k");
    const auto counted = [&](const LoweredKernel& k) {
      return countKernel(k.module, k.kernel(), target, {});
    };
    const Simulated was = counted(before), is = counted(after);
    EXPECT_EQ(was.bytesRead, is.bytesRead);
    EXPECT_EQ(was.bytesWritten, is.bytesWritten);
    return differences(toText(before.module), toText(after.module)) +
           fmt::format("counted: {:.0f} cycles -> {:.0f} cycles\n", was.cycles, is.cycles);
  });
}

TEST(Golden, FetchAhead) {
  for (const auto& file : goldenFiles("kernel/ahead"))
    checkGoldens(
        file, [](const std::string& text) { return toText(parseGraph(text, "case")); },
        addedByFetching);
}

}  // namespace
}  // namespace tektite
