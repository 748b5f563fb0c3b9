#pragma once
#include <map>
#include <string>
#include <vector>

#include "backends/launch_list.h"

namespace tektite {

/// Why there can be no launcher: the host has to compute between kernels. Empty: there can.
std::string whyNoLauncher(const LaunchList&, const std::vector<WrittenKernel>&);

/// A program as C++ over CUDA's driver interface: it allocates, loads kernels and weights from files beside it, records the launch list
/// in a CUDA graph and runs that. It needs nothing of Tektite. Needs: whyNoLauncher says nothing, constants are packed.
class Launcher {
 public:
  Launcher(const LaunchList&, const std::vector<WrittenKernel>&);
  const std::string& weights() const { return weights_; }  ///< what the weights' file holds
  std::string text(const std::string& weightsFile) const;

 private:
  struct Region {
    std::string name;
    int64_t offset;
  };
  void addRegion(const Slot&);
  int64_t weightAt(const Slot&);
  std::string sizes(Slot::Kind, size_t count) const;
  void addArgument(const std::string& region, int64_t value);
  void addSlot(int slot);
  int entry(int kernel, const Launch&);
  void addStep(const Step&);

  const LaunchList& list_;
  const std::vector<WrittenKernel>& kernels_;
  std::vector<Region> regions_;  ///< of the slots
  std::map<const void*, int64_t> weightAt_;
  std::map<std::string, int> moduleAt_, entryAt_;
  std::string weights_, moduleRows_, entryRows_, argumentRows_, stepRows_;
  int arguments_ = 0;
};

}  // namespace tektite
