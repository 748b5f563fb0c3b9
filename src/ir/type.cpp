#include "ir/type.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/check.h"

namespace tektite {
namespace {

struct Row {
  std::string_view name;
  int bits, bytes;
  bool isFloat, isSigned;
};
constexpr Row rows[] = {
    {"bool", 1, 1, false, false}, {"i4", 4, 1, false, true},    {"u4", 4, 1, false, false},
    {"i8", 8, 1, false, true},    {"u8", 8, 1, false, false},   {"i16", 16, 2, false, true},
    {"u16", 16, 2, false, false}, {"i32", 32, 4, false, true},  {"u32", 32, 4, false, false},
    {"i64", 64, 8, false, true},  {"u64", 64, 8, false, false}, {"f16", 16, 2, true, true},
    {"bf16", 16, 2, true, true},  {"f32", 32, 4, true, true},   {"f64", 64, 8, true, true},
};
const Row& row(DType t) { return rows[static_cast<int>(t)]; }

template <class T>
T read(const void* data, int64_t at) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + at * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}
template <class T>
void write(void* data, int64_t at, T value) {
  std::memcpy(static_cast<char*>(data) + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

/// Rounds a double to `mantissa` stored bits with least exponent `low` (ties to even).
double roundBits(double value, int mantissa, int low, double largest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent;
  std::frexp(value, &exponent);  // value = m * 2^exponent, 0.5 <= |m| < 1
  const double unit = std::ldexp(1.0, std::max(exponent - 1, low) - mantissa);
  const double rounded = std::nearbyint(value / unit) * unit;
  if (std::fabs(rounded) > largest)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded == 0 ? std::copysign(0.0, value) : rounded;
}

double halfToDouble(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  double value = exponent == 31 ? (mantissa ? std::numeric_limits<double>::quiet_NaN()
                                            : std::numeric_limits<double>::infinity())
                 : exponent     ? std::ldexp(1024 + mantissa, exponent - 25)
                                : std::ldexp(mantissa, -24);
  return h & 0x8000 ? -value : value;
}
uint16_t doubleToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  value = std::fabs(roundTo(DType::F16, value));
  if (std::isinf(value)) return sign | 0x7c00;
  if (value < std::ldexp(1.0, -14)) return sign | static_cast<uint16_t>(std::ldexp(value, 24));
  int exponent;
  const double m = std::frexp(value, &exponent);
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) +
                                      static_cast<int>(std::ldexp(m, 11)) - 1024);
}

}  // namespace

std::string_view name(DType t) { return row(t).name; }
std::optional<DType> dtypeFromName(std::string_view text) {
  for (int i = 0; i < static_cast<int>(std::size(rows)); i++)
    if (rows[i].name == text) return static_cast<DType>(i);
  return std::nullopt;
}
int bits(DType t) { return row(t).bits; }
int bytes(DType t) { return row(t).bytes; }
bool isFloat(DType t) { return row(t).isFloat; }
bool isInteger(DType t) { return !row(t).isFloat && t != DType::Bool; }
bool isSigned(DType t) { return row(t).isSigned; }

double roundTo(DType t, double value) {
  switch (t) {
    case DType::F16: return roundBits(value, 10, -14, 65504);
    case DType::BF16: return roundBits(value, 7, -126, 3.3895313892515355e38);
    case DType::F32: return static_cast<float>(value);
    default: return value;
  }
}

int64_t wrapTo(DType t, int64_t value) {
  if (t == DType::Bool) return value != 0;
  const int n = bits(t);
  if (n == 64) return value;
  const uint64_t low = static_cast<uint64_t>(value) << (64 - n);
  return isSigned(t) ? static_cast<int64_t>(low) >> (64 - n)
                     : static_cast<int64_t>(low >> (64 - n));
}

int64_t saturateTo(DType t, double value) {
  if (std::isnan(value)) return 0;
  if (t == DType::Bool) return value != 0;
  const int n = bits(t);
  if (t == DType::U64) {
    if (value <= 0) return 0;
    return value >= 0x1p64 ? -1 : static_cast<int64_t>(static_cast<uint64_t>(value));
  }
  const double high = isSigned(t) ? std::ldexp(1.0, n - 1) : std::ldexp(1.0, n);
  const double low = isSigned(t) ? -high : 0;
  if (value <= low) return static_cast<int64_t>(low);
  if (value >= high)
    return isSigned(t) && n == 64 ? std::numeric_limits<int64_t>::max()
                                  : static_cast<int64_t>(high - 1);
  return static_cast<int64_t>(value);
}

double loadFloat(DType t, const void* data, int64_t at) {
  switch (t) {
    case DType::F16: return halfToDouble(read<uint16_t>(data, at));
    case DType::BF16:
      return std::bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(data, at)) << 16);
    case DType::F32: return read<float>(data, at);
    case DType::F64: return read<double>(data, at);
    default: return static_cast<double>(loadInteger(t, data, at));
  }
}
int64_t loadInteger(DType t, const void* data, int64_t at) {
  switch (t) {
    case DType::Bool:
    case DType::U4:
    case DType::U8: return read<uint8_t>(data, at);
    case DType::I4:
    case DType::I8: return read<int8_t>(data, at);
    case DType::I16: return read<int16_t>(data, at);
    case DType::U16: return read<uint16_t>(data, at);
    case DType::I32: return read<int32_t>(data, at);
    case DType::U32: return read<uint32_t>(data, at);
    case DType::I64:
    case DType::U64: return read<int64_t>(data, at);
    default: TEKTITE_CHECK(false, "integer load of {}", name(t));
  }
  return 0;
}
void storeFloat(DType t, void* data, int64_t at, double value) {
  switch (t) {
    case DType::F16: return write(data, at, doubleToHalf(value));
    case DType::BF16: {
      if (std::isnan(value)) return write<uint16_t>(data, at, 0x7fc0);
      return write(data, at,
                   static_cast<uint16_t>(
                       std::bit_cast<uint32_t>(static_cast<float>(roundTo(t, value))) >> 16));
    }
    case DType::F32: return write(data, at, static_cast<float>(value));
    case DType::F64: return write(data, at, value);
    default: return storeInteger(t, data, at, saturateTo(t, value));
  }
}
void storeInteger(DType t, void* data, int64_t at, int64_t value) {
  switch (bytes(t)) {
    case 1: return write(data, at, static_cast<int8_t>(wrapTo(t, value)));
    case 2: return write(data, at, static_cast<int16_t>(value));
    case 4: return write(data, at, static_cast<int32_t>(value));
    default: return write(data, at, value);
  }
}

}  // namespace tektite
