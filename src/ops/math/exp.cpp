#include "ops/math/script.h"

namespace tektite {
namespace {

// exp(x) = exp(r) * 2^n with x = n ln 2 + r, |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to an integer;
// 254 more is what ldexp would add.
// Fast: with 127 more the low bits hold n + 127, which a shift makes 2^n; subnormal results are 0.
const MathDef exp{Op::Exp, R"(
  c = min(max(x, -104), 89)
  n = fma(c, 1.442695, 12583166) - 12583166
  r = fma(n, -1.4286068e-06, fma(n, -0.693145751953125, c))
  p = horner(r, 1, 1, 0.49999994, 0.16666521, 0.04166827, 0.00836868, 0.001382042)
  ldexp(p, n)
)",
                  R"(
  c = min(max(x, -87.3), 89)
  t = fma(c, 1.442695, 12583038)
  r = fma(t - 12583038, -0.6931472, c)
  p = horner(r, 2, 2, 0.99998456, 0.33334234, 0.08378131, 0.016624844)
  p * frombits(shl(bits(t), 23))
)"};

// 2^n * (exp(r) - 1) + (2^n - 1), halved as long as 2^n could overflow.
const MathDef expm1{Op::Expm1, R"(
  c = min(max(x, -25), 89)
  t = fma(c, 1.442695, 12583038)
  n = t - 12583038
  r = fma(n, -1.4286068e-06, fma(n, -0.693145751953125, c))
  q = horner(r, 0.49999997, 0.16666546, 0.041667435, 0.008366265, 0.0013870678)
  p = fma(r * r, q, r)
  s = frombits(shl(bits(t), 23))
  h = fma(s, p, s - 0.5)
  frombits(bits(h + h) | bits(x) & -2147483648)
)",
                    R"(
  c = min(max(x, -25), 89)
  t = fma(c, 1.442695, 12583038)
  r = fma(t - 12583038, -0.6931472, c)
  q = horner(r, 0.499994, 0.16666831, 0.041872844, 0.0083380975)
  p = fma(r * r, q, r)
  s = frombits(shl(bits(t), 23))
  h = fma(s, p, s - 0.5)
  h + h
)"};

// With e = exp(-|x|) <= 1, scaled by 2^64 where it could be subnormal, and q = e / (1 + e): 1 - q, or e - e * q where x < 0.
const MathDef sigmoid{Op::Sigmoid, R"(
  c = max(-abs(x), -104)
  t = fma(c, 1.442695, 12583103)
  n = t - 12583103
  r = fma(n, -1.4286068e-06, fma(n, -0.693145751953125, c))
  p = horner(r, 1, 1, 0.49999994, 0.16666521, 0.04166827, 0.00836868, 0.001382042)
  e64 = p * frombits(shl(bits(t), 23))
  e = e64 * 5.421010862427522e-20
  q = e / fma(e64, 5.421010862427522e-20, 1)
  h = select(x < 0, e, 1)
  fma(-h, q, h)
)",
                      R"(
  1 / (exp(max(-x, -88)) + 1)
)"};

}  // namespace
}  // namespace tektite
