#include "backends/npu/mlir_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {
namespace {

std::string realText(DType t, double v) {
  if (std::isnan(v) || std::isinf(v)) {  // its bits
    const bool half = bytes(t) == 2;
    if (t == DType::F64)
      return std::isnan(v) ? "0x7FF8000000000000"
             : v > 0       ? "0x7FF0000000000000"
                           : "0xFFF0000000000000";
    if (half && t == DType::F16) return std::isnan(v) ? "0x7E00" : v > 0 ? "0x7C00" : "0xFC00";
    if (half) return std::isnan(v) ? "0x7FC0" : v > 0 ? "0x7F80" : "0xFF80";
    return std::isnan(v) ? "0x7FC00000" : v > 0 ? "0x7F800000" : "0xFF800000";
  }
  return fmt::format("{:.17e}", v);
}

/// What `arith` calls an operation of floats, of signed integers and of unsigned ones.
struct Named3 {
  const char *real, *integer, *unsignedInteger;
};
const std::map<Op, Named3>& binaries() {
  static const std::map<Op, Named3> table = {
      {Op::Add, {"addf", "addi", "addi"}},
      {Op::Sub, {"subf", "subi", "subi"}},
      {Op::Mul, {"mulf", "muli", "muli"}},
      {Op::Div, {"divf", nullptr, nullptr}},
      {Op::FloorDiv, {nullptr, "floordivsi", "divui"}},
      {Op::TruncDiv, {nullptr, "divsi", "divui"}},
      {Op::TruncMod, {nullptr, "remsi", "remui"}},
      {Op::Max, {"maximumf", "maxsi", "maxui"}},
      {Op::Min, {"minimumf", "minsi", "minui"}},
      {Op::And, {nullptr, "andi", "andi"}},
      {Op::Or, {nullptr, "ori", "ori"}},
      {Op::Xor, {nullptr, "xori", "xori"}},
      {Op::Shl, {nullptr, "shli", "shli"}},
      {Op::Shr, {nullptr, "shrsi", "shrui"}},
  };
  return table;
}
const std::map<Op, const char*>& functions() {
  static const std::map<Op, const char*> table = {
      {Op::Sqrt, "sqrt"},   {Op::Floor, "floor"},    {Op::Ceil, "ceil"},   {Op::Trunc, "trunc"},
      {Op::Exp, "exp"},     {Op::Log, "log"},        {Op::Log1p, "log1p"}, {Op::Expm1, "expm1"},
      {Op::Erf, "erf"},     {Op::Tanh, "tanh"},      {Op::Sin, "sin"},     {Op::Cos, "cos"},
      {Op::Tan, "tan"},     {Op::Asin, "asin"},      {Op::Acos, "acos"},   {Op::Atan, "atan"},
      {Op::Sinh, "sinh"},   {Op::Cosh, "cosh"},      {Op::Asinh, "asinh"}, {Op::Acosh, "acosh"},
      {Op::Atanh, "atanh"}, {Op::Round, "roundeven"}};
  return table;
}

}  // namespace

std::string MlirText::typeOf(DType t) {
  if (t == DType::I64 || t == DType::U64) return "i64";
  if (t == DType::BF16) return "bf16";
  if (t == DType::Bool) return "i1";
  if (isFloat(t)) return fmt::format("f{}", 8 * bytes(t));
  return fmt::format("i{}", 8 * bytes(t));
}
std::string MlirText::memref(const std::string& shape, DType t, const std::string& space,
                             const std::string& layout) {
  const std::string element = t == DType::Bool ? "i8" : typeOf(t);
  return fmt::format("memref<{}{}{}{}>", shape, element, layout.empty() ? "" : ", " + layout,
                     space.empty() ? "" : ", #hivm.address_space<" + space + ">");
}

std::string MlirText::castOf(DType from, DType to, const std::string& v) {
  if (from == to) return v;
  const auto typed = [&](DType t) { return t == DType::I64 ? std::string("index") : typeOf(t); };
  const auto convert = [&](const char* how, const std::string& x, const std::string& a,
                           const std::string& b) {
    return a == b ? x : made(fmt::format("arith.{} {} : {} to {}", how, x, a, b));
  };
  std::string x = v, type = typed(from);
  if (type == "index") x = convert("index_cast", x, "index", "i64"), type = "i64";
  const std::string goal = to == DType::I64 ? "i64" : typeOf(to);
  if (isFloat(from) && isFloat(to))
    x = convert(bytes(from) < bytes(to) ? "extf" : "truncf", x, type, goal);
  else if (isFloat(from))
    x = convert(isSigned(to) ? "fptosi" : "fptoui", x, type, goal);
  else if (isFloat(to))
    x = convert(isSigned(from) ? "sitofp" : "uitofp", x, type, goal);
  else if (to == DType::Bool)
    x = made(
        fmt::format("arith.cmpi ne, {0}, {1} : {2}", x, made("arith.constant 0 : " + type), type));
  else if (type != goal && bits(from) < bits(to))
    x = convert(isSigned(from) ? "extsi" : "extui", x, type, goal);
  else if (type != goal)
    x = convert("trunci", x, type, goal);
  return to == DType::I64 ? convert("index_cast", x, "i64", "index") : x;
}

std::string MlirText::apply(const Expr& e, const Apply& a) {
  std::vector<std::string> args;
  for (const Expr& x : a.args) args.push_back(scalar(x));
  const DType in = a.args[a.op == Op::Select ? 1 : 0].type();
  const std::string type = in == DType::I64 ? "index" : typeOf(in);
  const auto two = [&](const char* how) {
    return made(fmt::format("{} {}, {} : {}", how, args[0], args[1], type));
  };
  const auto constant = [&](const char* real, const char* integer) {
    return made(fmt::format("arith.constant {} : {}", isFloat(in) ? real : integer, type));
  };
  if (a.op == Op::Lt || a.op == Op::Le || a.op == Op::Eq) {
    const std::string how = a.op == Op::Lt ? "lt" : a.op == Op::Le ? "le" : "eq";
    if (isFloat(in))
      return made(fmt::format("arith.cmpf o{}, {}, {} : {}", how, args[0], args[1], type));
    const std::string sign = a.op == Op::Eq ? "" : isSigned(in) ? "s" : "u";
    return made(fmt::format("arith.cmpi {}{}, {}, {} : {}", sign, how, args[0], args[1], type));
  }
  if (a.op == Op::Select)
    return made(fmt::format("arith.select {}, {}, {} : {}", args[0], args[1], args[2], type));
  if (a.op == Op::Mod) {  // the floor's remainder
    const std::string q = two(isSigned(in) ? "arith.floordivsi" : "arith.divui");
    const std::string whole = made(fmt::format("arith.muli {}, {} : {}", q, args[1], type));
    return made(fmt::format("arith.subi {}, {} : {}", args[0], whole, type));
  }
  if (a.op == Op::Not) {
    const std::string ones =
        made(in == DType::Bool ? "arith.constant true" : "arith.constant -1 : " + type);
    return made(fmt::format("arith.xori {}, {} : {}", args[0], ones, type));
  }
  if (a.op == Op::Neg && isFloat(in)) return made(fmt::format("arith.negf {} : {}", args[0], type));
  if (a.op == Op::Neg)
    return made(fmt::format("arith.subi {}, {} : {}", constant("0.0", "0"), args[0], type));
  if (a.op == Op::Abs)
    return made(fmt::format("math.{} {} : {}", isFloat(in) ? "absf" : "absi", args[0], type));
  if (a.op == Op::Fma)
    return made(fmt::format("math.fma {}, {}, {} : {}", args[0], args[1], args[2], type));
  if (a.op == Op::Pow) return two("math.powf");
  if (a.op == Op::Fmod) return two("arith.remf");
  if (a.op == Op::IsNan) return made(fmt::format("arith.cmpf uno, {0}, {0} : {1}", args[0], type));
  if (a.op == Op::IsInf) {
    const std::string x = made(fmt::format("math.absf {} : {}", args[0], type));
    const std::string most =
        made(fmt::format("arith.constant {} : {}", realText(in, INFINITY), type));
    return made(fmt::format("arith.cmpf oeq, {}, {} : {}", x, most, type));
  }
  if (a.op == Op::ToBits || a.op == Op::FromBits)
    return made(fmt::format("arith.bitcast {} : {} to {}", args[0], type, typeOf(e.type())));
  if (a.op == Op::Sigmoid) {
    const std::string one = constant("1.0", "1"),
                      x = made(fmt::format("arith.negf {} : {}", args[0], type));
    const std::string below = made(fmt::format(
        "arith.addf {}, {} : {}", one, made(fmt::format("math.exp {} : {}", x, type)), type));
    return made(fmt::format("arith.divf {}, {} : {}", one, below, type));
  }
  if (a.op == Op::Sign) {
    const std::string zero = constant("0.0", "0"), one = constant("1.0", "1"),
                      minus = constant("-1.0", "-1");
    const char *greater = isFloat(in) ? "arith.cmpf ogt" : "arith.cmpi sgt",
               *less = isFloat(in) ? "arith.cmpf olt" : "arith.cmpi slt";
    const std::string up = made(fmt::format("{}, {}, {} : {}", greater, args[0], zero, type));
    const std::string down = made(fmt::format("{}, {}, {} : {}", less, args[0], zero, type));
    const std::string low =
        made(fmt::format("arith.select {}, {}, {} : {}", down, minus, args[0], type));
    return made(fmt::format("arith.select {}, {}, {} : {}", up, one, low, type));
  }
  if (const auto at = functions().find(a.op); at != functions().end())
    return made(fmt::format("math.{} {} : {}", at->second, args[0], type));
  const auto at = binaries().find(a.op);
  TEKTITE_CHECK(at != binaries().end(), "no operation of MLIR for {}", info(a.op).name);
  const char* how = isFloat(in)                         ? at->second.real
                    : isSigned(in) || in == DType::Bool ? at->second.integer
                                                        : at->second.unsignedInteger;
  return two(("arith." + std::string(how)).c_str());
}

std::string MlirText::scalar(const Expr& e) {
  const std::string type = e.type() == DType::I64 ? "index" : typeOf(e.type());
  return std::visit(
      overloaded{[&](const Imm& i) {
                   if (e.type() == DType::Bool)
                     return made(i.integer ? "arith.constant true" : "arith.constant false");
                   if (isFloat(e.type()))
                     return made(
                         fmt::format("arith.constant {} : {}", realText(e.type(), i.real), type));
                   return made(fmt::format("arith.constant {} : {}", i.integer, type));
                 },
                 [&](const Var& v) { return variables.at(v.name); },
                 [&](const Load& l) { return loadOf(l.buffer, l.index); },
                 [&](const Cast& c) { return castOf(c.arg.type(), e.type(), scalar(c.arg)); },
                 [&](const Apply& a) { return apply(e, a); }},
      e->kind);
}

std::string MlirText::loadOf(const std::string& buffer, const std::vector<Expr>& at) {
  std::string places;
  for (const Expr& e : at) places += (places.empty() ? "" : ", ") + index(e);
  const Memory& m = memory.at(buffer);
  const std::string v = made(fmt::format("memref.load {}[{}] : {}", m.value, places, m.type));
  if (m.dtype == DType::Bool) return made(fmt::format("arith.trunci {} : i8 to i1", v));
  if (m.dtype == DType::I64) return made(fmt::format("arith.index_cast {} : i64 to index", v));
  return v;
}
void MlirText::store(const std::string& value, const std::string& buffer,
                     const std::vector<Expr>& at) {
  std::string places, v = value;
  for (const Expr& e : at) places += (places.empty() ? "" : ", ") + index(e);
  const Memory& m = memory.at(buffer);
  if (m.dtype == DType::Bool) v = made(fmt::format("arith.extui {} : i1 to i8", v));
  if (m.dtype == DType::I64) v = made(fmt::format("arith.index_cast {} : index to i64", v));
  line(fmt::format("memref.store {}, {}[{}] : {}", v, m.value, places, m.type));
}

std::optional<MlirText::View> MlirText::view(const Ref& r, const std::vector<std::string>& axes,
                                             const std::vector<std::string>& sizes) {
  const Memory& m = memory.at(r.buffer);
  Expr offset = 0;
  std::vector<int64_t> steps(axes.size(), 0);
  int64_t stride = 1;
  for (size_t d = r.index.size(); d-- > 0;) {
    Linear l = linearOf(r.index[d]);
    Expr rest = l.constant;
    for (const auto& [term, c] : l.terms) {
      const Var* v = term.as<Var>();
      const auto at = v ? std::ranges::find(axes, v->name) : axes.end();
      if (at != axes.end()) {
        steps[static_cast<size_t>(at - axes.begin())] += c * stride;
        continue;
      }
      for (const std::string& name : freeVars(term))
        if (std::ranges::count(axes, name)) return {};
      rest = rest + term * Expr(c);
    }
    offset = offset + rest * Expr(stride);
    stride *= asInteger(m.shape[d]).value_or(1);
  }
  std::string s, n, shape;
  for (int64_t& step : steps) step = step ? step : 1;  // an axis of one element
  for (size_t k = 0; k < axes.size(); k++) {
    s += fmt::format("{}{}", k ? ", " : "", steps[k]);
    n += (k ? ", " : "") + sizes[k];
    shape += "?x";
  }
  View out;
  out.type = memref(shape, m.dtype, m.space, fmt::format("strided<[{}], offset: ?>", s));
  out.value = made(fmt::format(
      "memref.reinterpret_cast {} to offset: [{}], sizes: [{}], strides: [{}] : {} to {}", m.value,
      index(simplify(offset, {})), n, s, m.type, out.type));
  return out;
}

}  // namespace tektite
