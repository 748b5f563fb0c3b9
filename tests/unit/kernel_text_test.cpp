#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/kernel.h"
#include "support/check.h"

namespace tektite {
namespace {

std::string read(const std::filesystem::path& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(KernelText, FilesRoundTrip) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TEKTITE_TESTS "/kernel")) {
    if (entry.path().extension() != ".tk") continue;
    const std::string text = read(entry.path());
    if (text.find("# passes:") != std::string::npos) continue;
    const std::string once = toText(parseKernels(text, entry.path().filename()));
    EXPECT_EQ(toText(parseKernels(once, "printed")), once) << entry.path();
    files++;
  }
  EXPECT_GE(files, 15);
}

TEST(KernelText, CanonicalText) {
  const std::string text =
      R"(kernel f(dim N: 0..64, x: f32[N x 4x8] strides=[32, 8, 1] align=64, inout y: f32[N] alias=a) {
  for i in N parallel {
    alloc s: f32@reg
    s = 0
    for c in 4 serial {
      s += x[i, c, 0]
    }
    if 0 < i {
      y[i] max= s stream
    }
    copy x[i, c, 0] for c in 4
  }
}
)";
  EXPECT_EQ(toText(parseKernels(text, "f")), text);
}

TEST(KernelText, CommentsOfStatementsArePrinted) {
  KernelModule m = parseKernels("kernel f(out y: f32) { y = 0 }", "f");
  m.kernels[0].comment = "two\nlines";
  m.kernels[0].body[0].comment = "zero";
  EXPECT_EQ(toText(m), "# two\n# lines\nkernel f(out y: f32) {\n  # zero\n  y = 0\n}\n");
}

TEST(KernelText, Errors) {
  const std::pair<const char*, const char*> cases[] = {
      {"kernel f(x: f33) {}", "f:1:13: expected a dtype, found 'f33'"},
      {"kernel f(out y: f32) { y = z }", "f:1:28: unknown name 'z'"},
      {"kernel f(out y: f32) { z = 1 }", "f:1:24: unknown buffer 'z'"},
      {"kernel f(out y: f32) { y most= 1 }", "f:1:26: unknown combine 'most'"},
      {"kernel f(out for: f32) {}",
       "f:1:14: expected a parameter's name, found the reserved word 'for'"},
      {"kernel f(out y: f32) { for i in 4 sideways {} }",
       "f:1:35: expected serial, parallel, vector, unroll, warp or thread, found 'sideways'"},
      {"kernel f(out y: f32) { intrin g(y) }", "f:1:31: unknown instruction 'g'"},
      {"combine max(a: f32; b: f32) = a identity 0", "f:1:9: 'max' is declared twice"},
      {"combine m(a: f32; b: f64) = a identity 0", "f:1:19: the two states differ in their types"},
      {"kernel f(out y: f32) { y = 1", "f:1:29: expected a buffer's name, found the end"},
  };
  for (const auto& [text, message] : cases) {
    try {
      parseKernels(text, "f");
      ADD_FAILURE() << "accepted: " << text;
    } catch (const UserError& e) {
      EXPECT_STREQ(e.what(), message);
    }
  }
}

TEST(Combine, FirstExtremeCountsNan) {
  const Combine c = argCombine(true, DType::F32);
  const auto joined = [&](double m, int i, double n, int j) {
    return c.join({imm(DType::F32, m), Expr(i)}, {imm(DType::F32, n), Expr(j)});
  };
  EXPECT_EQ(joined(1, 4, 2, 7).size(), 2u);
  EXPECT_EQ(toText(c.identity[0]), "-inf");
}

}  // namespace
}  // namespace tektite
