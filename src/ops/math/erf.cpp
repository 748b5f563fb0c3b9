#include "ops/math/script.h"

namespace tektite {
namespace {

// erf(a) = 1 - exp(-u) for a >= 0, where u = -log(erfc(a)) = a + a * g(a) is smooth: no pieces, no division. 1 - exp(-u) with
// u = -n ln 2 + r, n <= 0: (1 - 2^n) + 2^n * (1 - exp(-r)), where nothing cancels.
// Fast: a quotient of polynomials.
const MathDef erf{Op::Erf, R"(
  a = min(abs(x), 4)
  w = a * a
  v = w * w
  g = fma(w, fma(a, -0.00016950472, -0.019147823), fma(a, 0.102776304, 0.63661957))
  h = fma(w, fma(a, -9.3880635e-06, 0.000118861964), fma(a, -0.0006373649, 0.0016756778))
  g = fma(a, fma(v, h, g), 0.12837917)
  u = fma(a, g, a)
  t = fma(u, -1.442695, 12583039)
  r = fma(t - 12583039, 0.6931472, u)
  w = r * r
  q = fma(w, fma(w, -0.0013870732, fma(r, 0.008366277, -0.041667435)), fma(r, 0.16666546, -0.49999997))
  p = fma(w, q, r)
  s = frombits(shl(bits(t), 23))
  m = fma(s, p, 1 - s)
  frombits(bits(m) | bits(x) & -2147483648)
)",
                  R"(
  c = min(max(x, -3.75), 3.75)
  w = c * c
  p = horner(w, 1.1283789, 0.33874667, 0.06865332, 0.009182197, 0.00023680646, -1.4094285e-06)
  q = horner(w, 1, 0.63353187, 0.17206068, 0.0258651, 0.0021663953)
  c * p / q
)"};

}  // namespace
}  // namespace tektite
