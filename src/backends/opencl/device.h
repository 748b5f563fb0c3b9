#pragma once
#include <memory>

#include "backends/device.h"
#include "ir/target.h"

namespace tektite {

/// The first OpenCL device that can hold the target's shared memory, through the ICD loader: a GPU if there is one. Null where there is
/// none. Program binaries are kept on disk, by source, options and device.
std::shared_ptr<Device> openOpenCl(const Target&);

}  // namespace tektite
