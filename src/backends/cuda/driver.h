#pragma once
#include <memory>

#include "backends/device.h"
#include "ir/target.h"

namespace tektite {

/// The first GPU, through the driver and NVRTC, both loaded at run time. Null where either is missing or there is no GPU.
std::shared_ptr<Device> openCuda(const Target&);

}  // namespace tektite
