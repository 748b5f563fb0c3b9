#include "ir/scalar_eval.h"

#include <bit>
#include <cmath>
#include <limits>

#include "support/check.h"

namespace tektite {
namespace {

int64_t floorDivide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t floorRemainder(int64_t a, int64_t b) {
  if (b == 0) return a;
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double propagate(double a, double b, bool larger) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return larger ? (a < b ? b : a)
                : (b < a ? b : a);  // the first of equals: max(x, c) is select(x < c, c, x)
}

}  // namespace

int64_t evalInteger(Op op, DType type, std::span<const int64_t> x) {
  const bool s = isSigned(type);
  const int64_t a = x[0], b = x.size() > 1 ? x[1] : 0;
  const uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  const int width = bits(type);
  const auto wrap = [&](uint64_t v) { return wrapTo(type, static_cast<int64_t>(v)); };
  switch (op) {
    case Op::Or: return wrap(ua | ub);
    case Op::And: return wrap(ua & ub);
    case Op::Xor: return wrap(ua ^ ub);
    case Op::Not: return type == DType::Bool ? !a : wrap(~ua);
    case Op::Lt: return s ? a < b : ua < ub;
    case Op::Le: return s ? a <= b : ua <= ub;
    case Op::Eq: return a == b;
    case Op::Add: return wrap(ua + ub);
    case Op::Sub: return wrap(ua - ub);
    case Op::Mul: return wrap(ua * ub);
    case Op::FloorDiv: return wrap(s ? static_cast<uint64_t>(floorDivide(a, b)) : b ? ua / ub : 0);
    case Op::Mod: return wrap(s ? static_cast<uint64_t>(floorRemainder(a, b)) : b ? ua % ub : ua);
    case Op::TruncDiv:
      return wrap(!b ? 0 : !s ? ua / ub : b == -1 ? 0 - ua : static_cast<uint64_t>(a / b));
    case Op::TruncMod:
      return wrap(!b ? ua : !s ? ua % ub : b == -1 ? 0 : static_cast<uint64_t>(a % b));
    case Op::Max: return (s ? a < b : ua < ub) ? b : a;
    case Op::Min: return (s ? a < b : ua < ub) ? a : b;
    case Op::Select: return a ? b : x[2];
    case Op::Shl: return ub >= static_cast<uint64_t>(width) ? 0 : wrap(ua << b);
    case Op::Shr: {
      const int64_t by = ub >= static_cast<uint64_t>(width) ? width : b;
      if (s) return a >> std::min<int64_t>(by, 63);
      return by >= 64 ? 0 : wrap(ua >> by);
    }
    case Op::Neg: return wrap(0 - ua);
    case Op::Abs: return s && a < 0 ? wrap(0 - ua) : a;
    case Op::Sign: return s ? (a > 0) - (a < 0) : ua != 0;
    default: break;
  }
  TEKTITE_CHECK(false, "{} on integers", info(op).name);
  return 0;
}

double evalFloat(Op op, std::span<const double> x) {
  const double a = x[0], b = x.size() > 1 ? x[1] : 0;
  switch (op) {
    case Op::Lt: return a < b;
    case Op::Le: return a <= b;
    case Op::Eq: return a == b;
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Max: return propagate(a, b, true);
    case Op::Min: return propagate(a, b, false);
    case Op::Select: return a != 0 ? b : x[2];
    case Op::Neg: return -a;
    case Op::Abs: return std::fabs(a);
    case Op::Sign: return std::isnan(a) ? a : (a > 0) - (a < 0);
    case Op::Fma: return std::fma(a, b, x[2]);
    case Op::Ldexp: return a * std::exp2(b);
    case Op::Sqrt: return std::sqrt(a);
    case Op::Floor: return std::floor(a);
    case Op::Ceil: return std::ceil(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Round: return std::nearbyint(a);
    case Op::Exp: return std::exp(a);
    case Op::Expm1: return std::expm1(a);
    case Op::Log: return std::log(a);
    case Op::Log1p: return std::log1p(a);
    case Op::Erf: return std::erf(a);
    case Op::Tanh: return std::tanh(a);
    case Op::Sigmoid: return 1 / (1 + std::exp(-a));
    case Op::Sin: return std::sin(a);
    case Op::Cos: return std::cos(a);
    case Op::Tan: return std::tan(a);
    case Op::Asin: return std::asin(a);
    case Op::Acos: return std::acos(a);
    case Op::Atan: return std::atan(a);
    case Op::Sinh: return std::sinh(a);
    case Op::Cosh: return std::cosh(a);
    case Op::Asinh: return std::asinh(a);
    case Op::Acosh: return std::acosh(a);
    case Op::Atanh: return std::atanh(a);
    case Op::Pow: return std::pow(a, b);
    case Op::Fmod: return std::fmod(a, b);
    case Op::IsNan: return std::isnan(a);
    case Op::IsInf: return std::isinf(a);
    default: break;
  }
  TEKTITE_CHECK(false, "{} on floats", info(op).name);
  return 0;
}

int64_t evalToBits(DType type, double value) {
  char raw[8] = {};
  storeFloat(type, raw, 0, value);
  return type == DType::F16 ? loadInteger(DType::I16, raw, 0)
                            : loadInteger(type == DType::F32 ? DType::I32 : DType::I64, raw, 0);
}
double evalFromBits(DType type, int64_t bits) {
  char raw[8] = {};
  storeInteger(type == DType::F16   ? DType::I16
               : type == DType::F32 ? DType::I32
                                    : DType::I64,
               raw, 0, bits);
  return loadFloat(type, raw, 0);
}

}  // namespace tektite
