// Launchers: they compile against CUDA's header, and over a driver on the CPU they give what the interpreter gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../model_case.h"
#include "backends/cuda/launcher.h"
#include "backends/cuda/nvcc.h"
#include "emit/c_source.h"
#include "ir/bytes.h"
#include "kernel_harness.h"
#include "test_folder.h"

namespace tektite {
namespace {

namespace fs = std::filesystem;

void addRecorders(const std::vector<Launch>& launches, std::string& out) {
  for (const Launch& l : launches) {
    addRecorders(l.body, out);
    if (l.kind == Launch::Entry)
      out += fmt::format(
          "extern \"C\" void {0}_on_cpu(void** a, int b, int t) {{ "
          "fake::recordKernel({0}, a, b, t); }}\n",
          l.entry);
  }
}

/// Launcher, driver and kernels as one program for the CPU.
std::string programOnCpu(const Program& program, const Target& target,
                         const std::string& launcher) {
  std::vector<Artifact> kernels;
  for (const KernelInfo& k : program.kernels) {
    if (k.sameAs >= 0) continue;
    KernelModule module = parseKernels(k.text, k.name);
    module.kernels[0].name = k.artifact.symbol;
    kernels.push_back(emitC(module, module.kernels[0], target, Numerics::Ordered, plainCpp()));
  }
  std::vector<const Artifact*> all;
  std::string recorders;
  for (const Artifact& a : kernels) {
    all.push_back(&a);
    addRecorders(a.launches, recorders);
  }
  return fmt::format(
      "#include \"{0}/cuda_on_cpu.h\"\n#include \"{0}/cuda_driver_on_cpu.h\"\n{1}\n{2}\n{3}",
      TEKTITE_TESTS, sourceOf(all), recorders, launcher);
}

struct Folder : TestFolder {
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  }
  int shell(const std::string& command) const {
    return std::system(fmt::format("cd '{}' && {}", path, command).c_str());
  }
};

std::vector<TensorAttribute> inputsOf(const Program& program) {
  std::vector<TensorAttribute> out;
  for (const TensorType& t : program.inputs)
    out.push_back(tensorFrom(carriedFrom(randomArray(t.dtype, t.extents(), out.size() + 1, 2))));
  return out;
}

void expectClose(const std::string& got, const TensorAttribute& expected) {
  const DType t = expected.type.dtype;
  ASSERT_EQ(got.size(), static_cast<size_t>(bytesOf(expected.type)));
  double largest = 0;
  for (int64_t i = 0; i < expected.type.elements(); ++i)
    largest = std::max(largest, std::fabs(loadFloat(t, expected.data->data, i)));
  EXPECT_GT(largest, 0);
  for (int64_t i = 0; i < expected.type.elements(); ++i)
    ASSERT_NEAR(loadFloat(t, got.data(), i), loadFloat(t, expected.data->data, i), 1e-4 * largest);
}

void checkLauncher(const std::string& name) {
  const Graph graph = prepareGraph(
      importOnnx((fs::path(TEKTITE_TESTS) / "models" / name / "model.onnx").string()), {}, {});
  CompileOptions options;
  options.target = findTarget("cuda:sm_80");
  options.code = false;
  options.packs = true;
  const auto program = compile(graph, options);
  std::vector<WrittenKernel> kernels;
  for (const KernelInfo& k : program->kernels)
    kernels.push_back({k.name, &k.artifact, k.artifact.symbol + ".cubin"});
  ASSERT_EQ(whyNoLauncher(*program, kernels), "");
  const Launcher launcher(*program, kernels);
  const std::string text = launcher.text("weights.bin");

  const Folder folder;
  folder.write("launcher.cpp", text);
  folder.write("weights.bin", launcher.weights());
  folder.write("all.cpp", programOnCpu(*program, options.target, text));
  ASSERT_EQ(folder.shell("nvcc -std=c++17 -Xcompiler -Wall,-Wextra,-Werror -c launcher.cpp"), 0);
  ASSERT_EQ(folder.shell("nvcc -x c++ -std=c++20 -O0 -w -cudart none -Xcompiler -fwrapv,-rdynamic,"
                         "-fno-strict-aliasing,-ffp-contract=off,-pthread -o all all.cpp"),
            0);
  const auto inputs = inputsOf(*program), expected = interpret(graph, inputs);
  std::string command = "./all .";
  for (size_t i = 0; i < inputs.size(); ++i) {
    folder.write(fmt::format("in{}", i), {static_cast<const char*>(inputs[i].data->data),
                                          static_cast<size_t>(bytesOf(inputs[i].type))});
    command += fmt::format(" in{}", i);
  }
  for (size_t i = 0; i < expected.size(); ++i) command += fmt::format(" out{}", i);
  ASSERT_EQ(folder.shell(command), 0);
  for (size_t i = 0; i < expected.size(); ++i)
    expectClose(testing::readText(fmt::format("{}/out{}", folder.path, i)), expected[i]);
}

TEST(CudaLauncher, GivesWhatTheInterpreterGives) {
  if (!hasNvcc()) GTEST_SKIP() << "no nvcc";
  for (const char* model : {"convnet", "transformer", "recurrent"}) {
    SCOPED_TRACE(model);
    checkLauncher(model);
  }
}

}  // namespace
}  // namespace tektite
