#include "ops/math/script.h"

namespace tektite {
namespace {

// |x| = n pi/2 + r. The first step is exact for |n| < 2^22, since pi/2 and r are multiples of 2^-23 or finer than x is; the two others
// bring the low words. Beyond, r is clamped: the result is meaningless but lies in [-1, 1]. The low bits of t are n: odd swaps sine
// and cosine, the next is a sign. Adding 1 to n makes a cosine of the sine.
const std::string quadrant = R"(
  r = fma(n, 1.7151245e-15, fma(n, 4.371139e-08, fma(n, -1.5707964, a)))
  r = min(max(r, -1), 1)
  w = r * r
  s = horner(w, -0.16666654, 0.008332106, -0.00019507883)
  s = fma(r * w, s, r)
  c = horner(w, 1, -0.5, 0.041666646, -0.0013887308, 2.4432107e-05)
  q: i32 = bits(t)
  v = select(shl(q, 31) < 0, c, s)
)";

const MathDef sin{Op::Sin, std::string(R"(
  a = abs(x)
  t = fma(a, 0.63661975, 12582912)
  n = t - 12582912
)") + quadrant + R"(
  frombits(xor(bits(v), xor(shl(q, 30), bits(x)) & -2147483648))
)"};

const MathDef cos{Op::Cos, std::string(R"(
  a = abs(x)
  t = fma(a, 0.63661975, 12582913)
  n = t - 12582913
)") + quadrant + R"(
  frombits(xor(bits(v), shl(q, 30) & -2147483648))
)"};

// tan(r), or -1 / tan(r) where n is odd. r has a low word here, as tan enlarges its error. m is a product
// that must be rounded before it is added.
const MathDef tan{Op::Tan, R"(
  a = abs(x)
  t = fma(a, 0.63661975, 12582912)
  n = t - 12582912
  h = fma(n, -1.5707964, a)
  m = fma(n, 4.371139e-08, 0)
  r = h + m
  l = fma(n, 1.7151245e-15, h - r + m + fma(n, 4.371139e-08, -m))
  r = min(max(r, -1), 1)
  w = r * r
  p = horner(w, 0.3333335, 0.1333267, 0.05405997, 0.021279419, 0.010847605, 7.009407e-05, 0.0043876544)
  s = r + fma(r * w, p, fma(l, w, l))
  v = select(shl(bits(t), 31) < 0, -1 / s, s)
  frombits(xor(bits(v), bits(x) & -2147483648))
)"};

}  // namespace
}  // namespace tektite
