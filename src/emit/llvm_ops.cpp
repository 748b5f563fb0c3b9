#include <cmath>

#include "emit/llvm_scalar.h"
#include "support/check.h"

namespace tektite::llvm_text {

Value Scalars::intrinsic(std::string_view name, const std::vector<Value>& args) {
  const Value& a = args[0];
  const std::string element = !isFloat(a.type)       ? registerType(a.type)
                              : a.type == DType::F64 ? "f64"
                                                     : "f32";
  std::string values, types;
  for (const Value& v : args) {
    values += (values.empty() ? "" : ", ") + typed(v);
    types += (types.empty() ? "" : ", ") + typeOf(v);
  }
  const std::string full =
      fmt::format("llvm.{}.{}{}", name, a.lanes ? fmt::format("v{}", a.lanes) : "", element);
  return {out_.call(name, typeOf(a), full, values, types, isFloat(a.type) ? flags() : ""), a.type,
          a.lanes};
}

/// A function of the C library, lane by lane.
Value Scalars::library(Op op, const std::vector<Value>& args) {
  if (op == Op::Sigmoid) {
    const Value one = like(args[0], 1), e = library(Op::Exp, {real(Op::Neg, {args[0]})});
    return real(Op::Div, {one, real(Op::Add, {one, e})});
  }
  const DType type = args[0].type;
  const std::string scalar = registerType(type);
  const std::string function = std::string(info(op).name) + (scalar == "float" ? "f" : "");
  const int lanes = args[0].lanes;
  Value out = undefined(type, lanes);
  for (int i = 0; i < std::max(lanes, 1); i++) {
    std::string values, types;
    for (const Value& v : args) {
      values += (values.empty() ? "" : ", ") + typed(lane(v, i));
      types += (types.empty() ? "" : ", ") + scalar;
    }
    out_.declare(fmt::format("declare {} @{}({}) nounwind willreturn memory(none)", scalar,
                             function, types));
    const Value one{out_.set(info(op).name, "call {} @{}({})", scalar, function, values), type};
    out = lanes ? insert(out, one, i) : one;
  }
  return out;
}

Value Scalars::fma(const std::vector<Value>& x) {
  if (target_.fma || x[0].type == DType::F64) return intrinsic("fma", x);
  std::vector<Value> wide;  // a machine without the instruction: the product is exact in double
  for (const Value& v : x)
    wide.push_back(convert("fpext", v, registerType(DType::F64, v.lanes), DType::F64));
  const Value product = real(Op::Mul, {wide[0], wide[1]}), sum = real(Op::Add, {product, wide[2]});
  return convert("fptrunc", sum, typeOf(x[0]), x[0].type);
}

/// x * 2^n. AVX-512 has an instruction; elsewhere the power is two factors, of half the exponent each: a sum with 1.5 * 2^digits leaves
/// n and twice the bias in the low bits.
Value Scalars::ldexp(const Value& x, const Value& n) {
  const int lanes = x.lanes;
  if (target_.maskedMoves && x.type != DType::F64 && (lanes == 4 || lanes == 8 || lanes == 16)) {
    const bool widest = lanes == 16;
    const std::string mask = widest ? "i16" : "i8", type = typeOf(x);
    return {out_.call("ldexp", type, fmt::format("llvm.x86.avx512.mask.scalef.ps.{}", lanes * 32),
                      fmt::format("{}, {}, {} zeroinitializer, {} -1{}", typed(x), typed(n), type,
                                  mask, widest ? ", i32 4" : ""),
                      fmt::format("{0}, {0}, {0}, {1}{2}", type, mask, widest ? ", i32" : "")),
            x.type, lanes};
  }
  const bool wide = x.type == DType::F64;
  const DType real = wide ? DType::F64 : DType::F32, whole = wide ? DType::I64 : DType::I32;
  const int digits = wide ? 52 : 23;
  const int64_t exponents = wide ? 0x7ff0000000000000 : 0x7f800000;
  const double base = std::ldexp(1.5, digits) + (wide ? 2046 : 254);
  // Exact, so that what took the same number off a sum gives that sum: no addition is left.
  const Value sum{out_.set("sum", "fadd reassoc nsz {}, {}", typed(asType(n, real)),
                           splat(realValue(base, real), lanes).text),
                  real, lanes};
  const Value low = convert("bitcast", sum, registerType(whole, lanes), whole);
  const auto up = [&](int by) { return shift(Op::Shl, low, like(low, by)); };
  const Value half = integer(Op::And, {up(digits - 1), like(low, exponents)}, false);
  const Value rest = integer(Op::Sub, {up(digits), half}, false);
  const auto power = [&](const Value& bits) {
    return convert("bitcast", bits, registerType(real, lanes), real);
  };
  const Value once = this->real(Op::Mul, {asType(x, real), power(half)});
  return asType(this->real(Op::Mul, {once, power(rest)}), x.type);
}

/// max and min: the first of equals, NaN where one is NaN. With a number that is not NaN one comparison does.
Value Scalars::extreme(Op op, const Value& a, const Value& b) {
  const bool larger = op == Op::Max;
  if (!isFloat(a.type)) {
    const std::string predicate = fmt::format("icmp {}lt", isSigned(a.type) ? "s" : "u");
    return select(larger ? compare(predicate, a, b) : compare(predicate, b, a), b, a);
  }
  const bool first = a.constant && !std::isnan(a.real) && a.real != 0;
  const Value &x = first ? b : a, &y = first ? a : b;
  const auto better =
      [&](const Value& than) {  // one instruction on x86: a comparison with NaN fails
        return select(larger ? compare("fcmp olt", than, y) : compare("fcmp olt", y, than), y,
                      than);
      };
  if (y.constant && !std::isnan(y.real)) return better(x);
  return better(select(compare("fcmp uno", y, y), y, x));
}

Value Scalars::real(Op op, const std::vector<Value>& x) {
  const Value& a = x[0];
  const DType type = a.type;
  const auto arithmetic = [&](std::string_view instruction) {
    return rounded(type, set(op, type, a.lanes, std::string(instruction) + flags(), a, x[1]));
  };
  switch (op) {
    case Op::Lt: return compare("fcmp olt", a, x[1]);
    case Op::Le: return compare("fcmp ole", a, x[1]);
    case Op::Eq: return compare("fcmp oeq", a, x[1]);
    case Op::Add: return arithmetic("fadd");
    case Op::Sub: return arithmetic("fsub");
    case Op::Mul: return arithmetic("fmul");
    case Op::Div: return arithmetic("fdiv");
    case Op::Max:
    case Op::Min: return extreme(op, a, x[1]);
    case Op::Neg: return {out_.set("neg", "fneg {}", typed(a)), type, a.lanes};
    case Op::Abs: return intrinsic("fabs", x);
    case Op::Sign: {
      const Value zero = like(a, 0), nan = select(compare("fcmp uno", a, a), a, zero);
      const Value below = select(compare("fcmp olt", a, zero), like(a, -1), nan);
      return select(compare("fcmp ogt", a, zero), like(a, 1), below);
    }
    case Op::Fma: return rounded(type, fma(x));
    case Op::Ldexp: return rounded(type, ldexp(a, x[1]));
    case Op::Sqrt: return rounded(type, intrinsic("sqrt", x));
    case Op::Floor: return intrinsic("floor", x);
    case Op::Ceil: return intrinsic("ceil", x);
    case Op::Trunc: return intrinsic("trunc", x);
    case Op::Round: return intrinsic("roundeven", x);
    case Op::IsNan: return compare("fcmp uno", a, a);
    case Op::IsInf:
      return compare("fcmp oeq", intrinsic("fabs", x), splat(realValue(INFINITY, type), a.lanes));
    default: return rounded(type, library(op, x));
  }
}

Value Scalars::integer(Op op, const std::vector<Value>& x, bool nonNegative) {
  const Value& a = x[0];
  const DType type = a.type;
  const std::string s = isSigned(type) ? "s" : "u";
  const auto plain = [&](std::string_view instruction) {
    return set(op, type, a.lanes, instruction, a, x[1]);
  };
  switch (op) {
    case Op::Or: return plain("or");
    case Op::And: return plain("and");
    case Op::Xor: return plain("xor");
    case Op::Not:
      return wrapped(set(op, type, a.lanes, "xor", a, like(a, type == DType::Bool ? 1 : -1)));
    case Op::Lt: return compare(type == DType::Bool ? "icmp ult" : "icmp " + s + "lt", a, x[1]);
    case Op::Le: return compare(type == DType::Bool ? "icmp ule" : "icmp " + s + "le", a, x[1]);
    case Op::Eq: return compare("icmp eq", a, x[1]);
    case Op::Add: return wrapped(plain("add"));
    case Op::Sub: return wrapped(plain("sub"));
    case Op::Mul: return wrapped(plain("mul"));
    case Op::FloorDiv:
    case Op::Mod:
    case Op::TruncDiv:
    case Op::TruncMod: return wrapped(divide(op, a, x[1], nonNegative));
    case Op::Max:
    case Op::Min: return extreme(op, a, x[1]);
    case Op::Shl:
    case Op::Shr: return wrapped(shift(op, a, x[1]));
    case Op::Neg: return wrapped(set(op, type, a.lanes, "sub", like(a, 0), a));
    case Op::Abs:
      return isSigned(type) ? wrapped(select(compare("icmp slt", a, like(a, 0)),
                                             integer(Op::Neg, x, false), a))
                            : a;
    case Op::Sign: {
      const Value one = select(compare("icmp ne", a, like(a, 0)), like(a, 1), like(a, 0));
      return isSigned(type) ? select(compare("icmp slt", a, like(a, 0)), like(a, -1), one) : one;
    }
    default: break;
  }
  TEKTITE_CHECK(false, "{} on integers", info(op).name);
  return {};
}

Value Scalars::shift(Op op, const Value& a, const Value& b) {
  const bool arithmetic = op == Op::Shr && isSigned(a.type);
  const char* instruction = op == Op::Shl ? "shl" : arithmetic ? "ashr" : "lshr";
  const int width = bits(a.type);
  const auto by = [&](const Value& amount) {
    return set(op, a.type, a.lanes, instruction, a, amount);
  };
  if (b.constant) {
    if (static_cast<uint64_t>(b.integer) < static_cast<uint64_t>(width)) return by(b);
    return arithmetic ? by(like(a, width - 1)) : like(a, 0);
  }
  const Value fits = compare("icmp ult", b, like(b, width));
  if (arithmetic) return by(select(fits, b, like(b, width - 1)));
  return select(fits, by(select(fits, b, like(b, 0))), like(a, 0));
}

/// Division by 0 is 0, the remainder is then the dividend; the least number by -1 wraps.
Value Scalars::divide(Op op, const Value& a, const Value& b, bool nonNegative) {
  if (b.constant && b.integer != 0 && b.integer != -1)
    return divideUnchecked(op, a, b, nonNegative);
  const bool quotient = op == Op::FloorDiv || op == Op::TruncDiv;
  const Value zero = like(a, 0), isZero = compare("icmp eq", b, zero);
  const bool negative = isSigned(a.type) && !nonNegative;
  const Value isMinus = negative ? compare("icmp eq", b, like(b, -1)) : Value{};
  const Value special = negative ? Value{out_.set("is", "or {}, {}", typed(isZero), isMinus.text),
                                         DType::Bool, a.lanes}
                                 : isZero;
  const Value common = divideUnchecked(op, a, select(special, like(b, 1), b), nonNegative);
  const Value byZero = select(isZero, quotient ? zero : a, common);
  if (!negative) return byZero;
  return select(isMinus, quotient ? set(Op::Neg, a.type, a.lanes, "sub", zero, a) : zero, byZero);
}

Value Scalars::divideUnchecked(Op op, const Value& a, const Value& b, bool nonNegative) {
  const bool quotient = op == Op::FloorDiv || op == Op::TruncDiv;
  const bool isUnsigned = !isSigned(a.type) || nonNegative;
  const auto plain = [&](std::string_view instruction, const Value& x, const Value& y) {
    return set(op, a.type, a.lanes, instruction, x, y);
  };
  if (isUnsigned) return plain(quotient ? "udiv" : "urem", a, b);
  if (op == Op::TruncDiv || op == Op::TruncMod) return plain(quotient ? "sdiv" : "srem", a, b);
  if (b.constant && b.integer > 0 && (b.integer & (b.integer - 1)) == 0)
    return quotient ? plain("ashr", a, like(a, __builtin_ctzll(static_cast<uint64_t>(b.integer))))
                    : plain("and", a, like(a, b.integer - 1));
  const Value rest = plain("srem", a, b), zero = like(a, 0);
  const Value inexact = compare("icmp ne", rest, zero);
  const Value signs = compare("icmp slt", plain("xor", rest, b), zero);
  const Value down{out_.set("is", "and {}, {}", typed(inexact), signs.text), DType::Bool, a.lanes};
  if (!quotient) return select(down, plain("add", rest, b), rest);
  const Value q = plain("sdiv", a, b);
  return select(down, plain("sub", q, like(q, 1)), q);
}

}  // namespace tektite::llvm_text
