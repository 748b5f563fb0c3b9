#pragma once
#include "fusion/trials.h"

namespace tektite {

/// A wide copy of something narrow that goes from kernel to kernel is computed by its readers instead, where all kernels that this
/// touches take no longer together.
void narrowCrossings(Clusters&, Trials&);

}  // namespace tektite
