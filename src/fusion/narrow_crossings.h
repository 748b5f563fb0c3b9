#pragma once
#include "fusion/trials.h"

namespace tektite {

/// What goes from kernel to kernel though its readers could compute it from less, or from what is there anyhow, is computed by them instead,
/// where all kernels that this touches take less time together.
void narrowCrossings(Clusters&, Trials&);

}  // namespace tektite
