#include <cmath>

#include "emit/c_body.h"
#include "support/check.h"

namespace tektite::c_text {
namespace {

constexpr int kProduct = Value::kProduct, kSum = Value::kSum, kAtom = Value::kAtom;

bool isInt(const Interval& in) { return in.low >= INT32_MIN && in.high <= INT32_MAX; }
bool isSmallType(DType t) { return bits(t) < 32; }

/// The interval of a sum, difference or product, in more bits than any type has.
bool staysIn(Op op, const Interval& a, const Interval& b, DType type) {
  const double corners[] = {static_cast<double>(a.low), static_cast<double>(a.high)},
               others[] = {static_cast<double>(b.low), static_cast<double>(b.high)};
  double low = INFINITY, high = -INFINITY;
  for (double x : corners)
    for (double y : others) {
      const double v = op == Op::Add ? x + y : op == Op::Sub ? x - y : x * y;
      low = std::min(low, v);
      high = std::max(high, v);
    }
  const double most = std::ldexp(1.0, bits(type) - (isSigned(type) ? 1 : 0));
  return low >= (isSigned(type) ? -most : 0) && high < most;
}

}  // namespace

/// Can a sum or product of signed integers not leave its type? Indices are taken not to.
bool Body::fits(const Expr& e, const Apply& a) {
  if (e.type() == DType::I64 && loadsOf(e).empty()) return true;
  return staysIn(a.op, facts().bounds(a.args[0]), facts().bounds(a.args[1]), e.type());
}

Value Body::binary(const Expr& e, const Apply& a, std::string_view sign, int binds) {
  const Value x = emit(a.args[0]), y = emit(a.args[1]);
  Value out{fmt::format("{} {} {}", x.at(binds), sign, y.at(binds + 1)), binds, e.type()};
  out.narrow = x.narrow && y.narrow;
  return out;
}

Value Body::applyOp(const Expr& e, const Apply& a) {
  if (a.op == Op::Select) return choose(e, a);
  const DType of = a.args[0].type();
  if (of == DType::F64 || e.type() == DType::F64) helper("f64");
  switch (a.op) {
    case Op::ToBits:
      if (of == DType::F16) {
        helper("f32_to_f16");
        return {fmt::format("(i16)f32_to_f16({})", emit(a.args[0]).text), kAtom, e.type()};
      }
      helper(of == DType::F32 ? "bits_f32" : "bits_f64");
      return {fmt::format("bits_{}({})", tektite::name(of), emit(a.args[0]).text), kAtom, e.type()};
    case Op::FromBits:
      if (of == DType::I16) {
        helper("f16_to_f32");
        return {fmt::format("f16_to_f32((f16){})", emit(a.args[0]).at(kAtom)), kAtom, e.type()};
      }
      helper(of == DType::I32 ? "f32_of_bits" : "f64_of_bits");
      return {fmt::format("{}_of_bits({})", of == DType::I32 ? "f32" : "f64", emit(a.args[0]).text),
              kAtom, e.type()};
    case Op::Lt: return binary(e, a, "<", 1);
    case Op::Le: return binary(e, a, "<=", 1);
    case Op::Eq: return binary(e, a, "==", 1);
    default: break;
  }
  if (of == DType::Bool) return boolOp(a);
  return isFloat(of) ? realOp(e, a) : integerOp(e, a);
}

Value Body::boolOp(const Apply& a) {
  const auto join = [&](std::string_view sign, int binds = 1) {
    const Value x = emit(a.args[0]), y = emit(a.args[1]);
    return Value{fmt::format("{} {} {}", x.at(binds), sign, y.at(binds)), 0, DType::Bool};
  };
  switch (a.op) {
    case Op::And: return join("&&");
    case Op::Or: return join("||");
    case Op::Xor: return join("!=", kAtom);
    case Op::Not: return {"!" + emit(a.args[0]).at(kAtom), kAtom, DType::Bool};
    default: break;
  }
  TEKTITE_CHECK(false, "{} on bools", info(a.op).name);
  return {};
}

Value Body::realOp(const Expr& e, const Apply& a) {
  const DType t = e.type(), of = a.args[0].type();
  const std::string suffix = of == DType::F64 ? "f64" : "f32";
  const auto arithmetic = [&](std::string_view sign, int binds) {
    const Value v = binary(e, a, sign, binds);
    return rounded(t, v.text, v.binds);
  };
  const auto call = [&](std::string_view function) {
    std::string text;
    for (const Expr& x : a.args) text += (text.empty() ? "" : ", ") + emit(x).text;
    return Value{fmt::format("{}({})", function, text), kAtom, t};
  };
  const auto callRounded = [&](std::string_view function) {
    const Value v = call(function);
    return rounded(t, v.text, v.binds);
  };
  const auto extreme = [&](std::string_view name, bool larger) {
    const Imm* c[] = {a.args[0].as<Imm>(), a.args[1].as<Imm>()};
    const bool first = c[0] && !std::isnan(c[0]->real) && c[0]->real != 0;
    const Imm* constant = first ? c[0] : c[1];
    if (constant && !std::isnan(constant->real)) {
      const std::string x = atom(a.args[first ? 1 : 0]);
      const Value y = number(a.args[first ? 0 : 1], *constant);
      return Value{fmt::format("{0} {1} {2} ? {2} : {0}", x, larger ? "<" : ">", y.at(1)), 0, t};
    }
    const std::string function = fmt::format("{}_{}", name, suffix);
    helper(function);
    return call(function);
  };
  switch (a.op) {
    case Op::Add: return arithmetic("+", kSum);
    case Op::Sub: return arithmetic("-", kSum);
    case Op::Mul: return arithmetic("*", kProduct);
    case Op::Div: return arithmetic("/", kProduct);
    case Op::Max: return extreme("max", true);
    case Op::Min: return extreme("min", false);
    case Op::Neg: return {"-" + emit(a.args[0]).at(kAtom), kProduct, t};
    case Op::Abs: return call("fabs");
    case Op::Sign: helper("sign_" + suffix); return call("sign_" + suffix);
    case Op::Fma: return callRounded("fma");
    case Op::Ldexp: helper("ldexp_" + suffix); return callRounded("ldexp_" + suffix);
    case Op::Sqrt: return callRounded("sqrt");
    case Op::Floor: return call("floor");
    case Op::Ceil: return call("ceil");
    case Op::Trunc: return call("trunc");
    case Op::Round: return call("rint");
    case Op::IsNan: {
      const std::string x = atom(a.args[0]);
      return {fmt::format("{0} != {0}", x), 1, DType::Bool};
    }
    case Op::IsInf: {
      const Value v{fmt::format("fabs({}) == {}INFINITY", emit(a.args[0]).text,
                                of == DType::F64 ? "(double)" : ""),
                    1, DType::Bool};
      return v;
    }
    case Op::Sigmoid:
      return {fmt::format("1.0 / (1.0 + exp(-{}))", emit(a.args[0]).at(kAtom)), kProduct, t};
    default: return callRounded(info(a.op).name);
  }
}

Value Body::integerOp(const Expr& e, const Apply& a) {
  const DType t = e.type();
  const std::string type(registerType(t)), name(tektite::name(t));
  const bool isIndex = t == DType::I64;
  /// To the type again: small ones are computed as int.
  const auto wrapped = [&](Value v) {
    v.type = t;
    if (bits(t) == 4) {
      helper("wrap_" + name);
      return Value{fmt::format("wrap_{}({})", name, v.text), kAtom, t};
    }
    if (isSmallType(t)) return Value{fmt::format("({}){}", type, v.at(kAtom)), kAtom, t};
    return v;
  };
  const auto narrowed = [&](Value v) {  // an index computed of ints: is it one?
    if (isIndex && v.narrow && !isInt(facts().bounds(e))) {
      const Value x = emit(a.args[0]), y = a.args.size() > 1 ? emit(a.args[1]) : Value{};
      v.text = "(i64)" + x.at(kAtom) + v.text.substr(x.at(v.binds).size());
      v.narrow = false;
    }
    return v;
  };
  const auto arithmetic = [&](std::string_view sign, int binds) {
    if (isSmallType(t)) return wrapped(binary(e, a, sign, binds));
    if (!isSigned(t) || fits(e, a)) return narrowed(binary(e, a, sign, binds));
    const std::string_view wide = bits(t) == 64 ? "u64" : "u32";
    return Value{fmt::format("({0})(({1}){2} {3} ({1}){4})", type, wide, emit(a.args[0]).at(kAtom),
                             sign, emit(a.args[1]).at(kAtom)),
                 kAtom, t};
  };
  const auto bitwise = [&](std::string_view sign) {
    const Value x = emit(a.args[0]), y = emit(a.args[1]);
    Value v{fmt::format("{} {} {}", x.at(kAtom), sign, y.at(kAtom)), 0, t};
    v.narrow = x.narrow && y.narrow;
    return wrapped(v);
  };
  const auto call = [&](const std::string& function) {
    const Value x = emit(a.args[0]), y = emit(a.args[1]);
    helper(function);
    return wrapped({fmt::format("{}({}, {})", function, x.text, y.text), kAtom, t});
  };
  const auto extreme = [&](std::string_view function) {
    const Value x = emit(a.args[0]), y = emit(a.args[1]);
    const bool ints = isSmallType(t) || t == DType::I32 || (x.narrow && y.narrow);
    const std::string as = ints ? isSmallType(t) ? "(int)" : "" : fmt::format("({})", type);
    Value v{fmt::format("{}({}{}, {}{})", function, as, as.empty() ? x.text : x.at(kAtom), as,
                        as.empty() ? y.text : y.at(kAtom)),
            kAtom, t};
    v.narrow = isIndex && ints;
    return isSmallType(t) ? wrapped(v) : v;
  };
  switch (a.op) {
    case Op::Or: return bitwise("|");
    case Op::And: return bitwise("&");
    case Op::Xor: return bitwise("^");
    case Op::Not: {
      const Value x = emit(a.args[0]);
      Value v{"~" + x.at(kAtom), kProduct, t};
      v.narrow = x.narrow;
      return wrapped(v);
    }
    case Op::Add: return arithmetic("+", kSum);
    case Op::Sub: return arithmetic("-", kSum);
    case Op::Mul: return arithmetic("*", kProduct);
    case Op::FloorDiv:
    case Op::TruncDiv:
    case Op::Mod:
    case Op::TruncMod: return division(e, a);
    case Op::Max: return extreme("max");
    case Op::Min: return extreme("min");
    case Op::Shl:
    case Op::Shr: {
      const auto by = asInteger(a.args[1]);
      const Value x = emit(a.args[0]);
      if (!by || *by < 0 || *by >= bits(t) || bits(t) == 4)
        return call(fmt::format("{}_{}", info(a.op).name, name));
      if (a.op == Op::Shr) {
        Value v{fmt::format("{} >> {}", x.at(kSum), *by), 1, t};
        v.narrow = x.narrow;
        return v;
      }
      return Value{
          fmt::format("({})(({}){} << {})", type, bits(t) == 64 ? "u64" : "u32", x.at(kAtom), *by),
          kAtom, t};
    }
    case Op::Neg: {
      const Value x = emit(a.args[0]);
      if (isIndex && x.narrow && isInt(facts().bounds(e)))
        return {"-" + x.at(kAtom), kProduct, t, true};
      if (isSmallType(t)) return wrapped({"-" + x.at(kAtom), kProduct, t});
      return {fmt::format("({0})(0 - ({1}){2})", type, bits(t) == 64 ? "u64" : "u32", x.at(kAtom)),
              kAtom, t};
    }
    case Op::Abs: {
      if (!isSigned(t)) return emit(a.args[0]);
      const std::string x = atom(a.args[0]);
      const std::string minus = isSmallType(t) ? "-" + x
                                               : fmt::format("({0})(0 - ({1}){2})", type,
                                                             bits(t) == 64 ? "u64" : "u32", x);
      return wrapped({fmt::format("{0} < 0 ? {1} : {0}", x, minus), 0, t});
    }
    case Op::Sign:
      helper("sign_" + name);
      return {fmt::format("sign_{}({})", name, emit(a.args[0]).text), kAtom, t};
    default: break;
  }
  TEKTITE_CHECK(false, "{} on integers", info(a.op).name);
  return {};
}

/// `/` and `%` of C round to zero: the same where nothing is negative.
Value Body::division(const Expr& e, const Apply& a) {
  const DType t = e.type();
  const Interval x = facts().bounds(a.args[0]), y = facts().bounds(a.args[1]);
  const bool quotient = a.op == Op::FloorDiv || a.op == Op::TruncDiv;
  const bool plain = y.low > 0 && (x.low >= 0 || !isSigned(t));
  const Value p = emit(a.args[0]), q = emit(a.args[1]);
  const bool narrow = p.narrow && q.narrow;
  if (plain && bits(t) != 4) {
    Value v{fmt::format("{} {} {}", p.at(kProduct), quotient ? "/" : "%", q.at(kAtom)), kProduct,
            t};
    if (isSmallType(t)) return {fmt::format("({})({})", registerType(t), v.text), kAtom, t};
    v.narrow = narrow;
    return v;
  }
  const DType as = narrow ? DType::I32 : t;
  const std::string function =
      fmt::format("{}_{}", a.op == Op::Mod ? "floormod" : info(a.op).name, tektite::name(as));
  helper(function);
  Value v{fmt::format("{}({}, {})", function, p.text, q.text), kAtom, t};
  v.narrow = narrow;
  if (bits(t) == 4) {
    helper(fmt::format("wrap_{}", tektite::name(t)));
    v.text = fmt::format("wrap_{}({})", tektite::name(t), v.text);
  }
  return v;
}

}  // namespace tektite::c_text
