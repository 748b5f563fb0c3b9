#include "ops/math/script.h"

namespace tektite {
namespace {

// Beyond 1/2: asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). pi/2 is added in two parts, the first so
// that the sum stays below 1 as long as the result does.
const MathDef asin{Op::Asin, R"(
  a = abs(x)
  small: bool = a < 0.5
  z = select(small, a * a, fma(a, -0.5, 0.5))
  s = select(small, a, sqrt(z))
  p = horner(z, 0.16666755, 0.07495186, 0.045485124, 0.024103362, 0.042301267)
  v = select(small, fma(s * z, p, s), fma(s, -2, 1.5) + fma(s * z * p, -2, 0.070796326))
  frombits(bits(v) | bits(x) & -2147483648)
)"};

// k * asin(s) + base, with asin's s: pi/2 - asin(x) within 1/2, else 2 asin(s) or pi - 2 asin(s).
const MathDef acos{Op::Acos, R"(
  a = abs(x)
  small: bool = a < 0.5
  z = select(small, a * a, fma(a, -0.5, 0.5))
  s = select(small, x, sqrt(z))
  p = horner(z, 0.16666755, 0.07495186, 0.045485124, 0.024103362, 0.042301267)
  e = s * z * p
  k = select(small, -1, select(x < 0, -2, 2))
  base = select(small, 1.5707964, select(x < 0, 3.1415927, 0))
  fma(s, k, base) + fma(e, k, base * -2.7827534e-08)
)"};

// Beyond 1: atan(a) = pi/2 - atan(1 / a).
const MathDef atan{Op::Atan, R"(
  a = abs(x)
  big: bool = 1 < a
  z = select(big, 1 / a, a)
  w = z * z
  p = horner(w, -0.333333, 0.19998531, -0.14264052, 0.10951175, -0.084004745, 0.05790651, -0.031126933, 0.010887304, -0.0017875299)
  v = select(big, 1.5707964 - z + fma(z * w, -p, -4.371139e-08), fma(z * w, p, z))
  frombits(bits(v) | bits(x) & -2147483648)
)"};

}  // namespace
}  // namespace tektite
