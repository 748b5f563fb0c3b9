#include "emit/llvm_scalar.h"

#include <algorithm>
#include <cmath>

#include "support/check.h"

namespace tektite::llvm_text {
namespace {

bool isHalf(DType t) { return t == DType::F16 || t == DType::BF16; }
int registerBits(DType t) { return t == DType::Bool ? 1 : bytes(t) * 8; }

}  // namespace

std::string Scalars::flags() const {
  return mode_ == FastMath::None               ? ""
         : mode_ == FastMath::Fast && algebra_ ? " contract reassoc arcp afn"
                                               : " contract";
}

Value Scalars::number(const Imm& i, DType t) {
  return isFloat(t) ? realValue(i.real, t) : integerValue(i.integer, t);
}

Value Scalars::like(const Value& shape, int64_t number) {
  return splat(isFloat(shape.type) ? realValue(static_cast<double>(number), shape.type)
                                   : integerValue(number, shape.type),
               shape.lanes);
}

Value Scalars::undefined(DType type, int lanes) { return {"poison", type, lanes}; }

Value Scalars::splat(const Value& v, int lanes) {
  if (v.lanes || !lanes) return v;
  Value out = v;
  out.lanes = lanes;
  if (v.constant) {
    out.text = fmt::format("splat ({})", typed(v));
    return out;
  }
  const std::string one =
      out_.set("one", "insertelement {} poison, {}, i64 0", typeOf(out), typed(v));
  out.text = out_.set("all", "shufflevector {} {}, {} poison, <{} x i32> zeroinitializer",
                      typeOf(out), one, typeOf(out), lanes);
  return out;
}

Value Scalars::lane(const Value& v, int at) {
  if (!v.lanes) return v;
  Value out = v;
  out.lanes = 0;
  if (v.constant)
    return isFloat(v.type) ? realValue(v.real, v.type) : integerValue(v.integer, v.type);
  out.text = out_.set("lane", "extractelement {}, i64 {}", typed(v), at);
  return out;
}

Value Scalars::slice(const Value& v, int from, int count) {
  if (count == 1 || !v.lanes) return lane(v, from);
  std::string which;
  for (int i = 0; i < count; i++) which += fmt::format("{}i32 {}", i ? ", " : "", from + i);
  return {out_.set("part", "shufflevector {}, {} poison, <{} x i32> <{}>", typed(v), typeOf(v),
                   count, which),
          v.type, count};
}

Value Scalars::insert(const Value& vector, const Value& element, int at) {
  return {out_.set("with", "insertelement {}, {}, i64 {}", typed(vector), typed(element), at),
          vector.type, vector.lanes};
}

Value Scalars::laneNumbers(int lanes, DType type, int64_t step) {
  std::string list;
  for (int i = 0; i < lanes; i++)
    list += fmt::format("{}{} {}", i ? ", " : "", registerType(type), i * step);
  return {fmt::format("<{}>", list), type, lanes};
}

Value Scalars::set(Op op, DType type, int lanes, std::string_view instruction, const Value& a,
                   const Value& b) {
  return {out_.set(info(op).name, "{} {}, {}", instruction, typed(a), b.text), type, lanes};
}
Value Scalars::compare(std::string_view predicate, const Value& a, const Value& b) {
  return {out_.set("is", "{} {}, {}", predicate, typed(a), b.text), DType::Bool, a.lanes};
}

Value Scalars::select(const Value& condition, const Value& yes, const Value& no) {
  const int lanes = std::max({condition.lanes, yes.lanes, no.lanes});
  const Value a = splat(yes, lanes), b = splat(no, lanes);
  return {out_.set("pick", "select {}, {}, {}", typed(condition), typed(a), typed(b)), yes.type,
          lanes};
}

Value Scalars::convert(std::string_view instruction, const Value& v, const std::string& toType,
                       DType to) {
  return {out_.set("as", "{} {} to {}", instruction, typed(v), toType), to, v.lanes};
}

Value Scalars::wrapped(Value v) {
  if (bits(v.type) != 4) return v;
  if (v.type == DType::U4)
    return {out_.set("low", "and {}, {}", typed(v), like(v, 15).text), v.type, v.lanes};
  const std::string up = out_.set("up", "shl {}, {}", typed(v), like(v, 4).text);
  return {out_.set("low", "ashr {} {}, {}", typeOf(v), up, like(v, 4).text), v.type, v.lanes};
}

Value Scalars::rounded(DType type, Value v) {
  v.type = type;
  if (type == DType::F16) {
    const std::string half =
        out_.set("half", "fptrunc {} to {}", typed(v), memoryType(type, v.lanes));
    return {out_.set("as", "fpext {} {} to {}", memoryType(type, v.lanes), half, typeOf(v)), type,
            v.lanes};
  }
  if (type != DType::BF16) return v;
  const Value bits = convert("bitcast", v, registerType(DType::I32, v.lanes), DType::I32);
  const auto binary = [&](std::string_view op, const Value& a, int64_t b) {
    return Value{out_.set("bits", "{} {}, {}", op, typed(a), like(a, b).text), DType::I32, v.lanes};
  };
  const Value odd = binary("and", binary("lshr", bits, 16), 1);
  const Value half = binary("add", odd, 0x7fff);
  const Value sum{out_.set("bits", "add {}, {}", typed(bits), half.text), DType::I32, v.lanes};
  const Value cut = binary("and", sum, -65536);
  const Value isNan = compare("fcmp uno", v, v);
  return convert("bitcast", select(isNan, like(cut, 0x7fc00000), cut), typeOf(v), type);
}

Value Scalars::fromMemory(const std::string& text, DType type, int lanes) {
  const std::string from = memoryType(type, lanes), to = registerType(type, lanes);
  if (type == DType::Bool)
    return {out_.set("is", "icmp ne {} {}, {}", from, text, lanes ? "zeroinitializer" : "0"), type,
            lanes};
  if (type == DType::F16) return {out_.set("as", "fpext {} {} to {}", from, text, to), type, lanes};
  if (type != DType::BF16) return {text, type, lanes};
  const std::string wide = vectorOf("i32", lanes);
  const std::string low = out_.set("wide", "zext {} {} to {}", from, text, wide);
  const std::string high =
      out_.set("bits", "shl {} {}, {}", wide, low, splat(integerValue(16, DType::I32), lanes).text);
  return {out_.set("as", "bitcast {} {} to {}", wide, high, to), type, lanes};
}

std::string Scalars::toMemory(const Value& v) {
  const std::string to = memoryType(v.type, v.lanes);
  if (v.type == DType::Bool) return out_.set("byte", "zext {} to {}", typed(v), to);
  if (v.type == DType::F16) return out_.set("half", "fptrunc {} to {}", typed(v), to);
  if (v.type != DType::BF16) return v.text;
  const Value bits = convert("bitcast", v, registerType(DType::I32, v.lanes), DType::I32);
  const std::string high = out_.set("bits", "lshr {}, {}", typed(bits), like(bits, 16).text);
  return out_.set("half", "trunc {} {} to {}", typeOf(bits), high, to);
}

Value Scalars::apply(Op op, std::vector<Value> args, bool nonNegative) {
  int lanes = 0;
  for (const Value& v : args) lanes = std::max(lanes, v.lanes);
  if (op == Op::Select) return select(args[0], args[1], args[2]);
  for (Value& v : args) v = splat(v, lanes);
  const Value& a = args[0];
  if (!isFloat(a.type) && op != Op::FromBits) return integer(op, args, nonNegative);
  if (op == Op::ToBits) {
    const DType to = a.type == DType::F16   ? DType::I16
                     : a.type == DType::F32 ? DType::I32
                                            : DType::I64;
    const std::string memory = memoryType(a.type, lanes);
    return {out_.set("bits", "bitcast {} {} to {}", memory, toMemory(a), registerType(to, lanes)),
            to, lanes};
  }
  if (op == Op::FromBits) {
    const DType to = a.type == DType::I16   ? DType::F16
                     : a.type == DType::I32 ? DType::F32
                                            : DType::F64;
    return fromMemory(out_.set("float", "bitcast {} to {}", typed(a), memoryType(to, lanes)), to,
                      lanes);
  }
  return real(op, args);
}

Value Scalars::saturated(DType to, const Value& v) {
  const int width = bits(to);
  const char* sign = isSigned(to) ? "s" : "u";
  if (!v.lanes && width > 4) {
    const std::string from = v.type == DType::F64 ? "f64" : "f32",
                      name = fmt::format("llvm.fpto{}i.sat.{}.{}", sign, registerType(to), from);
    return {out_.call("as", registerType(to), name, typed(v), typeOf(v)), to};
  }
  const double high = std::ldexp(1.0, isSigned(to) ? width - 1 : width),
               low = isSigned(to) ? -high : 0;
  const auto number = [&](double x) { return splat(realValue(x, v.type), v.lanes); };
  const Value real = select(compare("fcmp uno", v, v), number(0), v);
  const Value above = select(compare("fcmp olt", real, number(low)), number(low), real);
  const bool exact = width < (v.type == DType::F64 ? 53 : 24);  // the greatest integer is a float
  if (exact) {
    const Value within =
        select(compare("fcmp ogt", above, number(high - 1)), number(high - 1), above);
    const DType wide = width < 32 ? DType::I32 : to;
    const Value whole = convert(fmt::format("fpto{}i", width < 32 ? "s" : sign), within,
                                registerType(wide, v.lanes), wide);
    return wide == to ? whole : cast(to, whole);
  }
  const Value whole = convert(fmt::format("fpto{}i", sign), above, registerType(to, v.lanes), to);
  const Value fixed{out_.set("as", "freeze {}", typed(whole)), to, v.lanes};
  return select(
      compare("fcmp oge", v, number(high)),
      splat(integerValue(isSigned(to) ? wrapTo(to, ~(int64_t{1} << (width - 1))) : -1, to),
            v.lanes),
      fixed);
}

Value Scalars::cast(DType to, const Value& v) {
  const DType from = v.type;
  if (from == to) return v;
  const std::string type = registerType(to, v.lanes);
  if (isFloat(from) && isFloat(to)) {
    if (from == DType::F64) return rounded(to, convert("fptrunc", v, type, to));
    if (to == DType::F64) return convert("fpext", v, type, to);
    return isHalf(to) ? rounded(to, v) : asType(v, to);
  }
  if (isFloat(to)) return rounded(to, convert(isSigned(from) ? "sitofp" : "uitofp", v, type, to));
  if (isFloat(from)) {
    if (to == DType::Bool) return compare("fcmp one", v, like(v, 0));
    return saturated(to, v);
  }
  if (to == DType::Bool) return compare("icmp ne", v, like(v, 0));
  const int had = registerBits(from), has = registerBits(to);
  if (had == has) return wrapped(asType(v, to));
  return wrapped(convert(had > has ? "trunc" : isSigned(from) ? "sext" : "zext", v, type, to));
}

}  // namespace tektite::llvm_text
