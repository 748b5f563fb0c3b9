#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "emit_run.h"
#include "ir/scalar_eval.h"

namespace tektite {
namespace {

const DType types[] = {DType::Bool, DType::I4,  DType::U4,   DType::I8,  DType::U8,
                       DType::I16,  DType::U16, DType::I32,  DType::U32, DType::I64,
                       DType::U64,  DType::F16, DType::BF16, DType::F32, DType::F64};

std::vector<double> specialReals() {
  return {0,       -0.0,  1,    -1.5, 2.5,  3.25,     -7,        100,
          -300.75, 65000, -3e9, 5e18, 1e-6, INFINITY, -INFINITY, NAN};
}
std::vector<int64_t> specialIntegers(DType t) {
  std::vector<int64_t> out;
  for (const int64_t v : {0, 1, 2, 3, 7, 8, -1, -2, -3, -8, 31, 100, -77})
    out.push_back(wrapTo(t, v));
  for (const uint64_t v : {uint64_t{1} << (bits(t) - 1), (uint64_t{1} << (bits(t) - 1)) - 1})
    out.push_back(wrapTo(t, static_cast<int64_t>(v)));
  out.push_back(wrapTo(t, 12345678901234567));
  return out;
}

/// An op or conversion over x (and y) and what it should give.
struct Case {
  std::string name;
  Expr value;
  Op op = Op::Add;
  bool isCast = false;
};

std::vector<Case> casesOf(DType t) {
  const Expr i = var("i"), x = load("x", t, {i}), y = load("y", t, {i});
  std::vector<Case> out;
  for (const OpInfo& o : allOps()) {
    if (o.op >= Op::Exp && o.op <= Op::Fmod) continue;  // held by the tests of ops/math
    if (o.op == Op::Fma || o.op == Op::FromBits) continue;
    std::vector<Expr> args{x, y};
    if (o.op == Op::Select) args = {lt(x, y), x, y};
    args.resize(o.arity, x);
    std::vector<DType> argTypes;
    for (const Expr& e : args) argTypes.push_back(e.type());
    if (resultType(o.op, argTypes)) out.push_back({std::string(o.name), apply(o.op, args), o.op});
  }
  for (const DType to : types)
    if (to != t) out.push_back({"to " + std::string(name(to)), cast(to, x), Op::Add, true});
  return out;
}

/// Out buffers v0.. by vectors of 8, s0.. one by one.
KernelModule kernelOf(DType t, const std::vector<Case>& cases, int64_t n) {
  Kernel k;
  k.name = "ops";
  for (const char* in : {"x", "y"}) k.params.push_back({Param::In, {in, t, {Expr(n)}}});
  Block scalar, vector;
  for (size_t c = 0; c < cases.size(); c++)
    for (const char* kind : {"v", "s"}) {
      const std::string to = kind + std::to_string(c);
      k.params.push_back({Param::Out, {to, cases[c].value.type(), {Expr(n)}}});
      const Expr lane = var("j") * Expr(8) + var("l");
      if (*kind == 's')
        scalar.push_back({Store{{{to, {var("i")}}}, "", {cases[c].value}}});
      else
        vector.push_back({Store{{{to, {lane}}}, "", {substitute(cases[c].value, {{"i", lane}})}}});
    }
  k.body = {{For{"i", Expr(n), LoopMode::Parallel, scalar}},
            {For{"j", Expr(n / 8), LoopMode::Parallel, {{For{"l", 8, LoopMode::Vector, vector}}}}}};
  return {{}, {}, {k}};
}

/// What ldexp takes.
bool isPower(double n) { return std::fabs(n) <= 252 && n == std::trunc(n); }

/// The wanted value, as a double or, of integers, exactly.
std::pair<double, int64_t> wanted(const Case& c, DType t, double rx, double ry, int64_t ix,
                                  int64_t iy) {
  const DType to = c.value.type();
  if (c.isCast) {
    if (isFloat(t)) return {roundTo(to, rx), isFloat(to) ? 0 : saturateTo(to, rx)};
    return {roundTo(to, t == DType::U64 ? static_cast<double>(static_cast<uint64_t>(ix))
                                        : static_cast<double>(ix)),
            wrapTo(to, ix)};
  }
  if (!isFloat(t)) {
    std::vector<int64_t> args{ix, iy};
    const bool less = isSigned(t) ? ix < iy : static_cast<uint64_t>(ix) < static_cast<uint64_t>(iy);
    if (c.op == Op::Select) args = {less, ix, iy};
    return {0, evalInteger(c.op, t, args)};
  }
  if (c.op == Op::ToBits) return {0, evalToBits(t, rx)};
  const double r =
      evalFloat(c.op, c.op == Op::Select ? std::vector<double>{rx < ry ? 1.0 : 0.0, rx, ry}
                                         : std::vector<double>{rx, ry});
  return {roundTo(to == DType::Bool ? DType::F64 : to, r), static_cast<int64_t>(r)};
}

void checkType(DType t, const Target& target) {
  SCOPED_TRACE(fmt::format("{} on {}", name(t), target.name));
  const auto cases = casesOf(t);
  const auto reals = specialReals();
  const auto integers = specialIntegers(t);
  const int64_t side = 16, n = side * side;
  TestBuffers b;
  for (const char* in : {"x", "y"}) b[in] = TestBuffer(t, n);
  std::vector<std::array<double, 2>> r(n);
  std::vector<std::array<int64_t, 2>> v(n);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) {
      const int64_t at = k ? i % side : i / side;
      char* data = static_cast<char*>(b[k ? "y" : "x"].data());
      if (isFloat(t))
        storeFloat(t, data, i, r[i][k] = roundTo(t, reals[at]));
      else
        storeInteger(t, data, i, v[i][k] = integers[at]);
    }
  for (size_t c = 0; c < cases.size(); c++)
    for (const char* kind : {"v", "s"})
      b[kind + std::to_string(c)] = TestBuffer(cases[c].value.type(), n);
  runKernel(kernelOf(t, cases, n), {}, b, target, 1, FastMath::None);
  for (size_t c = 0; c < cases.size(); c++)
    for (const char* kind : {"v", "s"})
      for (int64_t i = 0; i < n; i++) {
        if (cases[c].op == Op::Ldexp && !isPower(r[i][1])) continue;
        const auto [real, integer] = wanted(cases[c], t, r[i][0], r[i][1], v[i][0], v[i][1]);
        const DType to = cases[c].value.type();
        char* data = static_cast<char*>(b[kind + std::to_string(c)].data());
        if (isFloat(to)) {
          const double found = loadFloat(to, data, i);
          const bool same = std::isnan(real)
                                ? std::isnan(found)
                                : found == real && std::signbit(found) == std::signbit(real);
          ASSERT_TRUE(same) << cases[c].name << "(" << b["x"].at(i) << ", " << b["y"].at(i) << ") "
                            << kind << " gave " << found << ", expected " << real;
        } else {
          ASSERT_EQ(loadInteger(to, data, i), integer)
              << cases[c].name << "(" << b["x"].at(i) << ", " << b["y"].at(i) << ") " << kind;
        }
      }
}

TEST(EmitOps, EveryOpOnEveryTypeInVectorsAndAlone) {
  for (const Target& target : runnableTargets())
    for (const DType t : types)
      if (target.name == "cpu:avx2" || t == DType::F32 || t == DType::I32 || t == DType::F16 ||
          t == DType::U8)
        checkType(t, target);
}

}  // namespace
}  // namespace tektite
