#include "backends/backend.h"

#include "backends/cpu/compiler.h"
#include "emit/llvm_text.h"
#include "ir/kernel_walk.h"

namespace tektite {
namespace {

FastMath fastMath(Numerics numerics) {
  switch (numerics) {
    case Numerics::Strict: return FastMath::None;
    case Numerics::Ordered: return FastMath::Contract;
    case Numerics::Fast: return FastMath::Fast;
  }
  return FastMath::None;
}

/// CPUs. No Device: one call per thread of a team runs a whole launch list (runtime/team.h), on the caller's memory.
class CpuBackend : public Backend {
 public:
  CpuBackend() : Backend("llvm") {}
  Target target() const override { return hostTarget(); }
  Supports supports(const KernelModule&, const Kernel& kernel, const Target&) const override {
    Supports answer;
    Path path;
    walk(kernel.body, path,
         {[&](const Stmt& s, Path&) {
            const For* f = s.as<For>();
            if (f && (f->mode == LoopMode::Warp || f->mode == LoopMode::Thread))
              answer = {false, fmt::format("a {} loop", tektite::name(f->mode))};
          },
          nullptr});
    return answer;
  }
  Artifact emit(const KernelModule& module, const Kernel& kernel, const Target& target,
                Numerics numerics) const override {
    return emitLlvm(module, kernel, target, fastMath(numerics));
  }
  std::string write(const std::string& name, const Artifact& artifact, const Target& target,
                    const Write& to) const override {
    to(name + ".ll", artifact.text);
    return to(name + ".s", compileAssembly(artifact.text, target));
  }
  std::shared_ptr<Device> open(const Target&) const override { return nullptr; }
};
const CpuBackend cpu;

}  // namespace
}  // namespace tektite
