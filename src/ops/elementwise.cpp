#include <cmath>

#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

const OpDef add{"Add", "a + b"};
const OpDef sub{"Sub", "a - b"};
const OpDef mul{"Mul", "a * b"};
const OpDef abs{"Abs", "abs(a)"};
const OpDef neg{"Neg", "-a"};
const OpDef sign{"Sign", "sign(a)"};
const OpDef sqrt{"Sqrt", "sqrt(a)"};
const OpDef reciprocal{"Reciprocal", "1 / a"};
const OpDef floor{"Floor", "floor(a)"};
const OpDef ceil{"Ceil", "ceil(a)"};
const OpDef round{"Round", "round(a)"};
const OpDef exp{"Exp", "exp(a)"};
const OpDef log{"Log", "log(a)"};
const OpDef erf{"Erf", "erf(a)"};
const OpDef sin{"Sin", "sin(a)"};
const OpDef cos{"Cos", "cos(a)"};
const OpDef tan{"Tan", "tan(a)"};
const OpDef asin{"Asin", "asin(a)"};
const OpDef acos{"Acos", "acos(a)"};
const OpDef atan{"Atan", "atan(a)"};
const OpDef sinh{"Sinh", "sinh(a)"};
const OpDef cosh{"Cosh", "cosh(a)"};
const OpDef tanh{"Tanh", "tanh(a)"};
const OpDef asinh{"Asinh", "asinh(a)"};
const OpDef acosh{"Acosh", "acosh(a)"};
const OpDef atanh{"Atanh", "atanh(a)"};
const OpDef isNan{"IsNaN", "isnan(a)"};

const OpDef less{"Less", "a < b"};
const OpDef lessOrEqual{"LessOrEqual", "a <= b"};
const OpDef greater{"Greater", "b < a"};
const OpDef greaterOrEqual{"GreaterOrEqual", "b <= a"};
const OpDef logicalAnd{"And", "a & b"};
const OpDef logicalOr{"Or", "a | b"};
const OpDef logicalXor{"Xor", "xor(a, b)"};
const OpDef logicalNot{"Not", "not(a)"};
const OpDef bitAnd{"BitwiseAnd", "a & b"};
const OpDef bitOr{"BitwiseOr", "a | b"};
const OpDef bitXor{"BitwiseXor", "xor(a, b)"};
const OpDef bitNot{"BitwiseNot", "not(a)"};
const OpDef where{"Where", "select(a, b, c)"};

const OpDef relu{"Relu", "max(a, 0)"};
const OpDef sigmoid{"Sigmoid", "sigmoid(a)"};
const OpDef softplus{"Softplus", Takes{"F"}, "max(a, 0) + log1p(exp(-abs(a)))"};
const OpDef softsign{"Softsign", Takes{"F"}, "a / (1 + abs(a))"};
const OpDef mish{"Mish", Takes{"F"}, "a * tanh(max(a, 0) + log1p(exp(-abs(a))))"};
const OpDef hardSwish{"HardSwish", Takes{"F"}, "a * max(0, min(1, a / 6 + 0.5))"};
const OpDef prelu{"PRelu", "select(a < 0, a * b, a)", 7};

// Before version 7 slopes were those of axis 1.
const OpDef prelu1{"PRelu", Takes{"n1+ =0-1"}, [](Builder& b, const OpCall& c) -> Values {
                     const Value x = c.at(0), slope = c.at(1);
                     const bool one = b.type(slope).isStatic() && b.type(slope).elements() == 1;
                     return b.map(
                         "select(a < 0, a * b, a)",
                         {x, one ? b.reshape(slope, {}) : alongAxis(b, slope, 1, b.rank(x))});
                   }};
const OpDef equal{"Equal", [](Builder& b, const OpCall& c) -> Values {
                    return b.map(b.dtype(c.at(0)) == DType::Bool ? "not(xor(a, b))" : "a == b",
                                 c.in);
                  }};
const OpDef leakyRelu{"LeakyRelu", [](Builder& b, const OpCall& c) -> Values {
                        return b.map(
                            fmt::format("select(a < 0, a * {}, a)", number(c.real("alpha", 0.01))),
                            {c.at(0)});
                      }};
const OpDef elu{"Elu", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
                  return b.map(
                      fmt::format("select(a < 0, {} * expm1(a), a)", number(c.real("alpha", 1))),
                      {c.at(0)});
                }};
const OpDef celu{"Celu", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
                   const std::string alpha = number(c.real("alpha", 1));
                   return b.map(fmt::format("max(a, 0) + min(0, {} * expm1(a / {}))", alpha, alpha),
                                {c.at(0)});
                 }};
const OpDef selu{"Selu", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
                   const double alpha = c.real("alpha", 1.67326319217681884765625),
                                gamma = c.real("gamma", 1.05070102214813232421875);
                   return b.map(fmt::format("{} * select(a <= 0, {} * expm1(a), a)", number(gamma),
                                            number(alpha)),
                                {c.at(0)});
                 }};
const OpDef hardSigmoid{
    "HardSigmoid", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
      return b.map(fmt::format("max(0, min(1, a * {} + {}))", number(c.real("alpha", 0.2)),
                               number(c.real("beta", 0.5))),
                   {c.at(0)});
    }};
const OpDef thresholdedRelu{
    "ThresholdedRelu", [](Builder& b, const OpCall& c) -> Values {
      return b.map(fmt::format("select({} < a, a, 0)", number(c.real("alpha", 1))), {c.at(0)});
    }};
const OpDef shrink{
    "Shrink", [](Builder& b, const OpCall& c) -> Values {
      const std::string bias = number(c.real("bias", 0)), lambd = number(c.real("lambd", 0.5));
      return b.map(fmt::format("select(a < -({}), a + {}, select({} < a, a - {}, 0))", lambd, bias,
                               lambd, bias),
                   {c.at(0)});
    }};
const OpDef swish{"Swish", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
                    const double alpha = c.real("alpha", 1);
                    return b.map(alpha == 1 ? std::string("a * sigmoid(a)")
                                            : fmt::format("a * sigmoid(a * {})", number(alpha)),
                                 {c.at(0)});
                  }};
const OpDef gelu{
    "Gelu", Takes{"F"}, [](Builder& b, const OpCall& c) -> Values {
      const std::string form = c.text("approximate", "none");
      if (form != "none" && form != "tanh")
        userError("attribute 'approximate' is '{}', expected 'none' or 'tanh'", form);
      return b.map(form == "none"
                       ? "0.5 * a * (1 + erf(a * 0.7071067811865476))"
                       : "0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))",
                   {c.at(0)});
    }};

// Integers truncate; of sizes (known, not negative) that is the floor, which shape arithmetic understands better.
const OpDef div{
    "Div", [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0), y = c.at(1);
      if (isFloat(b.dtype(x))) return b.map("a / b", {x, y});
      return b.map(knownNonNegative(b, x) && knownNonNegative(b, y) ? "a // b" : "truncdiv(a, b)",
                   {x, y});
    }};
const OpDef mod{"Mod", [](Builder& b, const OpCall& c) -> Values {
                  const bool truncated = c.integer("fmod", 0), real = isFloat(b.dtype(c.at(0)));
                  if (!real)
                    return b.map(truncated ? "truncmod(a, b)" : "a % b", {c.at(0), c.at(1)});
                  const Value rest = b.map("fmod(a, b)", {c.at(0), c.at(1)});
                  return truncated ? rest
                                   : b.map("select(a * sign(b) < 0, a + b, a)", {rest, c.at(1)});
                }};
const OpDef bitShift{
    "BitShift", [](Builder& b, const OpCall& c) -> Values {
      const std::string direction = c.text("direction");
      if (direction != "LEFT" && direction != "RIGHT")
        userError("attribute 'direction' is '{}', expected LEFT or RIGHT", direction);
      return b.map(direction == "LEFT" ? "shl(a, b)" : "shr(a, b)", {c.at(0), c.at(1)});
    }};
const OpDef isInf{"IsInf", [](Builder& b, const OpCall& c) -> Values {
                    const bool negative = c.integer("detect_negative", 1),
                               positive = c.integer("detect_positive", 1);
                    if (negative && positive) return b.map("isinf(a)", {c.at(0)});
                    if (!negative && !positive)
                      return b.splat(DType::Bool, 0, b.type(c.at(0)).shape);
                    return b.map(positive ? "isinf(a) & 0 < a" : "isinf(a) & a < 0", {c.at(0)});
                  }};

/// The small whole exponents that models spell squares and cubes with are products; one half is a root.
const OpDef pow{"Pow", [](Builder& b, const OpCall& c) -> Values {
                  const Value x = c.at(0), y = c.at(1);
                  const auto exponent = scalarOf(b, y);
                  if (exponent && *exponent == 1) return x;
                  if (exponent && *exponent == 2) return b.map("a * a", {x});
                  if (exponent && *exponent == 3) return b.map("a * a * a", {x});
                  if (exponent && *exponent == 0.5 && isFloat(b.dtype(x)))
                    return b.map("sqrt(a)", {x});
                  if (isFloat(b.dtype(x))) return b.map("pow(a, b)", {x, b.convert(y, b.dtype(x))});
                  return b.convert(
                      b.map("pow(a, b)", {b.convert(x, DType::F64), b.convert(y, DType::F64)}),
                      b.dtype(x));
                }};

Value fold(Builder& b, const OpCall& c, std::string_view text) {
  Value all = c.at(0);
  for (size_t i = 1; i < c.in.size(); i++) all = b.map(text, {all, c.at(i)});
  return all;
}
const OpDef maximum{"Max",
                    [](Builder& b, const OpCall& c) -> Values { return fold(b, c, "max(a, b)"); }};
const OpDef minimum{"Min",
                    [](Builder& b, const OpCall& c) -> Values { return fold(b, c, "min(a, b)"); }};
const OpDef sum{"Sum", [](Builder& b, const OpCall& c) -> Values { return fold(b, c, "a + b"); }};
const OpDef mean{"Mean", Takes{"F..."}, [](Builder& b, const OpCall& c) -> Values {
                   return b.map(fmt::format("a / {}", c.in.size()), {fold(b, c, "a + b")});
                 }};

const OpDef clip{"Clip", [](Builder& b, const OpCall& c) -> Values {
                   Value x = c.at(0);
                   const bool attributes = c.given("min") || c.given("max");  // before version 11
                   if (attributes && c.given("min"))
                     x = b.map(fmt::format("max(a, {})", number(c.real("min"))), {x});
                   if (attributes && c.given("max"))
                     x = b.map(fmt::format("min(a, {})", number(c.real("max"))), {x});
                   if (c.has(1) && c.has(2))
                     return b.map("min(max(a, b), c)", {x, c.at(1), c.at(2)});
                   if (c.has(1)) return b.map("max(a, b)", {x, c.at(1)});
                   if (c.has(2)) return b.map("min(a, b)", {x, c.at(2)});
                   return x;
                 }};

Value convertTo(Builder& b, Value x, DType to) {
  if (to == DType::Bool && b.dtype(x) != DType::Bool) return b.map("not(a == 0)", {x});
  return b.convert(x, to);
}
const OpDef castOp{"Cast", [](Builder& b, const OpCall& c) -> Values {
                     return convertTo(b, c.at(0), dtypeOfNumber(c.integer("to")));
                   }};
const OpDef castLike{"CastLike", [](Builder& b, const OpCall& c) -> Values {
                       return convertTo(b, c.at(0), b.dtype(c.at(1)));
                     }};

const OpDef identity{"Identity", [](Builder&, const OpCall& c) -> Values { return c.at(0); }};
// At inference: nothing is dropped.
const OpDef dropout{
    "Dropout", [](Builder& b, const OpCall& c) -> Values {
      if (c.has(2) && scalarOf(b, c.at(2)) != 0. && !(c.has(1) && scalarOf(b, c.at(1)) == 0.))
        userError("training mode is on, expected inference");
      return {c.at(0),
              b.splat(c.opset < 10 ? b.dtype(c.at(0)) : DType::Bool, 1, b.type(c.at(0)).shape)};
    }};

}  // namespace
}  // namespace tektite
