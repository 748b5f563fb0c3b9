#include "backends/npu/hivm.h"

#include <gtest/gtest.h>

#include "support/check.h"

namespace tektite {
namespace {

std::string printed(const char* text) {
  const KernelModule m = parseKernels(text, "k");
  const Target target = findTarget("npu:ascend910b");
  EXPECT_TRUE(hivmSupports(m, m.kernels[0], target).yes);
  return hivmText(m, m.kernels[0], target);
}
size_t countOf(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) n++;
  return n;
}

TEST(Hivm, RowsAreVectorInstructions) {
  const std::string text = printed(R"(
kernel k(x: f32[8x100], out y: f32[8x100]) {
  for t in 8 parallel {
    alloc a: f32[100]@ub align=32
    alloc b: f32[100]@ub align=32
    copy a[i] <- x[t, i] for i in 100 async mte2
    sync mte2 0
    for i in 100 serial {
      b[i] = max(a[i] * 2, 0)
    }
    copy y[t, i] <- b[i] for i in 100 async mte3
    sync mte3 0
  }
})");
  for (const char* what : {"hivm.hir.load", "hivm.hir.vmul", "hivm.hir.vmax", "hivm.hir.store"})
    EXPECT_EQ(countOf(text, what), 1u) << what << "\n" << text;
  EXPECT_EQ(countOf(text, "scf.for"), 1u) << text;  // the tiles, dealt to blocks
  EXPECT_NE(text.find("func_core_type<AIV>"), std::string::npos);
}

TEST(Hivm, WhatHasNoInstructionIsScalarCode) {
  const std::string text = printed(R"(
kernel k(x: i32[100], out y: i32[100]) {
  for t in 1 parallel {
    alloc a: i32[100]@ub align=32
    copy a[i] <- x[i] for i in 100 async mte2
    sync mte2 0
    for i in 100 serial {
      a[i] = a[i] % 7
    }
    copy y[i] <- a[i] for i in 100 async mte3
    sync mte3 0
  }
})");
  EXPECT_EQ(countOf(text, "arith.floordivsi"), 1u) << text;
  EXPECT_EQ(countOf(text, "memref.store"), 1u) << text;
}

TEST(Hivm, MachinesWithoutItsMemoriesAreRefused) {
  const KernelModule m = parseKernels(
      "kernel k(x: f32[1], out y: f32[1]) {\n  for t in 1 parallel {\n    y[0] = x[0]\n  }\n}",
      "k");
  EXPECT_FALSE(hivmSupports(m, m.kernels[0], findTarget("npu:gemmini")).yes);
}

}  // namespace
}  // namespace tektite
