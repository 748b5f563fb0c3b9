#include "ops/math/script.h"

namespace tektite {
namespace {

// tanh(a) = m / (2 - m) for a >= 0, where m = 1 - exp(-2a), computed as in erf; r and p are half of what they are there.
// 2 - m is not taken from the rounded m, whose error would count twice. Fast: a quotient of polynomials.
const MathDef tanh{Op::Tanh, R"(
  a = min(abs(x), 10)
  t = fma(a, -2.88539, 12583040)
  r = fma(t - 12583040, 0.3465736, a)
  w = r * r
  q = fma(w, fma(w, -0.044386342, fma(r, 0.13386044, -0.33333948)), fma(r, 0.66666186, -0.99999994))
  p = fma(w, q, r)
  s = frombits(shl(bits(t), 23))
  m = fma(s, p, fma(s, -0.5, 1))
  y = m / fma(-s, p, fma(s, 0.5, 1))
  frombits(bits(y) | bits(x) & -2147483648)
)",
                   R"(
  c = min(max(x, -8.6), 8.6)
  w = c * c
  p = horner(w, 1, 0.13406935, 0.003526473, 2.1123586e-05, 1.4084219e-08)
  q = horner(w, 1, 0.46740258, 0.02599417, 0.0003336388, 8.071334e-07)
  c * p / q
)"};

}  // namespace
}  // namespace tektite
