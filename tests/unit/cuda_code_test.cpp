// What the code of CUDA's kernels does, read from what nvcc makes of it: matrix units, asynchronous copies, wide accesses, shuffles, predicates.
#include <gtest/gtest.h>

#include "backends/cuda/nvcc.h"
#include "cuda_run.h"
#include "emit/c_source.h"
#include "fusion/fuse.h"
#include "lower/lower.h"

namespace tektite {
namespace {

struct Made {
  KernelModule module;
  TeamSchedule team;
  Artifact artifact;
};

/// The one kernel of a graph.
Made kernelOf(const std::string& text, const std::string& name, const std::string& arch,
              Numerics numerics = Numerics::Ordered) {
  const Target target = findTarget("cuda:" + arch);
  FusionOptions options;
  options.numerics = numerics;
  const Fused fused = fuse(parseGraph(text, name), target, options);
  Made out;
  for (const Node& n : fused.graph.nodes)
    if (const Group* g = n.as<Group>()) {
      EXPECT_TRUE(out.module.kernels.empty()) << name << ": more than one kernel";
      const GroupPlan plan = prepare(*g->plan, target);
      const Schedule schedule = chooseSchedule(plan, target, 0, numerics);
      out.team = schedule.team;
      out.module = lower(plan, schedule, target, name).module;
      out.artifact = emitC(out.module, out.module.kernels[0], target, numerics, cudaCpp());
    }
  return out;
}

std::string product(const std::string& type, int rows, int depth, int columns) {
  return fmt::format(
      "graph (x: {0}[{1}x{2}], w: {0}[{2}x{3}]) {{\n"
      "  %2 = contract x, w ik,kj->ij : {0}[{1}x{3}]\n"
      "  %3 = map (%2) {{ max($0, 0) }} : {0}[{1}x{3}]\n"
      "  return %3\n}}\n",
      type, rows, depth, columns);
}
const char* const kSoftmax =
    "graph (x: f32[512x4096]) {\n"
    "  %1 = reduce max x axes=[1] : f32[512x1]\n"
    "  %2 = map (x, %1) { exp($0 - $1) } : f32[512x4096]\n"
    "  %3 = reduce sum %2 axes=[1] : f32[512x1]\n"
    "  %4 = map (%2, %3) { $0 / $1 } : f32[512x4096]\n"
    "  return %4\n}\n";
std::string conditional(int n) {
  return fmt::format(
      "graph (x: f32[{0}], y: f32[{0}]) {{\n"
      "  %2 = map (x, y) {{ select($0 < 0, $0 * $1, min($0, $1) + 1) }} : f32[{0}]\n"
      "  return %2\n}}\n",
      n);
}

struct Code {
  std::map<std::string, KernelResources> resources;
  std::map<std::string, std::string> sass;  // of each kernel
};
/// Compiled together; by the kernels' names.
Code compiled(const std::vector<Made>& made, const std::string& arch) {
  std::vector<const Artifact*> artifacts;
  for (const Made& m : made) artifacts.push_back(&m.artifact);
  const auto nvcc = runNvcc(sourceOf(artifacts), arch, "");
  Code out;
  for (const auto& [entry, r] : nvcc->resources) {
    out.resources[entry] = r;
    const size_t from = nvcc->sass.find(".text." + entry + ":"),
                 to = nvcc->sass.find("\n.text.", from + 1);
    if (from != std::string::npos) out.sass[entry] = nvcc->sass.substr(from, to - from);
  }
  return out;
}
int count(const Code& code, const std::string& kernel, const std::string& instruction) {
  const auto& all = code.resources.at(kernel).instructions;
  const auto at = all.find(instruction);
  return at == all.end() ? 0 : at->second;
}
bool says(const Code& code, const std::string& kernel, const std::string& what) {
  return code.sass.at(kernel).find(what) != std::string::npos;
}

/// Branches over what others do; loops go back, and behind the last EXIT stands a branch to itself.
int forwardBranches(const std::string& sass) {
  int n = 0;
  for (size_t at = 0; (at = sass.find("BRA `(", at)) != std::string::npos; at++) {
    const size_t from = at + 6;
    n += sass.find("\n" + sass.substr(from, sass.find(')', from) - from) + ":") > at;
  }
  return n;
}

class CudaCode : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaCode, UsesTheMachine) {
  if (!hasNvcc() || !hasNvdisasm()) GTEST_SKIP() << "no nvcc or no nvdisasm";
  const std::string arch = GetParam();
  std::vector<Made> made;
  for (const char* type : {"f16", "bf16", "f32"})
    made.push_back(kernelOf(product(type, 512, 512, 512), std::string("gemm_") + type, arch));
  made.push_back(kernelOf(product("f32", 512, 512, 512), "gemm_tf32", arch, Numerics::Fast));
  made.push_back(kernelOf(kSoftmax, "softmax", arch));
  made.push_back(kernelOf(conditional(1 << 20), "whole", arch));
  made.push_back(kernelOf(conditional(999983), "tail", arch));
  const Code code = compiled(made, arch);
  ASSERT_EQ(code.resources.size(), made.size());
  for (const auto& [kernel, r] : code.resources) EXPECT_EQ(r.spillBytes, 0) << kernel;

  for (const char* kernel : {"gemm_f16", "gemm_bf16", "gemm_tf32"})
    EXPECT_GT(count(code, kernel, "HMMA"), 0) << kernel;
  EXPECT_TRUE(says(code, "gemm_bf16", ".BF16"));
  EXPECT_TRUE(says(code, "gemm_tf32", ".TF32"));
  EXPECT_EQ(count(code, "gemm_f32", "HMMA"), 0);  // all digits, but in `fast`
  EXPECT_GT(count(code, "gemm_f32", "FFMA"), 0);
  for (const char* kernel : {"gemm_f16", "gemm_bf16", "gemm_f32", "gemm_tf32"}) {
    EXPECT_GT(count(code, kernel, "LDGSTS"), 0) << kernel << ": no asynchronous copy";
    EXPECT_TRUE(says(code, kernel, "LDGSTS.E.BYPASS.LTC128B.128") ||
                says(code, kernel, "LDGSTS.E.BYPASS.128"))
        << kernel << ": copies of less than 16 bytes";
    EXPECT_GT(count(code, kernel, "LDGDEPBAR"), 0) << kernel;
  }
  EXPECT_GT(count(code, "softmax", "SHFL"), 0);
  EXPECT_TRUE(says(code, "whole", "LDG.E.128"));
  EXPECT_TRUE(says(code, "whole", "STG.E.128"));
  for (const char* kernel : {"whole", "tail"})
    EXPECT_EQ(forwardBranches(code.sass.at(kernel)), 0) << kernel << code.sass.at(kernel);
}
INSTANTIATE_TEST_SUITE_P(Architectures, CudaCode, ::testing::Values("sm_80", "sm_90"),
                         [](const auto& p) { return std::string(p.param); });

/// While one panel is multiplied the next is on its way: two of each operand in shared memory, copied ahead of the product.
TEST(CudaCode, PanelsAreDouble) {
  for (const char* type : {"f16", "bf16", "f32"}) {
    const Made m = kernelOf(product(type, 512, 512, 512), "gemm", "sm_90");
    const std::string text = toText(m.module);
    EXPECT_NE(text.find(fmt::format("alloc rows: {}[2x", type)), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("alloc columns: {}[2x", type)), std::string::npos) << text;
    const size_t loop = text.find("for panel in"), wait = text.find("sync cp 0", loop),
                 next = text.find("async cp", wait), product = text.find("for deep in", next);
    EXPECT_LT(wait, next);
    EXPECT_LT(next, product);
    EXPECT_NE(product, std::string::npos) << text;
  }
}

/// Fragments of each type, run on the CPU, against what the instructions are declared to mean, and that against sums by hand.
TEST(CudaOnCpu, Fragments) {
  constexpr int kRows = 200, kDepth = 96, kColumns = 136;
  for (const auto& [type, numerics, digits] :
       {std::tuple("f16", Numerics::Ordered, 1e-3), std::tuple("bf16", Numerics::Ordered, 8e-3),
        std::tuple("f32", Numerics::Fast, 2e-3)}) {
    const Made m = kernelOf(product(type, kRows, kDepth, kColumns), "gemm", "sm_90", numerics);
    ASSERT_TRUE(m.team.lists.at(0).at(0).product.matrix) << type;
    const double rounding = numerics == Numerics::Fast ? 1e-5 : digits;  // of the output's type
    checkOnCpu(m.module, {{}}, findTarget("test:sm_80"), rounding);

    const Kernel& kernel = m.module.kernels[0];
    testing::Tensors t = testing::makeTensors(kernel, {}, 1);
    testing::runKernel(m.module, t, {});
    const auto &x = t.at(kernel.params.at(0).buffer.name),
               &w = t.at(kernel.params.at(1).buffer.name),
               &y = t.at(kernel.params.at(2).buffer.name);
    double most = 0, wrong = 0;
    y.each([&](const std::vector<int64_t>& at) {
      double sum = 0;
      for (int64_t k = 0; k < kDepth; k++) sum += x({at[0], k}) * w({k, at[1]});
      most = std::max(most, std::fabs(sum));
      wrong = std::max(wrong, std::fabs(y(at) - std::max(sum, 0.0)));
    });
    EXPECT_LT(wrong, digits * most) << type;
    if (numerics == Numerics::Fast) {
      EXPECT_GT(wrong, 1e-6 * most) << "tf32 has fewer digits";
    }
  }
}

/// Rounding to fewer digits carries into no sign, and out of no payload: all of these stay what they are.
TEST(CudaOnCpu, NotANumberStaysOneInTf32) {
  const Made m = kernelOf(product("f32", 200, 96, 136), "gemm", "sm_90", Numerics::Fast);
  ASSERT_TRUE(m.team.lists.at(0).at(0).product.matrix);
  const Kernel& kernel = m.module.kernels[0];
  const auto spoil = [&](testing::Tensors& t) {
    testing::Tensor& x = t.at(kernel.params.at(0).buffer.name);
    int64_t row = 0;
    for (const uint32_t bits : {0x7fffffffU, 0xffffffffU, 0x7f800001U, 0x7fc00000U})
      std::memcpy(&x.raw[static_cast<size_t>(x.at({row++, 5})) * 4], &bits, 4);
  };
  checkOnCpu(m.module, {{}}, findTarget("test:sm_80"), 1e-5, spoil);
  testing::Tensors t = testing::makeTensors(kernel, {}, 1);
  spoil(t);
  testing::runKernel(m.module, t, {});
  const auto& y = t.at(kernel.params.at(2).buffer.name);
  y.each([&](const std::vector<int64_t>& at) {
    EXPECT_EQ(std::isnan(y(at)), at[0] < 4) << at[0] << " " << at[1];
  });
}

}  // namespace
}  // namespace tektite
