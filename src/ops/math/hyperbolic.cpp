#include "ops/math/script.h"

namespace tektite {
namespace {

// With |x| = n ln 2 + r, u = 2^(n-2) and d = 2^(-n-2): sinh = 2 ((u - d) cosh(r) + (u + d) sinh(r)), and cosh the other way round.
// The last factor 2 keeps u finite up to overflow.
const std::string halves = R"(
  a = min(abs(x), 89.5)
  t = fma(a, 1.442695, 12583037)
  n = t - 12583037
  r = fma(n, -1.4286068e-06, fma(n, -0.693145751953125, a))
  w = r * r
  c = horner(w, 0.5, 0.04166646, 0.0013935447)
  c = w * c
  s = fma(r * w, fma(w, 0.008366546, 0.16666543), r)
  k: i32 = shl(bits(t), 23)
  u = frombits(k)
  d = frombits(max(2097152000 - k, 0))
)";

const MathDef sinh{Op::Sinh, halves + R"(
  m = u - d
  v = fma(m, c, (u + d) * s) + m
  frombits(bits(v + v) | bits(x) & -2147483648)
)"};

const MathDef cosh{Op::Cosh, halves + R"(
  m = u + d
  v = fma(m, c, (u - d) * s) + m
  v + v
)"};

// A polynomial below sinh(1); log(2a) where a^2 + 1 rounds to a^2.
const MathDef asinh{Op::Asinh, R"(
  a = abs(x)
  w = a * a
  p = horner(w, -0.1666662, 0.074985124, -0.044479184, 0.029477159, -0.019423151, 0.0111217555, -0.004772689, 0.0012913449,
             -0.00016057598)
  big: bool = 8192 < a
  l = log(select(big, a, a + sqrt(fma(a, a, 1)))) + select(big, 0.6931472, 0)
  v = select(a < 1.1752012, fma(a * w, p, a), l)
  frombits(bits(v) | bits(x) & -2147483648)
)"};

// sqrt(2t) times a polynomial where t = x - 1 is small.
const MathDef acosh{Op::Acosh, R"(
  t = x - 1
  near: bool = t < 0.5
  big: bool = 1e9 < x
  s = sqrt(select(near, t + t, fma(t, t, t + t)))
  p = horner(t, -0.08333322, 0.018746605, -0.0055479147, 0.0017602185, -0.0004133875)
  l = log1p(select(big, x, t + s)) + select(big, 0.6931472, 0)
  select(x < 1, nan, select(near, fma(s * t, p, s), l))
)"};

// A polynomial below 1/2, where 1 - a is not exact.
const MathDef atanh{Op::Atanh, R"(
  a = abs(x)
  w = a * a
  p = horner(w, 0.33333302, 0.20002455, 0.14223745, 0.11816762, 0.05158965, 0.1763992)
  v = select(a < 0.5, fma(a * w, p, a), log1p((a + a) / (1 - a)) * 0.5)
  frombits(bits(v) | bits(x) & -2147483648)
)"};

}  // namespace
}  // namespace tektite
