#pragma once
#include "ops/op.h"

namespace tektite {

/// Integer forms of real numbers, as several operators round to them and compute with them.

/// u8 by the range of the data, 0 in it; scale and zero point have rank 0.
struct Quantized {
  Value values, scale, zero;
};
Quantized quantizedToRange(Builder&, Value x);
/// round(x / scale) + zero in the type's range; to even where two are as near.
Value rounded(Builder&, Value x, Value scale, Value zero, DType to);
/// x - zero as i32; no zero point is 0.
Value centred(Builder&, Value x, Value zero);

}  // namespace tektite
