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

}  // namespace
}  // namespace tektite
