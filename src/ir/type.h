#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tektite {

/// Element types. In memory every element takes bytes(dtype): bool and the 4-bit types one byte each.
enum class DType : uint8_t {
  Bool,
  I4,
  U4,
  I8,
  U8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F16,
  BF16,
  F32,
  F64
};

std::string_view name(DType);                          ///< "f32"
std::optional<DType> dtypeFromName(std::string_view);  ///< nothing where there is no such type
int bits(DType);                                       ///< value bits: 1, 4, 8, ...
int bytes(DType);                                      ///< bytes of an element in memory
bool isFloat(DType);
bool isInteger(DType);  ///< not bool
bool isSigned(DType);   ///< signed integers and floats

/// The value of type `t` nearest to `value` (ties to even; f16, bf16, f32 rounded, f64 kept).
double roundTo(DType t, double value);
/// Wraps to the range of an integer type: two's complement; u64 is held as the int64 of the same bits.
int64_t wrapTo(DType t, int64_t value);
/// What a conversion of a float to an integer type gives: truncated, saturated, NaN 0.
int64_t saturateTo(DType t, double value);
/// Raw element access; `at` counts elements. Floats as double, integers and bool as int64.
double loadFloat(DType t, const void* data, int64_t at);
int64_t loadInteger(DType t, const void* data, int64_t at);
void storeFloat(DType t, void* data, int64_t at, double value);
void storeInteger(DType t, void* data, int64_t at, int64_t value);

}  // namespace tektite
