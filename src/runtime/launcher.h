#pragma once
#include <string>
#include <vector>

#include "runtime/program.h"

namespace tektite {

/// A program as C++ over CUDA's driver interface: it allocates, loads kernels and weights from files beside it, records the launch list
/// in a CUDA graph and runs that. It needs nothing of Tektite.
struct Launcher {
  std::string text;
  std::string weights;  ///< what the weights' file holds
};
/// Why there can be none: the host has to compute between kernels. Empty: there can.
std::string whyNoLauncher(const Program&);
/// `modules`: for each kernel of the program the file with its code. Needs: whyNoLauncher says nothing, constants are packed.
Launcher cudaLauncher(const Program&, const std::vector<std::string>& modules,
                      const std::string& weightsFile);

}  // namespace tektite
