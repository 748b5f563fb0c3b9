// What tiles of a matrix unit and of cores are planned to hold and to take, against what the simulator finds.
#include "counted_kernels.h"
#include "fusion/product_tile.h"
#include "fusion/vector_work.h"
#include "ir/kernel_fault.h"
#include "runtime/compile.h"

namespace tektite {
namespace {

double cyclesOf(const std::vector<CountedKernel>& kernels) {
  double all = 0;
  for (const CountedKernel& k : kernels) all += k.counted.cycles;
  return all;
}

/// A window that moves over an image, for each of two groups: rows of an image and windows lie whole in a tile where they fit.
std::string groups(int channels, int side, int taps) {
  return fmt::format(R"(
graph (x: f32[2x{0}x{1}x{1}]) {{
  %1 = const data "w" : f32[2x{0}x{2}x{2}]
  %2 = view x (d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 + d4 - {3}, d3 + d5 - {3}) fill=0 : f32[2x{0}x{1}x{1}x{2}x{2}]
  %3 = contract %2, %1 gcpqij,gcij->gpq : f32[2x{1}x{1}]
  return %3
}})",
                     channels, side, taps, taps / 2);
}

TEST(NpuTiles, OperandsFitTheUnit) {
  for (const char* name : {"npu:ethos-u85-1024", "npu:ethos-u65-512", "npu:gemmini"}) {
    const Target t = findTarget(name);
    for (const int side : {13, 26, 54})
      for (const int taps : {3, 5, 7})
        for (const auto& [plan, counted] :
             countedKernels(parseGraph(groups(48, side, taps), "test"), t, false))
          for (const auto& [level, peak] : counted.peaks)
            if (t.level(level)->bytes > 0) {
              EXPECT_LE(peak, t.level(level)->bytes) << name << " " << level << toText(*plan);
            }
  }
}

/// Where a unit holds not even the least tile, there is no program.
TEST(NpuTiles, WhatFitsNowhereIsRefused) {
  const Graph g = parseGraph(R"(
graph (x: f32[16x64], w: f32[64x16]) {
  %1 = contract x, w mk,kn->mn : f32[16x16]
  return %1
})",
                             "test");
  CompileOptions options;
  options.target = findTarget("npu:gemmini");
  EXPECT_NO_THROW(compile(g, options));
  for (Level& l : options.target.levels)
    if (l.name == "columns") l.bytes = 64;
  try {
    compile(g, options);
    ADD_FAILURE() << "64 bytes of columns";
  } catch (const KernelFault& fault) {
    EXPECT_EQ(fault.rule, 6) << fault.what();
  }
}

/// Operands come while the unit multiplies: a depth of 128 and then 22 would wait for each other.
TEST(NpuTiles, PartsOfADepthAreAlike) {
  const Target t = findTarget("npu:gemmini");
  for (const int depth : {150, 300, 600}) {
    const Graph g = parseGraph(fmt::format(R"(
graph (x: f32[64x{0}], w: f32[{0}x16]) {{
  %1 = contract x, w mk,kn->mn : f32[64x16]
  return %1
}})",
                                           depth),
                               "test");
    for (const auto& [plan, counted] : countedKernels(g, t, false))
      for (const Stage& s : plan->lists[0].stages)
        if (const auto product = productOf(s, t)) {
          std::vector<ProductAxis> axes;
          for (const StageAxis& a : s.axes) axes.push_back({a.extent, true});
          const ProductTile tile = tileProduct(s, *product, axes, 1 << 16, true, t);
          const int64_t parts = (depth + tile.deepBlock - 1) / tile.deepBlock,
                        last = depth - (parts - 1) * tile.deepBlock;
          EXPECT_GT(parts, 1);
          EXPECT_LT(tile.deepBlock - last, 4 * parts) << depth;  // a step takes four floats
        }
  }
}

/// 24 cores with a tile each end with the largest: 12 + 12 + 4 of 28 columns is no third each.
TEST(NpuTiles, CoresWaitForTheLargestTile) {
  const Target t = findTarget("npu:ascend910b");
  const Graph g = parseGraph(R"(
graph (x: f32[1x512x28x28]) {
  %1 = const data "w" : f32[512x512x3x3]
  %2 = view x (d0, d1, d2, d3, d4, d5) -> (0, d1, d2 + d4 - 1, d3 + d5 - 1) fill=0 : f32[1x512x28x28x3x3]
  %3 = contract %2, %1 ncpqij,ocij->nopq : f32[1x512x28x28]
  %4 = const data "b" : f32[1x512x1x1]
  %5 = map (%3, %4) { $0 + $1 } : f32[1x512x28x28]
  %6 = map (%5) { max($0, 0) } : f32[1x512x28x28]
  return %6
})",
                             "test");
  for (const bool unfused : {false, true})
    for (const auto& [plan, counted] : countedKernels(g, t, unfused)) {
      const double ratio = counted.cycles / t.hertz / plan->cost.seconds;
      EXPECT_GT(ratio, 0.9) << toText(*plan);
      EXPECT_LT(ratio, 1.12) << toText(*plan);
    }
  EXPECT_LE(cyclesOf(countedKernels(g, t, false)), cyclesOf(countedKernels(g, t, true)));
}

/// Two readers of one chain: it is computed once, as wide as what it is computed in.
TEST(NpuTiles, VectorInstructionsAreCountedOnce) {
  const Expr x = load("x", DType::F32, {var("i")}), square = x * x;
  VectorStores stores;
  const auto check = [&](const VectorWork& w, double slots, double bytes) {
    EXPECT_EQ(w.slots, slots);
    EXPECT_EQ(w.bytes, bytes);
  };
  check(stores.of("a", cast(DType::U8, square), false), 2, 4 + 4);  // *, and a cast from 4 bytes
  check(stores.of("b", square + x, false), 1, 4);
  check(stores.of("c", square, false), 1, 4);              // a move
  check(stores.of("s", square, true), 1, 4);               // a sum
  check(stores.of("x", imm(DType::F32, 0), false), 1, 4);  // x is another from here on
  check(stores.of("b", square + x, false), 2, 8);

  const KernelModule module = parseKernels(R"(
kernel k(x: f32[256], out a: u8[256], out b: f32[256]) {
  for t in 1 parallel {
    alloc s: f32[256]@spad align=16
    alloc p: u8[256]@spad align=16
    alloc q: f32[256]@spad align=16
    copy s[i] <- x[i] for i in 256 async load
    sync load 0
    for i in 256 serial {
      p[i] = u8(s[i] * s[i])
      q[i] = s[i] * s[i] + s[i]
    }
    copy a[i] <- p[i] for i in 256 async store
    copy b[i] <- q[i] for i in 256 async store
    sync store 0
  }
})",
                                           "test");
  const Target t = findTarget("npu:gemmini");
  const double once = 3 * t.vectorStartCycles + 256 * 3 * 4 / (t.vectorBytes * t.slotsPerCycle);
  EXPECT_NEAR(countKernel(module, module.kernels[0], t, {}).busy.at("vector"), once, 1e-6);
}

/// A quantised convolution, what it is added to, and two that read the sum: its bytes, and what they stand for.
TEST(NpuTiles, TwoReadersOfOneChainAreNotSlower) {
  const Graph g = parseGraph(R"(
graph (x: u8[1x64x20x20], y: f32[1x256x20x20]) {
  %1 = const data "w" : i8[256x64]
  %2 = map (x) { i32($0) } : i32[1x64x20x20]
  %3 = map (%1) { i32($0) } : i32[256x64]
  %4 = contract %2, %3 ncpq,oc->nopq : i32[1x256x20x20]
  %5 = map (%4) { i8(min(max(round(f32($0) * 0.01), -128), 127)) } : i8[1x256x20x20]
  %6 = map (%5, y) { i8(min(max(round((f32($0) * 0.06 + $1) / 0.07), -128), 127)) } : i8[1x256x20x20]
  %7 = map (%6) { f32($0) * 0.07 } : f32[1x256x20x20]
  return %6, %7
})",
                             "test");
  const Target t = findTarget("npu:gemmini");
  EXPECT_LT(cyclesOf(countedKernels(g, t, false)), cyclesOf(countedKernels(g, t, true)));
}

}  // namespace
}  // namespace tektite
