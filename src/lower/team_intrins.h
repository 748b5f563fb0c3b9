#pragma once
#include "ir/kernel.h"

namespace tektite {

/// Adds the declarations of the instructions that a kernel's statements call and the module lacks.
void declareIntrins(KernelModule&, const Block&);

}  // namespace tektite
