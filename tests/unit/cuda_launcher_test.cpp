// Launchers: they compile against CUDA's header, and over a driver on the CPU they give what the interpreter gives.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "backends/cuda/nvcc.h"
#include "emit/c_source.h"
#include "kernel_harness.h"
#include "onnx/import.h"
#include "runtime/array.h"
#include "runtime/compile.h"
#include "runtime/launcher.h"

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
std::string programOnCpu(const Program& program, const Target& target, const Launcher& launcher) {
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
      TEKTITE_TESTS, sourceOf(all), recorders, launcher.text);
}

struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("tektite-launcher-{}", ::getpid());
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
  int shell(const std::string& command) const {
    return std::system(fmt::format("cd '{}' && {}", path.string(), command).c_str());
  }
};

std::vector<Array> inputsOf(const Program& program) {
  std::vector<Array> out;
  for (size_t i = 0; i < program.inputs.size(); ++i)
    out.push_back(randomArray(program.inputs[i].dtype, program.inputs[i].extents(), i + 1, 2));
  return out;
}

std::vector<Array> interpreted(const Graph& graph, const std::vector<Array>& inputs) {
  CompileOptions options;
  options.target = findTarget("cpu");
  options.interpret = true;
  options.code = false;
  const auto program = compile(graph, options);
  std::vector<Array> outputs;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Array& a : inputs) in.push_back(a.data());
  for (const TensorType& t : program->outputs) outputs.emplace_back(t.dtype, t.extents());
  for (const Array& a : outputs) out.push_back(a.data());
  Session(program, nullptr).run(in.data(), out.data());
  return outputs;
}

void expectClose(const std::string& got, const Array& expected) {
  ASSERT_EQ(got.size(), static_cast<size_t>(expected.elements() * bytes(expected.type)));
  const auto at = [&](const void* data, int64_t i) { return loadFloat(expected.type, data, i); };
  double largest = 0;
  for (int64_t i = 0; i < expected.elements(); ++i)
    largest = std::max(largest, std::fabs(at(expected.data(), i)));
  EXPECT_GT(largest, 0);
  for (int64_t i = 0; i < expected.elements(); ++i)
    ASSERT_NEAR(at(got.data(), i), at(expected.data(), i), 1e-4 * largest);
}

void checkLauncher(const std::string& name) {
  const Graph graph = prepareGraph(
      importOnnx((fs::path(TEKTITE_TESTS) / "models" / name / "model.onnx").string()), {}, {});
  CompileOptions options;
  options.target = findTarget("cuda:sm_80");
  options.code = false;
  options.packs = true;
  const auto program = compile(graph, options);
  ASSERT_EQ(whyNoLauncher(*program), "");
  std::vector<std::string> modules;
  for (const KernelInfo& k : program->kernels) modules.push_back(k.artifact.symbol + ".cubin");
  const Launcher launcher = cudaLauncher(*program, modules, "weights.bin");

  const Folder folder;
  folder.write("launcher.cpp", launcher.text);
  folder.write("weights.bin", launcher.weights);
  folder.write("all.cpp", programOnCpu(*program, options.target, launcher));
  ASSERT_EQ(folder.shell("nvcc -std=c++17 -Xcompiler -Wall,-Wextra,-Werror -c launcher.cpp"), 0);
  ASSERT_EQ(folder.shell("nvcc -x c++ -std=c++20 -O0 -w -cudart none -Xcompiler -fwrapv,-rdynamic,"
                         "-fno-strict-aliasing,-ffp-contract=off,-pthread -o all all.cpp"),
            0);
  const std::vector<Array> inputs = inputsOf(*program), expected = interpreted(graph, inputs);
  std::string command = "./all .";
  for (size_t i = 0; i < inputs.size(); ++i) {
    folder.write(fmt::format("in{}", i),
                 {static_cast<const char*>(inputs[i].data()),
                  static_cast<size_t>(inputs[i].elements() * bytes(inputs[i].type))});
    command += fmt::format(" in{}", i);
  }
  for (size_t i = 0; i < expected.size(); ++i) command += fmt::format(" out{}", i);
  ASSERT_EQ(folder.shell(command), 0);
  for (size_t i = 0; i < expected.size(); ++i)
    expectClose(testing::readText(folder.path / fmt::format("out{}", i)), expected[i]);
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
