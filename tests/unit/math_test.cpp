#include "ops/math/math.h"

#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>

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

struct Function {
  Op op;
  MpfrFunction exact;
  double ulp, fastUlp;  ///< largest errors promised
  float from = -INFINITY, to = INFINITY;        ///< where the exact form's promise holds
  float fastFrom = -INFINITY, fastTo = INFINITY;
};

const Function functions[] = {
    {Op::Exp, mpfr_exp, 2, 16, -INFINITY, INFINITY, -86.9f, INFINITY},
    {Op::Log, mpfr_log, 2, 16, -INFINITY, INFINITY, 1.1754944e-38f, INFINITY},
    {Op::Erf, mpfr_erf, 2, 16},
    {Op::Tanh, mpfr_tanh, 2, 16},
    {Op::Sigmoid, mpfrSigmoid, 2, 16, -INFINITY, INFINITY, -86.9f, INFINITY},
};

/// Every `stride`-th bit pattern, and neighbourhoods of the points where something happens.
std::vector<float> arguments(uint64_t stride) {
  std::vector<float> out;
  for (uint64_t b = 0; b < 1ULL << 32; b += stride) out.push_back(std::bit_cast<float>(static_cast<uint32_t>(b)));
  for (float centre : {0.0f, 1.1754944e-38f, 0.17328680f, 0.34657359f, 0.5f, 0.70710678f, 1.0f, 1.41421356f, 1.5707964f, 2.0f, 3.1415927f, 4.0f,
                       8.0f, 9.01f, 10.0f, 16.0f, 87.33655f, 88.722839f, 103.97208f, 1e5f, 3.4028235e38f, INFINITY})
    for (int32_t d = -200; d <= 200; d++) {
      const float x = std::bit_cast<float>(std::bit_cast<int32_t>(centre) + d);
      out.insert(out.end(), {x, -x});
    }
  return out;
}

/// Distance in units of the exact value's last place (f32); a result beyond the largest float counts as 2^128.
double errorUlp(float got, double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) && std::isnan(exact) ? 0 : INFINITY;
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

struct Found {
  double ulp = 0;
  float at = 0;
};

/// The largest error. The C library's f64 functions find where it lies; every 1000th argument and every candidate for the maximum
/// are measured against MPFR.
Found largestError(const Function& f, bool fast, const std::vector<float>& xs) {
  BatchEval eval(expandMath(apply(f.op, {var("x", DType::F32)}), fast), {"x"});
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
  const std::vector<float> xs = arguments(4099);
  for (const Function& f : functions)
    for (bool fast : {false, true}) {
      const Found found = largestError(f, fast, xs);
      if (getenv("TEKTITE_MATH_TABLE")) fmt::print("{:8} {:5} {:.3f} ulp at {}, {} slots\n", info(f.op).name, fast ? "fast" : "", found.ulp, found.at, slotsOf(expandMath(apply(f.op, {var("x", DType::F32)}), fast)));
      EXPECT_LE(found.ulp, fast ? f.fastUlp : f.ulp) << info(f.op).name << (fast ? " fast" : "") << " at " << found.at;
    }
}

TEST(Math, NoSumHasAProductAsOperand) {
  for (const Function& f : functions)
    visit(expandMath(apply(f.op, {var("x", DType::F32)}), false), [&](const Expr& e) {
      const Apply* a = e.as<Apply>();
      if (!a || !isFloat(e.type()) || (a->op != Op::Add && a->op != Op::Sub)) return;
      for (const Expr& x : a->args) EXPECT_FALSE(x.as<Apply>() && x.as<Apply>()->op == Op::Mul) << info(f.op).name;
    });
}

}  // namespace
}  // namespace tektite
