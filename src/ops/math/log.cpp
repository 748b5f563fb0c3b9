#include "ops/math/script.h"

namespace tektite {
namespace {

// log(x) = k ln 2 + log(1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), k held as k * 2^23 as the exponent's bits give it, and
// log(1 + f) = f + f^2 * (f * p(f) - 1/2). Subnormals are scaled by 2^23 first; fast takes them for 0.
const MathDef log{Op::Log, R"(
  tiny: bool = x < 1.1754944e-38
  z = select(tiny, x * 8388608, x)
  k: i32 = bits(z) - 1060439283 & -8388608
  f = frombits(bits(z) - k) - 1
  e = f32(k) + select(tiny, -192937984, 0)
  w = f * f
  p = horner(w, -0.5, -0.2500082, -0.16623399, -0.13159914, -0.07634267)
  q = horner(w, 0.3333333, 0.20001237, 0.14201711, 0.12761304)
  l = fma(w, fma(f, q, p), e * 1.703032e-13)
  r = fma(e, 8.2629412645474076271e-8, f + l)
  select(0 < x, select(x < inf, r, x), select(x == 0, -inf, nan))
)",
                  R"(
  k: i32 = bits(x) - 1060439283 & -8388608
  f = frombits(bits(x) - k) - 1
  w = f * f
  p = horner(w, -0.5, -0.24983251, -0.17137572, -0.1018871)
  q = horner(w, 0.33334243, 0.19924602, 0.1602355)
  r = fma(f32(k), 8.262958e-08, fma(w, fma(f, q, p), f))
  select(1.1754944e-38 <= x, select(x < inf, r, x), select(0 <= x, -inf, nan))
)"};

// As log of u = 1 + x, with what rounding u lost added to f.
const MathDef log1p{Op::Log1p, R"(
  u = x + 1
  k: i32 = bits(u) - 1060439283 & -8388608
  lost = x - (u - 1)
  s = max(frombits(1065353216 - k), 0)
  f = fma(lost, s, frombits(bits(u) - k) - 1)
  e = f32(k)
  w = f * f
  p = horner(w, -0.5, -0.2500082, -0.16623399, -0.13159914, -0.07634267)
  q = horner(w, 0.3333333, 0.20001237, 0.14201711, 0.12761304)
  l = fma(w, fma(f, q, p), e * 1.703032e-13)
  r = fma(e, 8.2629412645474076271e-8, f + l)
  v = select(0 < u, select(u < inf, r, u), select(u == 0, -inf, nan))
  frombits(bits(v) | bits(x) & -2147483648)
)"};

}  // namespace
}  // namespace tektite
