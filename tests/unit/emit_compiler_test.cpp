#include <gtest/gtest.h>

#include <thread>

#include "backends/cpu/compiler.h"
#include "emit_run.h"
#include "support/check.h"

namespace tektite {
namespace {

Target plainTarget() {
  Target t;
  t.name = "test";
  t.kind = "cpu";
  t.triple = "x86_64-unknown-linux-gnu";
  t.cpu = "x86-64";
  return t;
}

TEST(Compiler, CompiledCodeRunsAndFindsTheMathLibrary) {
  const char* text =
      "declare double @cbrt(double)\n"
      "define double @f(double %x) {\n  %y = call double @cbrt(double %x)\n  %z = fadd double %y, "
      "1.0\n  ret double %z\n}\n";
  const auto code = newLoadedCode();
  code->add(compileObject(text, plainTarget()));
  const auto f = reinterpret_cast<double (*)(double)>(code->find("f"));
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f(27), 4);
  EXPECT_EQ(code->find("g"), nullptr);
  EXPECT_NE(compileAssembly(text, plainTarget()).find("addsd"), std::string::npos);
}

TEST(Compiler, ThreadsCompileAtTheSameTime) {
  const auto code = newLoadedCode();
  std::vector<std::vector<char>> objects(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < objects.size(); i++)
    threads.emplace_back([&, i] {
      objects[i] = compileObject(fmt::format("define i64 @f{0}() {{\n  ret i64 {0}\n}}\n", i),
                                 plainTarget());
    });
  for (std::thread& t : threads) t.join();
  for (const auto& object : objects) code->add(object);
  for (size_t i = 0; i < objects.size(); i++)
    EXPECT_EQ(reinterpret_cast<int64_t (*)()>(code->find(fmt::format("f{}", i)))(),
              static_cast<int64_t>(i));
}

/// A register tile of 4 vectors by 4 rows for another processor: no value of the inner loop goes to the stack.
TEST(Compiler, OtherProcessorsByCrossCompilation) {
  Target arm = plainTarget();
  arm.triple = "aarch64-unknown-linux-gnu";
  arm.cpu = "neoverse-n1";
  const KernelModule module =
      parseKernels(R"(kernel tile(a: f32[64 x 4], b: f32[64 x 16], out c: f32[4 x 16]) {
    for t in 1 parallel {
      alloc acc: f32[4x16]@reg
      for r in 4 unroll { for l in 16 vector { acc[r, l] = 0 } }
      for k in 64 serial { for r in 4 unroll { for l in 16 vector { acc[r, l] += a[k, r] * b[k, l] } } }
      for r in 4 unroll { for l in 16 vector { c[r, l] = acc[r, l] } }
    }
  })",
                   "tile");
  const std::string text =
      compileAssembly(emitLlvm(module, module.kernels[0], arm, FastMath::Contract).text, arm);
  EXPECT_NE(text.find("fmla"), std::string::npos);
  EXPECT_EQ(text.find("Spill"), std::string::npos);
  for (const char* file : {"softmax.tk", "gemm_tail.tk", "argmax.tk"}) {
    const KernelModule other = kernelFile(file);
    EXPECT_FALSE(
        compileObject(emitLlvm(other, other.kernels[0], arm, FastMath::Contract).text, arm).empty())
        << file;
  }
}

TEST(Compiler, WrongTextIsAnInternalErrorWithTheText) {
  try {
    compileObject("define void @f() {\n  ret i32 0\n}\n", plainTarget());
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("ret i32 0"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tektite
