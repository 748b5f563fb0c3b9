#include "ops/math/math.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <map>

#include "emit_run.h"
#include "ir/scalar_eval.h"
#include "math_eval.h"

namespace tektite {
namespace {

using MpfrFunction = int (*)(mpfr_t, const mpfr_t, mpfr_rnd_t);

int mpfrSigmoid(mpfr_t out, const mpfr_t x, mpfr_rnd_t r) {
  mpfr_t e;
  mpfr_init2(e, 120);
  mpfr_neg(e, x, r);
  mpfr_exp(e, e, r);
  mpfr_add_ui(e, e, 1, r);
  const int inexact = mpfr_ui_div(out, 1, e, r);
  mpfr_clear(e);
  return inexact;
}

Expr expansion(Op op, bool fast) { return expandMath(apply(op, {var("x", DType::F32)}), fast); }

struct Function {
  Op op;
  MpfrFunction exact;
  double ulp, fastUlp;                    ///< largest errors promised
  float from = -INFINITY, to = INFINITY;  ///< where the exact form's promise holds
  float fastFrom = -INFINITY, fastTo = INFINITY;
};

const Function functions[] = {
    {Op::Exp, mpfr_exp, 2, 16, -INFINITY, INFINITY, -86.9f, INFINITY},
    {Op::Log, mpfr_log, 2, 16, -INFINITY, INFINITY, 1.1754944e-38f, INFINITY},
    {Op::Erf, mpfr_erf, 2, 16},
    {Op::Tanh, mpfr_tanh, 2, 16},
    {Op::Expm1, mpfr_expm1, 2, 16},
    {Op::Log1p, mpfr_log1p, 2, 2},
    {Op::Sin, mpfr_sin, 2, 2, -1e5f, 1e5f, -1e5f, 1e5f},
    {Op::Cos, mpfr_cos, 2, 2, -1e5f, 1e5f, -1e5f, 1e5f},
    {Op::Tan, mpfr_tan, 2, 2, -1e5f, 1e5f, -1e5f, 1e5f},
    {Op::Asin, mpfr_asin, 2, 2},
    {Op::Acos, mpfr_acos, 2, 2},
    {Op::Atan, mpfr_atan, 2, 2},
    {Op::Sinh, mpfr_sinh, 2, 2},
    {Op::Cosh, mpfr_cosh, 2, 2},
    {Op::Asinh, mpfr_asinh, 2, 16},
    {Op::Acosh, mpfr_acosh, 2, 2},
    {Op::Atanh, mpfr_atanh, 2, 2},
    {Op::Sigmoid, mpfrSigmoid, 2, 16, -INFINITY, INFINITY, -86.9f, INFINITY},
};

/// Every `stride`-th bit pattern, and neighbourhoods of the points where something happens.
std::vector<float> arguments(uint64_t stride) {
  std::vector<float> out;
  for (uint64_t b = 0; b < 1ULL << 32; b += stride)
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(b)));
  for (float centre :
       {0.0f,       1.1754944e-38f, 0.17328680f,   0.34657359f, 0.5f,       0.70710678f,
        1.0f,       1.41421356f,    1.5707964f,    2.0f,        3.1415927f, 4.0f,
        8.0f,       9.01f,          10.0f,         16.0f,       87.33655f,  88.722839f,
        103.97208f, 1e5f,           3.4028235e38f, INFINITY})
    for (int32_t d = -200; d <= 200; d++) {
      const float x = std::bit_cast<float>(std::bit_cast<int32_t>(centre) + d);
      out.insert(out.end(), {x, -x});
    }
  return out;
}

/// Distance in units of the exact value's last place (f32); a result beyond the largest float counts as 2^128.
double errorUlp(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact))
    return std::isnan(got) && std::isnan(exact) ? 0 : INFINITY;
  const double clamped = std::clamp(exact, -0x1p128, 0x1p128);
  const double value = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  if (value == clamped) return 0;
  const int exponent = std::clamp(clamped == 0 ? -126 : std::ilogb(clamped), -126, 127);
  return std::fabs(value - clamped) / std::ldexp(1.0, exponent - 23);
}

/// The exact value, correctly rounded to f64.
double exactly(MpfrFunction f, float x) {
  mpfr_t v, y;
  mpfr_init2(v, 24);
  mpfr_init2(y, 53);
  mpfr_set_flt(v, x, MPFR_RNDN);
  f(y, v, MPFR_RNDN);
  const double d = mpfr_get_d(y, MPFR_RNDN);
  mpfr_clears(v, y, static_cast<mpfr_ptr>(nullptr));
  return d;
}

/// Issue slots of an expansion; max and min against a constant are one instruction, f64 takes two.
double slots(const Expr& e) {
  double sum = slotsOf(e);
  visit(e, [&](const Expr& n) {
    if (const Apply* a = n.as<Apply>())
      sum += (n.type() == DType::F64) -
             ((a->op == Op::Max || a->op == Op::Min) && a->args[1].as<Imm>());
  });
  return sum;
}

struct Found {
  double ulp = 0;
  float at = 0;
};

/// The largest error. The C library's f64 functions find where it lies; every 1000th argument and every candidate for the maximum
/// are measured against MPFR.
Found largestError(const Function& f, bool fast, const std::vector<float>& xs) {
  BatchEval eval(expansion(f.op, fast), {"x"});
  std::vector<float> ys(xs.size());
  const std::span<const float> operand(xs);
  eval.run(std::span(&operand, 1), ys);
  Found worst;
  const float from = fast ? f.fastFrom : f.from, to = fast ? f.fastTo : f.to;
  for (size_t i = 0; i < xs.size(); i++) {
    if (xs[i] < from || xs[i] > to) continue;
    const double argument = xs[i];
    const double near = errorUlp(ys[i], evalFloat(f.op, std::span(&argument, 1)));
    if (near <= worst.ulp - 0.001 && i % 1000) continue;
    const double ulp = errorUlp(ys[i], exactly(f.exact, xs[i]));
    if (ulp > worst.ulp) worst = {ulp, xs[i]};
  }
  return worst;
}

TEST(Math, ErrorsAreAsPromised) {
  const std::vector<float> dense = arguments(8209), sparse = arguments(32771);
  for (const Function& f : functions)
    for (bool fast : {false, true}) {
      if (fast && expansion(f.op, true) == expansion(f.op, false)) continue;
      const Found found = largestError(f, fast, fast ? sparse : dense);
      if (getenv("TEKTITE_MATH_TABLE"))
        fmt::print("{:8} {:5} {:.3f} ulp at {}, {} slots\n", info(f.op).name, fast ? "fast" : "",
                   found.ulp, found.at, slots(expansion(f.op, fast)));
      EXPECT_LE(found.ulp, fast ? f.fastUlp : f.ulp)
          << info(f.op).name << (fast ? " fast" : "") << " at " << found.at;
    }
}

std::vector<float> evaluate(Op op, const std::vector<float>& x, const std::vector<float>& y,
                            bool fast) {
  BatchEval eval(expandMath(apply(op, {var("x", DType::F32), var("y", DType::F32)}), fast),
                 {"x", "y"});
  std::vector<float> out(x.size());
  const std::span<const float> operands[] = {x, y};
  eval.run(operands, out);
  return out;
}

/// Pairs of a grid over all magnitudes and special values, and random pairs whose power is neither 0 nor infinite.
void pairs(std::vector<float>& x, std::vector<float>& y) {
  std::vector<float> grid{0,          1e-45f,      1.1754944e-38f,
                          0.5f,       0.99999994f, 1,
                          1.0000001f, 1.5f,        2,
                          3,          4,           5,
                          7,          10,          16777215,
                          16777216,   33554432,    3.4028235e38f,
                          INFINITY,   NAN};
  for (uint32_t b = 0x00654321; b < 0x7f800000; b += 0x00b54321)
    grid.push_back(std::bit_cast<float>(b));
  for (size_t n = grid.size(), i = 0; i < n; i++) grid.push_back(-grid[i]);
  for (float a : grid)
    for (float b : grid) x.push_back(a), y.push_back(b);
  uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<double>(state >> 33) / 2147483648.0;
  };
  for (int i = 0; i < 200000; i++) {
    const float a =
        static_cast<float>(std::exp2(i % 2 ? uniform() * 2 - 1 : uniform() * 270 - 145));
    x.push_back(a);
    y.push_back(static_cast<float>((uniform() * 280 - 151) / std::log2(a)));
  }
}

TEST(Math, PowersAreWithinTwoUlp) {
  std::vector<float> x, y;
  pairs(x, y);
  {
    const std::vector<float> got = evaluate(Op::Pow, x, y, false);
    double worst = 0;
    for (size_t i = 0; i < x.size(); i++) {
      if (errorUlp(got[i], std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]))) <=
              worst &&
          i % 500)
        continue;
      mpfr_t a, b, p;
      mpfr_inits2(53, a, b, p, static_cast<mpfr_ptr>(nullptr));
      mpfr_set_flt(a, x[i], MPFR_RNDN);
      mpfr_set_flt(b, y[i], MPFR_RNDN);
      mpfr_pow(p, a, b, MPFR_RNDN);
      const double exact = mpfr_get_d(p, MPFR_RNDN), ulp = errorUlp(got[i], exact);
      mpfr_clears(a, b, p, static_cast<mpfr_ptr>(nullptr));
      ASSERT_LE(ulp, 2) << x[i] << " ^ " << y[i] << " gives " << got[i] << ", not " << exact;
      if (exact == 0) {
        ASSERT_EQ(std::signbit(got[i]), std::signbit(exact)) << x[i] << " ^ " << y[i];
      }
      worst = std::max(worst, ulp);
    }
    if (getenv("TEKTITE_MATH_TABLE")) fmt::print("pow {:.3f} ulp\n", worst);
  }
}

TEST(Math, PowersWithASimpleExponent) {
  std::vector<float> xs = arguments(1000003);
  for (double y : {0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5}) {
    const Expr e = expandMath(apply(Op::Pow, {var("x", DType::F32), imm(DType::F32, y)}), false);
    EXPECT_LE(slotsOf(e), 8) << y;
    std::vector<float> got(xs.size());
    const std::span<const float> operand(xs);
    BatchEval(e, {"x"}).run(std::span(&operand, 1), got);
    for (size_t i = 0; i < xs.size(); i++)
      ASSERT_LE(errorUlp(got[i], std::pow(static_cast<double>(xs[i]), y)), 2)
          << xs[i] << " ^ " << y;
  }
}

TEST(Math, RemaindersAreExact) {
  std::vector<float> x, y;
  pairs(x, y);
  const std::vector<float> got = evaluate(Op::Fmod, x, y, false);
  for (size_t i = 0; i < x.size(); i++) {
    const float exact = std::fmod(x[i], y[i]);
    ASSERT_EQ(std::isnan(got[i]), std::isnan(exact)) << x[i] << " fmod " << y[i];
    if (std::isnan(exact)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(exact))
        << x[i] << " fmod " << y[i];
  }
}

TEST(Math, ZerosKeepTheirSign) {
  const std::vector<float> zero{-0.0f};
  const std::span<const float> operand(zero);
  for (Op op : {Op::Expm1, Op::Log1p, Op::Erf, Op::Tanh, Op::Sin, Op::Tan, Op::Asin, Op::Atan,
                Op::Sinh, Op::Asinh, Op::Atanh}) {
    std::vector<float> out(1);
    BatchEval(expansion(op, false), {"x"}).run(std::span(&operand, 1), out);
    EXPECT_EQ(std::bit_cast<uint32_t>(out[0]), 0x80000000u) << info(op).name;
  }
}

TEST(Math, SinesOfHugeArgumentsStayWithinOne) {
  std::vector<float> xs = arguments(100003), ys(xs.size());
  const std::span<const float> operand(xs);
  for (Op op : {Op::Sin, Op::Cos}) {
    BatchEval(expansion(op, false), {"x"}).run(std::span(&operand, 1), ys);
    for (size_t i = 0; i < xs.size(); i++)
      ASSERT_TRUE(std::isinf(xs[i]) || std::isnan(xs[i]) ? std::isnan(ys[i])
                                                         : std::fabs(ys[i]) <= 1)
          << xs[i];
  }
}

TEST(Math, TheTableOfOpsKnowsWhatFunctionsCost) {
  for (const OpInfo& i : allOps()) {
    if (i.op < Op::Exp || i.op > Op::Fmod) continue;
    std::vector<Expr> args{var("x", DType::F32), var("y", DType::F32)};
    args.resize(static_cast<size_t>(i.arity));
    EXPECT_EQ(i.slots, slots(expandMath(apply(i.op, args), false))) << i.name;
  }
}

TEST(Math, NarrowFloatsGoThroughF32) {
  const Expr x = var("x", DType::BF16);
  EXPECT_EQ(expandMath(apply(Op::Exp, {x}), false),
            cast(DType::BF16, expandMath(apply(Op::Exp, {cast(DType::F32, x)}), false)));
}

// ---- as machine code

/// Runs y = f(x) for every function of one argument and pow and fmod of two, compiled for a target; by op.
std::map<Op, std::vector<float>> compiled(const std::vector<float>& x, const std::vector<float>& z,
                                          const Target& target, FastMath mode) {
  std::string outputs, stores;
  TestBuffers buffers;
  for (const OpInfo& i : allOps()) {
    if (i.op < Op::Exp || i.op > Op::Fmod) continue;
    outputs += fmt::format(", out {}_: f32[{}]", i.name, x.size());
    stores += fmt::format("{0}_[t * 16 + l] = {0}(x[t * 16 + l]{1})\n", i.name,
                          i.arity > 1 ? ", z[t * 16 + l]" : "");
    buffers[std::string(i.name) + "_"] = TestBuffer(DType::F32, static_cast<int64_t>(x.size()));
  }
  buffers["x"] = TestBuffer(x);
  buffers["z"] = TestBuffer(z);
  const std::string text = fmt::format(
      "kernel all(x: f32[{0}], z: f32[{0}]{1}) {{ for t in {2} parallel {{ for l in 16 vector {{ "
      "{3} }} }} }}",
      x.size(), outputs, x.size() / 16, stores);
  runKernel(parseKernels(text, "math"), {}, buffers, target, 1, mode);
  std::map<Op, std::vector<float>> out;
  for (const OpInfo& i : allOps())
    if (i.op >= Op::Exp && i.op <= Op::Fmod)
      out[i.op] = buffers[std::string(i.name) + "_"].floats();
  return out;
}

std::vector<float> sixteens(std::vector<float> xs) {
  xs.resize(xs.size() / 16 * 16);
  return xs;
}

TEST(Math, CompiledStrictAndOrderedAreTheSameBits) {
  const std::vector<float> x = sixteens(arguments(1000003));
  const std::vector<float> z(x.rbegin(), x.rend());
  const std::span<const float> operands[] = {x, z};
  std::map<Op, std::vector<float>> want;
  for (const OpInfo& i : allOps()) {
    if (i.op < Op::Exp || i.op > Op::Fmod) continue;
    std::vector<Expr> args{var("x", DType::F32), var("y", DType::F32)};
    args.resize(static_cast<size_t>(i.arity));
    want[i.op].resize(x.size());
    BatchEval(expandMath(apply(i.op, args), false), {"x", "y"}).run(operands, want[i.op]);
  }
  for (const Target& target : runnableTargets())
    for (FastMath mode : {FastMath::None, FastMath::Contract})
      for (const auto& [op, got] : compiled(x, z, target, mode)) {
        const double allowed = target.fma ? 0 : 1;  // without the instruction, fma is rounded twice
        for (size_t i = 0; i < x.size(); i++)
          ASSERT_LE(errorUlp(got[i], want[op][i]), allowed)
              << target.name << ": " << info(op).name << "(" << x[i] << ", " << z[i] << ") gives "
              << got[i];
      }
}

TEST(Math, CompiledFastKeepsItsPromise) {
  const std::vector<float> x = sixteens(arguments(1000003));
  for (const Target& target : runnableTargets()) {
    const auto results = compiled(x, x, target, FastMath::Fast);
    for (const Function& f : functions)
      for (size_t i = 0; i < x.size(); i++) {
        if (x[i] < f.fastFrom || x[i] > f.fastTo) continue;
        const double argument = x[i];
        const float got = results.at(f.op)[i];
        ASSERT_LE(errorUlp(got, evalFloat(f.op, std::span(&argument, 1))), f.fastUlp)
            << target.name << ": " << info(f.op).name << "(" << x[i] << ") gives " << got;
      }
  }
}

TEST(Math, NoSumHasAProductAsOperand) {
  for (const Function& f : functions)
    visit(expansion(f.op, false), [&](const Expr& e) {
      const Apply* a = e.as<Apply>();
      if (!a || !isFloat(e.type()) || (a->op != Op::Add && a->op != Op::Sub)) return;
      for (const Expr& x : a->args)
        EXPECT_FALSE(x.as<Apply>() && x.as<Apply>()->op == Op::Mul) << info(f.op).name;
    });
}

}  // namespace
}  // namespace tektite
