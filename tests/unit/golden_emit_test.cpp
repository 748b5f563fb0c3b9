#include "emit/c_source.h"
#include "emit/llvm_text.h"
#include "golden.h"

namespace tektite {
namespace {

TEST(Golden, LlvmTexts) {
  const auto canonical = [](const std::string& text) { return toText(parseKernels(text, "case")); };
  const auto emitted = [](const std::string& text, const GoldenSettings& settings) {
    const KernelModule module = parseKernels(text, "case");
    return emitLlvm(module, module.kernels.at(0), findTarget(settings.at("target")),
                    FastMath::Contract)
        .text;
  };
  for (const auto& file : goldenFiles("emit/llvm")) checkGoldens(file, canonical, emitted);
}

TEST(Golden, TextsLikeC) {
  const auto canonical = [](const std::string& text) { return toText(parseKernels(text, "case")); };
  for (const Language* language : {&openClC(), &cudaCpp()}) {
    const auto emitted = [&](const std::string& text, const GoldenSettings& settings) {
      const KernelModule module = parseKernels(text, "case");
      return emitC(module, module.kernels.at(0), findTarget(settings.at("target")),
                   Numerics::Ordered, *language)
          .text;
    };
    const bool openCl = language->kind == Language::OpenCl;
    for (const auto& file : goldenFiles(openCl ? "emit/opencl" : "emit/cuda"))
      checkGoldens(file, canonical, emitted);
  }
}

}  // namespace
}  // namespace tektite
