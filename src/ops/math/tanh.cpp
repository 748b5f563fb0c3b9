#include "ops/math/script.h"

namespace tektite {
namespace {

// tanh(a) = m / (2 - m) for a >= 0, where m = 1 - exp(-2a), computed as in erf; r and p are half of what they are there.
// 2 - m is not taken from the rounded m, whose error would count twice.
const MathDef tanh{Op::Tanh, R"(
  a = min(abs(x), 10)
  t = fma(a, -2.88539, 12583040)
  r = fma(t - 12583040, 0.3465736, a)
  q = horner(r, -0.99999994, 0.66666186, -0.33333948, 0.13386044, -0.044386342)
  p = fma(r * r, q, r)
  s = frombits(shl(bits(t), 23))
  m = fma(s, p, fma(s, -0.5, 1))
  y = m / fma(-s, p, fma(s, 0.5, 1))
  frombits(bits(y) | bits(x) & -2147483648)
)", R"(
  a = min(abs(x), 10)
  t = fma(a, -2.88539, 12583040)
  r = fma(t - 12583040, 0.3465736, a)
  q = horner(r, -0.999988, 0.6666733, -0.33498356, 0.13340805)
  p = fma(r * r, q, r)
  s = frombits(shl(bits(t), 23))
  m = fma(s, p, fma(s, -0.5, 1))
  y = m / (2 - m)
  frombits(bits(y) | bits(x) & -2147483648)
)"};

}  // namespace
}  // namespace tektite
