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

/// A row's parts by four tiles, joined by the last one: all blocks wait, then one goes on for each row.
TEST(Hivm, WhatTheLastTileDoesStandsBehindAWaitOfAllBlocks) {
  const std::string text = printed(R"(
kernel k(x: f32[5x400], out y: f32[5]) {
  alloc part: f32[4x5]@main
  for t0 in 5 parallel {
    for t1 in 4 parallel {
      {
        alloc a: f32[100]@ub align=32
        alloc here: f32[1]@ub align=32
        copy a[i] <- x[t0, i + t1 * 100] for i in 100 async mte2
        sync mte2 0
        {
          alloc s: f32@reg
          s = 0
          for i in 100 serial {
            s += a[i]
          }
          here[0] = s
        }
        copy part[t1, t0] <- here[0] for c in 1 async mte3
        sync mte3 0
      }
      sync last t1
      {
        alloc all: f32[4]@ub align=32
        alloc b: f32[1]@ub align=32
        copy all[i] <- part[i, t0] for i in 4 async mte2
        sync mte2 0
        b[0] = all[0] + all[1] + all[2] + all[3]
        copy y[t0] <- b[0] for c in 1 async mte3
        sync mte3 0
      }
    }
  }
})");
  const size_t wait = text.find("\n  hivm.hir.sync_block[<ALL_VECTOR>");  // inside of no loop
  ASSERT_NE(wait, std::string::npos) << text;
  EXPECT_EQ(countOf(text, "sync_block"), 1u) << text;
  EXPECT_EQ(countOf(text, "ffts_base_address"), 1u) << text;
  const std::string before = text.substr(0, wait), behind = text.substr(wait);
  for (const std::string& side : {before, behind}) {  // rows, dealt to blocks, and tiles of each
    EXPECT_EQ(countOf(side, "scf.for"), 2u) << side;
    EXPECT_EQ(countOf(side, "reinterpret_cast %part"), 1u) << side;
  }
  EXPECT_EQ(countOf(before, "hivm.hir.load"), 1u) << before;
  EXPECT_EQ(countOf(before, "reinterpret_cast %y"), 0u) << before;
  EXPECT_EQ(countOf(behind, "reinterpret_cast %x"), 0u) << behind;
  EXPECT_EQ(countOf(behind, "reinterpret_cast %y"), 1u) << behind;
}

TEST(Hivm, MachinesWithoutItsMemoriesAreRefused) {
  const KernelModule m = parseKernels(
      "kernel k(x: f32[1], out y: f32[1]) {\n  for t in 1 parallel {\n    y[0] = x[0]\n  }\n}",
      "k");
  EXPECT_FALSE(hivmSupports(m, m.kernels[0], findTarget("npu:gemmini")).yes);
}

}  // namespace
}  // namespace tektite
