#include "ops/math/script.h"

namespace tektite {
namespace {

// erf(a) = 1 - exp(-u) for a >= 0, where u = -log(erfc(a)) = a + a * g(a) is smooth: no pieces, no division. 1 - exp(-u) with
// u = -n ln 2 + r, n <= 0: (1 - 2^n) + 2^n * (1 - exp(-r)), where nothing cancels.
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
  a = min(abs(x), 4)
  g = horner(a, 0.12837939, 0.63660395, 0.10294645, -0.019814307, 0.0010381511, 0.00056135043, -0.000108451786)
  u = fma(a, g, a)
  t = fma(u, -1.442695, 12583039)
  r = fma(t - 12583039, 0.6931472, u)
  q = horner(r, -0.499994, 0.16666833, -0.041872945, 0.008338003)
  p = fma(r * r, q, r)
  s = frombits(shl(bits(t), 23))
  m = fma(s, p, 1 - s)
  frombits(bits(m) | bits(x) & -2147483648)
)"};

}  // namespace
}  // namespace tektite
