#include "math_eval.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/overloaded.h"

namespace tektite {
namespace {

template <class T>
T floatOp(Op op, T a, T b, T c) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    case Op::Mul: return a * b;
    case Op::Div: return a / b;
    case Op::Fma: return std::fma(a, b, c);
    case Op::Max: return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? b : a;
    case Op::Min: return std::isnan(a) ? a : std::isnan(b) ? b : b < a ? b : a;
    case Op::Neg: return -a;
    case Op::Abs: return std::fabs(a);
    case Op::Ldexp:
      return std::isnan(b) ? b : std::ldexp(a, static_cast<int>(std::clamp<T>(b, -999, 999)));
    case Op::Sqrt: return std::sqrt(a);
    case Op::Floor: return std::floor(a);
    case Op::Ceil: return std::ceil(a);
    case Op::Trunc: return std::trunc(a);
    case Op::Round: return std::nearbyint(a);
    default: throw std::logic_error("not evaluated here: " + std::string(info(op).name));
  }
}

template <class T>
T integerOp(Op op, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case Op::Add: return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    case Op::Sub: return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
    case Op::Mul: return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    case Op::And: return a & b;
    case Op::Or: return a | b;
    case Op::Xor: return a ^ b;
    case Op::Shl: return static_cast<T>(static_cast<U>(a) << b);
    case Op::Shr: return a >> b;
    case Op::Max: return a < b ? b : a;
    case Op::Min: return b < a ? b : a;
    case Op::Neg: return static_cast<T>(0 - static_cast<U>(a));
    default: throw std::logic_error("not evaluated here: " + std::string(info(op).name));
  }
}

template <class T>
bool compare(Op op, T a, T b) {
  return op == Op::Lt   ? a < b
         : op == Op::Le ? a <= b
         : op == Op::Eq ? a == b
                        : throw std::logic_error("a comparison");
}

}  // namespace

void BatchEval::step(const Expr& e, Cells& cells, size_t k,
                     std::span<const std::span<const float>> operands, size_t from, size_t n) {
  std::vector<Cell>& out = cells[k];
  const DType t = e.type();
  const auto cellsOf = [&](const Expr& x) { return cells[at_.at(x.hash())].data(); };
  const auto fill = [&](auto f) {
    for (size_t i = 0; i < n; i++) out[i] = f(i);
  };
  std::visit(
      overloaded{
          [&](const Imm& x) {
            fill([&](size_t) {
              return t == DType::F32   ? Cell{.f = static_cast<float>(x.real)}
                     : t == DType::F64 ? Cell{.d = x.real}
                     : t == DType::I64 ? Cell{.l = x.integer}
                                       : Cell{.i = static_cast<int32_t>(x.integer)};
            });
          },
          [&](const Var& v) {
            const size_t which =
                std::find(variables_.begin(), variables_.end(), v.name) - variables_.begin();
            fill([&](size_t i) { return Cell{.f = operands[which][from + i]}; });
          },
          [&](const Load&) { throw std::logic_error("a load"); },
          [&](const Cast& c) {
            const Cell* a = cellsOf(c.arg);
            const DType f = c.arg.type();
            const auto wide = [&](size_t i) {
              return f == DType::F32   ? a[i].f
                     : f == DType::F64 ? a[i].d
                     : f == DType::I64 ? static_cast<double>(a[i].l)
                                       : a[i].i;
            };
            if (t == DType::F32 && f == DType::I64)
              fill([&](size_t i) { return Cell{.f = static_cast<float>(a[i].l)}; });
            else if (t == DType::F32)
              fill([&](size_t i) { return Cell{.f = static_cast<float>(wide(i))}; });
            else if (t == DType::F64)
              fill([&](size_t i) { return Cell{.d = wide(i)}; });
            else if (isFloat(f))
              fill([&](size_t i) {
                return t == DType::I64 ? Cell{.l = saturateTo(t, wide(i))}
                                       : Cell{.i = static_cast<int32_t>(saturateTo(t, wide(i)))};
              });
            else if (t == DType::I64)
              fill([&](size_t i) { return Cell{.l = a[i].i}; });
            else
              fill([&](size_t i) { return Cell{.i = static_cast<int32_t>(a[i].l)}; });
          },
          [&](const Apply& a) {
            const DType u = a.args.back().type();
            const Cell* x = cellsOf(a.args[0]);
            const Cell* y = a.args.size() > 1 ? cellsOf(a.args[1]) : x;
            const Cell* z = a.args.size() > 2 ? cellsOf(a.args[2]) : x;
            if (a.op == Op::Select)
              fill([&](size_t i) { return x[i].i ? y[i] : z[i]; });
            else if (a.op == Op::ToBits || a.op == Op::FromBits)
              std::copy(x, x + n, out.begin());
            else if (a.op == Op::IsNan)
              fill([&](size_t i) {
                return Cell{.i = u == DType::F32 ? std::isnan(x[i].f) : std::isnan(x[i].d)};
              });
            else if (a.op == Op::Not && t == DType::Bool)
              fill([&](size_t i) { return Cell{.i = !x[i].i}; });
            else if (info(a.op).rule == TypeRule::Cmp)
              fill([&](size_t i) {
                return Cell{.i = u == DType::F32   ? compare(a.op, x[i].f, y[i].f)
                                 : u == DType::F64 ? compare(a.op, x[i].d, y[i].d)
                                 : u == DType::I64 ? compare(a.op, x[i].l, y[i].l)
                                                   : compare(a.op, x[i].i, y[i].i)};
              });
            else if (t == DType::F32)
              fill([&](size_t i) { return Cell{.f = floatOp(a.op, x[i].f, y[i].f, z[i].f)}; });
            else if (t == DType::F64)
              fill([&](size_t i) { return Cell{.d = floatOp(a.op, x[i].d, y[i].d, z[i].d)}; });
            else if (t == DType::I64)
              fill([&](size_t i) { return Cell{.l = integerOp(a.op, x[i].l, y[i].l)}; });
            else
              fill([&](size_t i) { return Cell{.i = integerOp(a.op, x[i].i, y[i].i)}; });
          }},
      e->kind);
}

}  // namespace tektite
