#pragma once
#include "ops/op.h"

namespace tektite {

/// The matrix product of numpy's matmul: any ranks, batch axes broadcast.
Value product(Builder&, Value x, Value y, std::optional<DType> accumulator = {});

/// The geometry of sliding windows over the last axes: convolutions and pools.
struct Windows {
  std::vector<int64_t> kernel, strides, dilations, before, after;
  std::vector<Expr> out;  ///< extents of the result
};
/// From the attributes strides, dilations, pads, auto_pad, ceil_mode and the extents of the last axes of `x`.
Windows windowsOf(const Builder&, const OpCall&, Value x, std::vector<int64_t> kernel);

/// A list attribute of so many numbers, all `otherwise` where it isn't given or empty; UserError: one is absurd, or less than 1 where that is
/// the standard value.
std::vector<int64_t> listOf(const OpCall&, std::string_view attribute, size_t size,
                            int64_t otherwise);
/// The last axes of a convolution's weight; UserError where the attribute kernel_shape says other numbers.
std::vector<int64_t> kernelOf(const Builder&, const OpCall&, Value weight);
/// UserError: input and weight of a convolution have different ranks, or fewer than 3.
void checkRanks(const Builder&, Value x, Value weight);
std::string letters(char from, size_t n);  ///< "pqr": labels of axes

/// A convolution without its bias; groups become a label.
Value convolution(Builder&, Value x, Value w, const Windows&, int64_t groups,
                  std::optional<DType> accumulator, Expr fill);

}  // namespace tektite
