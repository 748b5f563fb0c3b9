#pragma once
#include <functional>

#include "runtime/program.h"

namespace tektite {

/// Runs a program whose kernels a device has: its memory, and the launch list. What the host has to do itself (routines, control flow)
/// it does on copies. One run at a time.
class DeviceRun {
 public:
  explicit DeviceRun(std::shared_ptr<const Program>);
  ~DeviceRun();
  void run(const void* const* inputs, void* const* outputs);
  /// Step by step, as Session::runTimed; seconds of kernels are the device's own.
  void runTimed(const void* const* inputs, void* const* outputs, std::vector<double>& seconds,
                const std::function<void(int step)>& after);
  void* data(int slot);  ///< a copy of what is there
  int64_t bytes() const { return bytes_; }

 private:
  void copyIn(const void* const* inputs);
  void copyOut(void* const* outputs);
  void execute(const Step&);
  void onHost(const Step&);

  std::shared_ptr<const Program> program_;
  Device& device_;
  std::vector<void*> owned_;
  std::vector<DeviceBuffer> slots_;
  std::vector<Memory> copies_;  ///< of slots, where the host looked
  int64_t bytes_ = 0;
};

}  // namespace tektite
