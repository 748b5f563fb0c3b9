#include "ops/math/script.h"

namespace tektite {
namespace {

// erf(a) = 1 - exp(-u) for a >= 0, where u = -log(erfc(a)) = a + a * g(a) is smooth: no pieces, no division. 1 - exp(-u) with
// u = -n ln 2 + r, n <= 0: (1 - 2^n) + 2^n * (1 - exp(-r)), where nothing cancels.
// Fast: a quotient of polynomials.
const MathDef erf{Op::Erf, R"(
  a = min(abs(x), 4)
  w = a * a
  g = horner(w, 0.12837917, 0.102776304, -0.00016950472, -0.0006373649, -9.3880635e-06)
  h = horner(w, 0.63661957, -0.019147823, 0.0016756778, 0.000118861964)
  g = fma(a, h, g)
  u = fma(a, g, a)
  t = fma(u, -1.442695, 12583039)
  r = fma(t - 12583039, 0.6931472, u)
  q = horner(r, -0.49999997, 0.16666546, -0.041667435, 0.008366277, -0.0013870732)
  p = fma(r * r, q, r)
  s = frombits(shl(bits(t), 23))
  m = fma(s, p, 1 - s)
  frombits(bits(m) | bits(x) & -2147483648)
)", R"(
  c = min(max(x, -3.75), 3.75)
  w = c * c
  p = horner(w, 1.1283789, 0.33909196, 0.06870169, 0.009196804, 0.00023715029, -1.4109014e-06)
  q = horner(w, 1, 0.6338378, 0.17220567, 0.02589553, 0.002169878)
  c * p / q
)"};

}  // namespace
}  // namespace tektite
