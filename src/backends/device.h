#pragma once
#include <string>
#include <vector>

#include "emit/artifact.h"

namespace tektite {

/// A part of a device's memory.
struct DeviceBuffer {
  void* memory = nullptr;  ///< from Device::alloc
  int64_t offset = 0, bytes = 0;
};

/// A machine with its own memory that runs kernels in the order in which they are launched. One thread uses it at a time.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  virtual void* alloc(
      int64_t bytes) = 0;  ///< aligned to kDeviceAlign, zero; UserError where there is no room
  virtual void release(void* memory) = 0;
  virtual void copyIn(const DeviceBuffer& to, const void* from) = 0;
  virtual void copyOut(void* to, const DeviceBuffer& from) = 0;  ///< waits for what was launched
  virtual void copy(const DeviceBuffer& to, const DeviceBuffer& from) = 0;
  /// Compiles kernels together; from then on they can be launched by their symbols. What is loaded already costs nothing.
  virtual void load(const std::vector<const Artifact*>&) = 0;
  /// buffers: as KernelFunction says. Returns before the kernel is done.
  virtual void launch(const Artifact&, const std::vector<DeviceBuffer>& buffers,
                      const std::vector<int64_t>& dims) = 0;
  virtual void synchronize() = 0;
  /// Seconds that kernels took on the device since the last call; waits for them.
  virtual double elapsed() = 0;
};
constexpr int64_t kDeviceAlign = 512;  ///< bytes: what OpenCL devices may ask of a part of a buffer

}  // namespace tektite
