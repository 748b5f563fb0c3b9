#include <gtest/gtest.h>

#include <cmath>

#include "emit_run.h"

namespace tektite {
namespace {

/// Runs the kernel on every machine type here and gives the buffer `y` to the check.
void run(const char* text, const std::function<TestBuffers()>& make,
         const std::function<double(int64_t)>& wanted, double tolerance = 0) {
  for (const Target& target : runnableTargets())
    for (const FastMath mode : {FastMath::None, FastMath::Contract}) {
      SCOPED_TRACE(target.name);
      TestBuffers b = make();
      runKernel(parseKernels(text, "test"), {}, b, target, 1, mode);
      for (int64_t i = 0; i < b["y"].elements(); i++)
        ASSERT_NEAR(b["y"].at(i), wanted(i), tolerance) << "at " << i;
    }
}

TestBuffers buffers(std::vector<float> x, int64_t n, DType type = DType::F32, double initial = 0) {
  TestBuffers b;
  b["x"] = TestBuffer(std::move(x));
  b["y"] = TestBuffer(type, n);
  for (int64_t i = 0; i < n; i++) b["y"].set(i, initial);
  return b;
}

TEST(EmitMemory, EverySecondBackwardsAndEveryThird) {
  const auto x = noise(48, 1);
  run(
      R"(kernel k(x: f32[48], out y: f32[3 x 16]) {
    for t in 1 parallel { for l in 16 vector {
      y[0, l] = x[l * 2 + 1]
      y[1, l] = x[15 - l]
      y[2, l] = x[l * 3]
    } }
  })",
      [&] { return buffers(x, 48); },
      [&](int64_t i) { return i < 16   ? x[i * 2 + 1]
                              : i < 32 ? x[31 - i]
                                       : x[(i - 32) * 3]; });
}

/// In memory that may be read or behind its end, also where a guard outside leaves lanes out.
TEST(EmitMemory, LanesThatAreOffReadZeros) {
  const auto x = noise(40, 1);
  run(
      R"(kernel k(x: f32[40], out y: f32[3 x 16]) {
    for t in 1 parallel { for l in 16 vector {
      y[0, l] = select(l < 14, x[l + 2], 0)
      y[1, l] = select(3 <= l & l < 9, x[l + 31], 0)
      y[2, l] = -1
      if l < 11 { y[2, l] = select(2 <= l, x[l + 29], 0) }
    } }
  })",
      [&] { return buffers(x, 48); },
      [&](int64_t i) {
        const int64_t l = i % 16;
        if (i < 16) return l < 14 ? x[l + 2] : 0.f;
        if (i < 32) return 3 <= l && l < 9 ? x[l + 31] : 0.f;
        return l >= 11 ? -1.f : 2 <= l ? x[l + 29] : 0.f;
      });
}

TEST(EmitMemory, IndicesThatDivideTheLane) {
  const auto x = noise(35, 1);
  run(
      R"(kernel k(x: f32[35], out y: f32[4 x 32]) {
    for t in 1 parallel { for b in 2 serial {
      for l in 16 vector {
        y[0, b * 16 + l] = x[(b * 16 + l + 1) // 2]
        y[1, b * 16 + l] = x[min((l + 1) // 2, 3) + b]
        y[2, b * 16 + l] = x[b * 16 + l - l % 4 * 2 + 6]
        y[3, b * 16 + l] = -1
      }
      for l in 16 vector {
        if l < 13 & 1 <= l { y[3, b * 16 + l] = x[33 - (l + b * 16) // 3] }
      }
    } }
  })",
      [&] { return buffers(x, 128); },
      [&](int64_t i) {
        const int64_t row = i / 32, at = i % 32, b = at / 16, l = at % 16;
        return row == 0           ? x[(at + 1) / 2]
               : row == 1         ? x[std::min<int64_t>((l + 1) / 2, 3) + b]
               : row == 2         ? x[at - l % 4 * 2 + 6]
               : l >= 1 && l < 13 ? x[33 - at / 3]
                                  : -1.0f;
      });
}

/// Five elements are there: what the lanes that are off would read lies outside.
TEST(EmitMemory, LanesThatAreOffTouchNothing) {
  const auto x = noise(5, 1);
  run(
      R"(kernel k(x: f32[5], out y: f32[2 x 16]) {
    for t in 1 parallel { for l in 16 vector {
      y[0, l] = -1
      y[1, l] = -1
      if l < 10 { y[0, l] = x[l // 2] }
      if 6 <= l { y[1, l] = x[l // 2 - 3] }
    } }
  })",
      [&] { return buffers(x, 32); },
      [&](int64_t i) {
        const int64_t l = i % 16;
        return i < 16 ? (l < 10 ? x[l / 2] : -1.0f) : l >= 6 ? x[l / 2 - 3] : -1.0f;
      });
}

TEST(EmitMemory, BlocksOfRegistersAreTransposed) {
  const auto x = noise(16 * 32, 1);
  for (const int rows : {4, 8, 16})
    run(
        fmt::format(R"(kernel k(x: f32[16 x 32], out y: f32[32 x {0}]) {{
    for t in 1 parallel {{
      alloc b: f32[{0} x 32]@reg
      for u in {0} unroll {{ for v in 2 unroll {{ for l in 16 vector {{ b[u, v * 16 + l] = x[u, v * 16 + l] }} }} }}
      for c in 32 unroll {{ for l in {0} vector {{ y[c, l] = b[l, c] }} }}
      for u in {0} unroll {{ for v in 2 unroll {{ for l in 16 vector {{ b[u, v * 16 + l] = b[u, v * 16 + l] + 1 }} }} }}
      for l in {0} vector {{ if l < 3 {{ y[5, l] = b[l, 5] }} }}
    }}
  }})",
                    rows)
            .c_str(),
        [&] { return buffers(x, int64_t{32} * rows); },
        [&](int64_t i) {
          const int64_t row = i % rows, column = i / rows;
          return x[row * 32 + column] + (column == 5 && row < 3 ? 1 : 0);
        });
}

TEST(EmitMemory, StridedUnderAMaskTouchesOnlyItsLanes) {
  const auto x = noise(20, 1);  // lanes 10.. would be outside
  run(
      R"(kernel k(x: f32[20], out y: f32[16 x 2]) {
    for t in 1 parallel { for l in 16 vector {
      y[l, 0] = -1
      y[l, 1] = -2
      if l < 10 { y[l, 0] = x[l * 2] }
      if l < 10 & 2 <= l { y[l, 1] = x[19 - l * 2] }
    } }
  })",
      [&] { return buffers(x, 32); },
      [&](int64_t i) {
        const int64_t l = i / 2;
        if (i % 2 == 0) return l < 10 ? x[l * 2] : -1.0f;
        return l < 10 && l >= 2 ? x[19 - l * 2] : -2.0f;
      });
}

TEST(EmitMemory, IndicesFromMemory) {
  const auto x = noise(30, 1);
  const auto make = [&] {
    TestBuffers b = buffers(x, 30);
    b["i"] = TestBuffer(DType::I32, 12);
    for (int k = 0; k < 12; k++) b["i"].set(k, (k * 7) % 15);
    return b;
  };
  run(R"(kernel k(x: f32[30], i: i32[12], out y: f32[30]) {
    for t in 1 parallel {
      for l in 30 vector { y[l] = 0 }
      for l in 8 vector { y[i64(i[l])] = x[i64(i[l]) * 2] }
      for l in 8 vector { if l < 4 { y[15 + i64(i[l + 8])] += x[i64(i[l + 8])] } }
    }
  })",
      make, [&](int64_t i) {
        for (int k = 0; k < 12; k++) {
          const int64_t at = (k * 7) % 15;
          if (k < 8 && i == at) return x[at * 2];
          if (k >= 8 && i == at + 15) return x[at];
        }
        return 0.0f;
      });
}

TEST(EmitMemory, DuplicatesCombineOneAfterAnother) {
  const auto x = noise(8, 1);
  run(
      R"(kernel k(x: f32[8], out y: f32[3]) {
    for t in 1 parallel {
      for l in 3 vector { y[l] = 0 }
      for l in 8 vector { y[select(x[l] < 0, 0, 1) * l // l] += 1 }
      for l in 8 vector { if l < 5 { y[i64(x[l] * 0) + 2] += 2 } }
    }
  })",
      [&] { return buffers(x, 3); },
      [&](int64_t i) {
        double below = 0, above = 0;
        for (int l = 0; l < 8; l++) (l > 0 && x[l] >= 0 ? above : below) += 1;
        return i == 0 ? below : i == 1 ? above : 10;
      });
}

TEST(EmitMemory, LanesIntoOneElement) {
  const auto x = noise(12, 1);
  double sum = 0, top = -1e9, odd = 0;
  for (int i = 0; i < 12; i++) sum += x[i];
  for (int i = 0; i < 7; i++) top = std::max<double>(top, x[i]);
  for (int i = 0; i < 5; i++) odd += x[i];
  run(
      R"(kernel k(x: f32[12], out y: f32[4]) {
    for t in 1 parallel {
      for l in 4 vector { y[l] = 0 }
      y[1] = -inf
      for l in 12 vector { y[0] += x[l] }
      for l in 12 vector { if l < 7 { y[1] max= x[l] } }
      for l in 5 vector { y[2] += x[l] }
      for l in 8 vector { y[3] += 1 }
    }
  })",
      [&] { return buffers(x, 4); },
      [&](int64_t i) { return i == 0   ? sum
                              : i == 1 ? top
                              : i == 2 ? odd
                                       : 8; }, 1e-6);
}

TEST(EmitMemory, TheLastLaneThatIsOnStoresAnElement) {
  const auto x = noise(12, 1);
  run(
      R"(kernel k(x: f32[12], out y: f32[5]) {
    for t in 1 parallel {
      for i in 5 serial { y[i] = 3 }
      for l in 8 vector { if l < 1 { y[0] = x[l] } }
      for l in 12 vector { if 2 <= l & l < 7 { y[1] = x[l] * 2 } }
      for l in 8 vector { if 20 < l { y[2] = x[l] } }
      for l in 8 vector { if x[l] < -100 { y[3] = 1 } }
      for l in 8 vector { if l < 4 { y[4] = 1 } }
    }
  })",
      [&] { return buffers(x, 5); },
      [&](int64_t i) { return i == 0   ? x[0]
                              : i == 1 ? x[6] * 2
                              : i == 4 ? 1
                                       : 3; }, 0);
}

TEST(EmitMemory, LanesWithTheirOwnArrays) {
  const auto x = noise(32, 1);
  run(
      R"(kernel k(x: f32[32], out y: f32[8]) {
    for t in 1 parallel { for l in 8 vector {
      alloc own: f32[4]@reg
      alloc far: f32[4]@l1
      alloc sum: f32@reg
      for k in 4 serial { own[k] = x[l * 4 + k]  far[3 - k] = own[k] }
      sum = 0
      for k in 4 serial { if l < 6 { sum += own[k] * far[k] } }
      y[l] = sum
    } }
  })",
      [&] { return buffers(x, 8); },
      [&](int64_t l) {
        return l < 6 ? 2 * (x[l * 4] * x[l * 4 + 3] + x[l * 4 + 1] * x[l * 4 + 2]) : 0.0f;
      },
      1e-6);
}

TEST(EmitMemory, CopiesWithFillAndPrefetch) {
  const auto x = noise(15, 1);
  run(
      R"(kernel k(x: f32[3 x 5], out y: f32[4 x 8]) {
    for t in 1 parallel {
      alloc b: f32[4 x 8]@l1
      copy x[i, j + 100] for i in 3, j in 40
      copy b[i, j] <- x[i - 1, j - 2] for i in 4, j in 8 fill=7
      copy y[i, j] <- b[i, j] for i in 4, j in 8
    }
  })",
      [&] { return buffers(x, 32); },
      [&](int64_t i) {
        const int64_t r = i / 8 - 1, c = i % 8 - 2;
        return r >= 0 && c >= 0 && c < 5 ? x[r * 5 + c] : 7.0f;
      });
}

TEST(EmitMemory, MasksOverBytesAndHalves) {
  const auto x = noise(19, 1, 100);
  for (const char* type : {"i8", "u8", "bool", "f16", "bf16", "f64", "i64"}) {
    const std::string text = fmt::format(R"(kernel k(x: f32[19], out y: {0}[19]) {{
      for t in 1 parallel {{ for c in 2 serial {{ for l in 16 vector {{
        if c * 16 + l < 19 {{ y[c * 16 + l] = {0}(x[c * 16 + l]) }}
      }} }} }}
    }})",
                                         type);
    const DType t = *dtypeFromName(type);
    run(
        text.c_str(), [&] { return buffers(x, 19, t); },
        [&](int64_t i) {
          return isFloat(t) ? roundTo(t, x[i]) : static_cast<double>(saturateTo(t, x[i]));
        });
  }
}

TEST(EmitMemory, MasksOfLanesTimesAStep) {
  const auto x = noise(1, 1);
  const auto on = [](int64_t c, int64_t l) {
    return (c * 16 + l * 3 < 20) + 2 * (c * 4 - 5 <= l * 2) + 4 * (l * 4 <= c * 9) +
           8 * (30 - l * 3 < c * 7) + 16 * (c < 3);
  };
  run(
      R"(kernel k(x: f32[1], out y: i32[4 x 16]) {
    for t in 1 parallel { for c in 4 serial { for l in 16 vector {
      y[c, l] = i32(c * 16 + l * 3 < 20) + 2 * i32(c * 4 - 5 <= l * 2) + 4 * i32(l * 4 <= c * 9) + 8 * i32(30 - l * 3 < c * 7)
      if c * 16 + l < 48 { y[c, l] += 16 }
    } } }
  })",
      [&] { return buffers(x, 64, DType::I32); }, [&](int64_t i) { return on(i / 16, i % 16); });
}

/// A value for all lanes alike is read only where a lane is on: x ends before a page that must not be touched.
TEST(EmitMemory, NoLaneOnTouchesNothing) {
  const auto x = noise(4, 1);
  run(
      R"(kernel k(x: f32[4], out y: f32[8 x 8]) {
    for t in 1 parallel { for r in 8 serial { for l in 8 vector {
      y[r, l] = -1
      if r * 8 + l < 32 { y[r, l] = x[r] + select(r * 8 + l < 16, x[r * 2], 0) }
    } } }
  })",
      [&] { return buffers(x, 64); },
      [&](int64_t i) { return i < 32 ? x[i / 8] + (i < 16 ? x[i / 8 * 2] : 0) : -1.0f; }, 1e-6);
}

}  // namespace
}  // namespace tektite
