#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/device.h"
#include "backends/launch_list.h"
#include "ir/kernel.h"
#include "ir/numerics.h"
#include "ir/target.h"

namespace tektite {

struct Supports {
  bool yes = true;
  std::string why = {};  ///< where not
};

/// Prints kernels for a kind of machine, and opens one where there is one. Each registers itself in its folder; a target names its own
/// (Target::printer).
class Backend {
 public:
  const std::string_view name;
  explicit Backend(std::string_view name);
  virtual ~Backend() = default;
  /// The numbers that it plans for unless told otherwise.
  virtual Target target() const = 0;
  virtual Supports supports(const KernelModule&, const Kernel&, const Target&) const = 0;
  virtual Artifact emit(const KernelModule&, const Kernel&, const Target&, Numerics) const = 0;
  /// Makes a file of bytes; answers what it is called, so that others can name it.
  using Write = std::function<std::string(const std::string& name, const std::string& bytes)>;
  /// What `compile` writes of a kernel: its text, and what a compiler that is found here makes of it. Answers the file that holds, or
  /// with the usual options will hold, its code; "": none does.
  virtual std::string write(const std::string& name, const Artifact&, const Target&,
                            const Write&) const = 0;
  /// The same of what runs all kernels in their order without us, with the weights; where it does, constants are packed for it.
  virtual bool writesPrograms() const { return false; }
  virtual void write(const LaunchList&, const std::vector<WrittenKernel>&, const Write&) const {}
  /// Fills in Artifact::resources where a compiler that tells is found.
  virtual void findResources(const std::vector<Artifact*>&, const Target&) const {}
  /// Null where this machine has none that the target's numbers fit.
  virtual std::shared_ptr<Device> open(const Target&) const = 0;
};
std::vector<const Backend*> allBackends();             ///< by name
const Backend* findBackend(std::string_view printer);  ///< null where there is none
const Backend* backendOf(
    const Target&);  ///< null where it only plans; UserError: nobody of that name

}  // namespace tektite
