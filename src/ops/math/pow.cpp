#include "ops/math/script.h"

namespace tektite {
namespace {

// 2^(y log2 |x|), the logarithm and the product in f64: there is nothing to lose before the last step. |x| is taken apart as in log, the
// power put together as in exp. A product that would be NaN without reason (|x| = 1, y = 0) is 0. A negative x needs a whole y, and
// keeps its sign where y is odd.
const MathDef pow{Op::Pow, R"(
  a = abs(x)
  tiny: bool = a < 1.1754944e-38
  z = select(tiny, a * 8388608, a)
  k: i32 = bits(z) - 1060439283 & -8388608
  f: f64 = f64(frombits(bits(z) - k) - 1)
  e = fma(f32(k), 1.1920929e-07, select(tiny, -23, 0))
  e = select(a < inf, select(0 < a, e, -inf), a)
  p: f64 = horner(f, 1.4426950408686934, -0.721347520870173, 0.4808983614021927, -0.36067367452812293, 0.2885372927978744,
      -0.24045318296901758, 0.20617538949283412, -0.18030019233078434, 0.15876911755498213, -0.14316068499347684, 0.14475595055679324,
      -0.14282335688592623, 0.07733947906750707)
  l: f64 = select(a == 1 | y == 0, 0, f64(y) * fma(f, p, f64(e)))
  l: f64 = min(max(l, -160), 160)
  h: f64 = round(l * 0.5)
  r = f32(fma(h, -2, l))
  p = horner(r, 1, 0.69314724, 0.24022669, 0.055503663, 0.009616841, 0.0013341652, 0.00015645688, 1.4919908e-05)
  s = frombits(shl(bits(f32(h) + 12583039), 23))
  v = p * s * s
  whole: bool = round(y) == y
  half = y * 0.5
  sign: i32 = select(whole & not(trunc(half) == half), bits(x) & -2147483648, 0)
  select(x < 0 & -inf < x & not(whole), nan, frombits(bits(v) | sign))
)"};

// One step reduces |x| / |y| by 2^22 or more, exactly: the quotient is never too small and at most 1 too large.
constexpr std::string_view fmodStep = R"(
  q = fma(trunc(r / b), -b, r)
  r = select(b <= r, select(q < 0, q + b, q), r)
)";

/// The remainder of |x| after |y| * 2^22 `steps` - 1 times, then after |y| * 2^0: 13 steps are enough for every quotient.
std::string fmodScript(int steps) {
  std::string text = "r = abs(x)\n b0 = abs(y)\n";
  for (int k = 1; k < steps; k++) text += fmt::format("b{} = b{} * 4194304\n", k, k - 1);
  for (int k = steps; k-- > 0;) text += fmt::format("b = b{}\n", k) + std::string(fmodStep);
  return text + "v = select(b0 <= inf, r, b0)\n frombits(bits(v) | bits(x) & -2147483648)\n";
}
const std::string fmodExact = fmodScript(13), fmodFast = fmodScript(1);
const MathDef fmod{Op::Fmod, fmodExact, fmodFast};

}  // namespace
}  // namespace tektite
