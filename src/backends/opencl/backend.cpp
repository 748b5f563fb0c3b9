#include "backends/backend.h"

#include "backends/opencl/device.h"
#include "emit/c_source.h"

namespace tektite {
namespace {

class OpenClBackend : public Backend {
 public:
  OpenClBackend() : Backend("opencl") {}
  Target target() const override { return findTarget("opencl"); }
  Supports supports(const KernelModule& module, const Kernel& kernel,
                    const Target&) const override {
    const CSupport answer = supportsC(module, kernel, openClC());
    return {answer.yes, answer.why};
  }
  Artifact emit(const KernelModule& module, const Kernel& kernel, const Target& target,
                Numerics numerics) const override {
    return emitC(module, kernel, target, numerics, openClC());
  }
  std::string write(const std::string& name, const Artifact& artifact, const Target&,
                    const Write& to) const override {
    return to(name + ".cl", sourceOf({&artifact}));
  }
  std::shared_ptr<Device> open(const Target& target) const override { return openOpenCl(target); }
};
const OpenClBackend backend;

}  // namespace
}  // namespace tektite
