#pragma once
#include "backends/npu/mlir_text.h"

namespace tektite {

/// Prints a loop as vector instructions if all that it does has one: elements at unit distance, scalars beside them, sums and extrema
/// of a row. `ranges` bound the extent. False, and nothing is printed, where it hasn't; `ask`: only says whether.
bool printVectorLoop(MlirText&, const For&, const Ranges& ranges, bool ask = false);

}  // namespace tektite
