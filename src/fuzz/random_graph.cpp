#include "fuzz/random_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/builder.h"

namespace tektite {

uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15ull;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

namespace {

using Shape = std::vector<int64_t>;

int64_t product(const Shape& s) {
  int64_t n = 1;
  for (int64_t e : s) n *= e;
  return n;
}
std::vector<Expr> exprs(const Shape& s) { return {s.begin(), s.end()}; }

class Grower {
 public:
  Grower(uint64_t seed, const RandomGraphOptions& options) : random_(seed), options_(options) {}

  Graph run() {
    const int inputs = 1 + random_.below(3);
    for (int i = 0; i < inputs; ++i)
      values_.push_back(b_.input("x" + std::to_string(i), {DType::F32, exprs(someShape())}));
    for (int i = 0; i < options_.nodes; ++i) {
      b_.origin = "n" + std::to_string(i);
      grow();
    }
    const int outputs = 1 + random_.below(3);
    b_.graph.outputs.push_back(values_.back());
    for (int i = 1; i < outputs; ++i) {
      const Value v = pick();
      if (std::find(b_.graph.outputs.begin(), b_.graph.outputs.end(), v) ==
              b_.graph.outputs.end() &&
          !b_.graph.node(v).as<Input>())
        b_.graph.outputs.push_back(v);
    }
    return std::move(b_.graph);
  }

 private:
  Shape shapeOf(Value v) const { return b_.type(v).extents(); }
  int64_t someExtent() {
    const int64_t extents[] = {1, 1, 2, 3, 4, 5, 7, 8, 8, 16, 17, 33};
    return extents[random_.below(std::size(extents))];
  }
  Shape someShape() {
    Shape s(1 + random_.below(4));
    for (int64_t& e : s) e = someExtent();
    while (product(s) > options_.mostElements) s[random_.below(static_cast<int>(s.size()))] = 1;
    return s;
  }
  Value pick() {  // recent values more often: chains
    const int n = static_cast<int>(values_.size());
    return random_.oneIn(3) ? values_[random_.below(n)]
                            : values_[n - 1 - random_.below(std::min(n, 4))];
  }
  Value number() {
    const double numbers[] = {0, 1, -1, 2, 0.5, -0.0, 3, 0.25, 1.5};
    return b_.splat(DType::F32, numbers[random_.below(std::size(numbers))]);
  }
  void add(Value v) {
    if (b_.rank(v) == 0) v = b_.reshape(v, {1});
    if (product(shapeOf(v)) <= options_.mostElements && product(shapeOf(v)) > 0)
      values_.push_back(v);
  }

  void grow() {
    switch (random_.below(14)) {
      case 0:
      case 1:
      case 2:
      case 3: return add(map());
      case 4:
      case 5: return add(reduction());
      case 6: return add(contraction());
      case 7: return add(transpose());
      case 8: return add(reshape());
      case 9: return add(random_.oneIn(2) ? slice() : pad());
      case 10: return add(windows());
      case 11: return add(gather());
      case 12: return add(concat());
      default: return add(random_.oneIn(2) && options_.updates ? update() : normalize());
    }
  }

  Value map() {
    const Value v = pick();
    const char* smooth[] = {"exp(min(a, 4))",
                            "tanh(a)",
                            "max(a, 0)",
                            "a * sigmoid(a)",
                            "neg(a)",
                            "abs(a)",
                            "a * 0.5 + 1",
                            "sqrt(abs(a))",
                            "a * a",
                            "a / 4",
                            "a + 0",
                            "erf(a)",
                            "max(max(a, 0), 0)",
                            "log(abs(a) + 1)",
                            "pow(a, 2)",
                            "min(max(a, -1), 1)"};
    const char* jumping[] = {"floor(a)", "sign(a)", "select(a < 0.5, a, 1)", "round(a * 4)"};
    if (random_.oneIn(2)) {
      if (options_.jumps && random_.oneIn(4)) return b_.map(jumping[random_.below(4)], {v});
      if (random_.oneIn(8)) return b_.map(d0Mask(b_.rank(v)), {v});
      return b_.map(smooth[random_.below(std::size(smooth))], {v});
    }
    const char* two[] = {"a + b",     "a - b",      "a * b",
                         "max(a, b)", "min(a, b)",  "a / (abs(b) + 1)",
                         "a * b + a", "tanh(a) * b"};
    const Value w = partner(v);
    return random_.oneIn(2) ? b_.map(two[random_.below(std::size(two))], {v, w})
                            : b_.map(two[random_.below(std::size(two))], {w, v});
  }
  std::string d0Mask(int rank) {
    const std::string last = "d" + std::to_string(rank - 1),
                      first = "d" + std::to_string(random_.below(rank));
    return random_.oneIn(2) ? "select(" + last + " < " + first + " + 3, a, 0)"
                            : "select((" + last + " + 1) % 3 == 0, a, a * 2)";
  }
  /// A value that broadcasts with v: another of the pool, v itself made smaller, or a number.
  Value partner(Value v) {
    const Shape s = shapeOf(v);
    for (int tries = 0; tries < 6; ++tries) {
      const Value w = pick();
      const Shape t = shapeOf(w);
      bool fits = true;
      for (size_t i = 0; i < std::min(s.size(), t.size()); ++i) {
        const int64_t x = s[s.size() - 1 - i], y = t[t.size() - 1 - i];
        fits &= x == y || x == 1 || y == 1;
      }
      Shape joined = s.size() > t.size() ? s : t;
      if (fits && product(s) * product(t) <= options_.mostElements * 4) return w;
    }
    if (random_.oneIn(2)) return b_.reduce("max", v, {random_.below(static_cast<int>(s.size()))});
    if (random_.oneIn(2)) return constant({s.back()});
    return number();
  }

  Value constant(const Shape& s) {
    Tensor t = Tensor::zeros(DType::F32, s);
    for (int64_t i = 0; i < t.elements(); ++i)
      t.reals()[i] = static_cast<double>(random_.below(17) - 8) / 8;
    return b_.constant({DType::F32, exprs(s)}, t.toConst(),
                       "w" + std::to_string(b_.graph.nodes.size()));
  }

  std::vector<int> someAxes(int rank) {
    std::vector<int> axes;
    for (int a = 0; a < rank; ++a)
      if (random_.oneIn(2)) axes.push_back(a);
    if (axes.empty()) axes.push_back(random_.below(rank));
    return axes;
  }
  Value reduction() {
    const Value v = pick();
    const int rank = b_.rank(v);
    if (random_.oneIn(6)) return argExtreme(v, random_.below(rank));
    const char* combines[] = {"sum", "sum", "max", "min"};
    return b_.reduce(combines[random_.below(4)], v, someAxes(rank));
  }
  Value argExtreme(Value v, int axis) {
    const Value at = b_.map(var(coordinate(axis)), {}, b_.type(v).shape);
    const auto both = b_.reduce(argCombine(random_.oneIn(2), DType::F32), {v, at}, {axis});
    return random_.oneIn(2) || !options_.jumps ? both[0] : b_.convert(both[1], DType::F32);
  }
  /// exp(x - max x) / sum, or (x - mean) * scale: the reductions that fusion is about.
  Value normalize() {
    const Value v = pick();
    const std::vector<int> axis{b_.rank(v) - 1};
    if (random_.oneIn(2)) {
      const Value e = b_.map("exp(a - b)", {v, b_.reduce("max", v, axis)});
      return b_.map("a / b", {e, b_.reduce("sum", e, axis)});
    }
    const double n = 1.0 / static_cast<double>(shapeOf(v).back());
    const Value mean = b_.map("a * b", {b_.reduce("sum", v, axis), b_.splat(DType::F32, n)});
    const Value centred = b_.map("a - b", {v, mean});
    const Value square = b_.map(
        "a * b", {b_.reduce("sum", b_.map("a * a", {centred}), axis), b_.splat(DType::F32, n)});
    return b_.map("a / sqrt(b + 0.5)", {centred, square});
  }

  Value contraction() {
    const Value v = pick();
    const Shape s = shapeOf(v);
    const int rank = static_cast<int>(s.size());
    std::string left;
    for (int a = 0; a < rank; ++a) left += static_cast<char>('a' + a);
    const char last = left.back();
    if (random_.oneIn(3)) {  // with itself, transposed: scores
      if (rank < 2) return b_.contract("a,a->", v, v);
      std::string right = left, out = left;
      right[rank - 2] = 'y';
      out[rank - 1] = 'y';
      return b_.contract(left + "," + right + "->" + out, v, v);
    }
    const Value w =
        constant(random_.oneIn(2) ? Shape{s.back(), someExtent()} : Shape{someExtent(), s.back()});
    const bool transposed = shapeOf(w)[0] != s.back();
    std::string out = left;
    out.back() = 'z';
    return b_.contract(
        left + "," + (transposed ? std::string("z") + last : last + std::string("z")) + "->" + out,
        v, w);
  }

  Value transpose() {
    const Value v = pick();
    std::vector<int> p(b_.rank(v));
    for (size_t i = 0; i < p.size(); ++i) p[i] = static_cast<int>(i);
    for (size_t i = p.size(); i > 1; --i)
      std::swap(p[i - 1], p[random_.below(static_cast<int>(i))]);
    return b_.transpose(v, p);
  }
  Value reshape() {
    const Value v = pick();
    int64_t rest = product(shapeOf(v));
    Shape to;
    while (rest > 1 && to.size() < 3) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= rest; ++d)
        if (rest % d == 0) divisors.push_back(d);
      to.push_back(divisors[random_.below(static_cast<int>(divisors.size()))]);
      rest /= to.back();
    }
    to.push_back(rest);
    return b_.reshape(v, exprs(to));
  }
  Value slice() {
    const Value v = pick();
    std::vector<Expr> starts, sizes;
    std::vector<int64_t> steps;
    for (int64_t extent : shapeOf(v)) {
      const bool backwards = random_.oneIn(6);
      const int64_t step = backwards ? -1 : 1 + random_.below(2);
      const int64_t start = random_.below(static_cast<int>(extent));
      const int64_t room = backwards ? start + 1 : (extent - start + step - 1) / step;
      starts.push_back(start);
      sizes.push_back(random_.oneIn(2) ? room : 1 + random_.below(static_cast<int>(room)));
      steps.push_back(step);
    }
    return b_.slice(v, starts, sizes, steps);
  }
  Value pad() {
    const Value v = pick();
    std::vector<int64_t> before, after;
    for (int a = 0; a < b_.rank(v); ++a)
      before.push_back(random_.below(3)), after.push_back(random_.below(3));
    return b_.pad(v, before, after, imm(DType::F32, random_.oneIn(3) ? 1 : 0));
  }
  Value windows() {
    const Value v = pick();
    const int64_t extent = shapeOf(v).back(), kernel = 1 + random_.below(3),
                  stride = 1 + random_.below(2), dilation = 1 + random_.below(2);
    const int64_t pad = random_.below(2), room = extent + 2 * pad - (kernel - 1) * dilation - 1;
    if (room < 0) return map();
    const Value w = b_.windows(v, {kernel}, {stride}, {dilation}, {pad}, {Expr(room / stride + 1)},
                               imm(DType::F32, 0));
    return random_.oneIn(2) ? b_.reduce(random_.oneIn(2) ? "max" : "sum", w, {b_.rank(w) - 1}) : w;
  }
  Value indices(int64_t extent, int64_t count, bool outside) {
    std::vector<int64_t> at;
    for (int64_t i = 0; i < count; ++i)
      at.push_back(random_.below(static_cast<int>(extent)) +
                   (outside && random_.oneIn(8) ? extent : 0));
    if (random_.oneIn(2)) return b_.integers(at);
    return b_.input("i" + std::to_string(b_.graph.nodes.size()), {DType::I64, {Expr(count)}});
  }
  Value gather() {
    const Value v = pick();
    const int axis = random_.below(b_.rank(v));
    Shape s = shapeOf(v);
    const Value at = indices(s[axis], 1 + random_.below(6), true);
    s[axis] = shapeOf(at)[0];
    std::vector<Expr> index;
    for (int a = 0; a < static_cast<int>(s.size()); ++a)
      index.push_back(a == axis ? load(operandName(1), DType::I64, {var(coordinate(a))})
                                : var(coordinate(a)));
    return b_.gather(v, {at}, exprs(s), index, imm(DType::F32, 0));
  }
  Value concat() {
    const Value v = pick();
    const int axis = random_.below(b_.rank(v));
    std::vector<Value> parts{v};
    const int n = 1 + random_.below(3);
    for (int i = 0; i < n; ++i) parts.push_back(random_.oneIn(2) ? b_.map("tanh(a)", {v}) : v);
    return b_.concat(parts, axis);
  }
  Value update() {
    const Value v = pick();
    const Shape s = shapeOf(v);
    Shape rows = s;
    rows[0] = 1 + random_.below(4);
    const Value at = indices(s[0], rows[0], true);
    const Value values = constant(rows);
    std::vector<Expr> index{load(operandName(1), DType::I64, {var("d0")})};
    for (size_t a = 1; a < s.size(); ++a) index.push_back(var(coordinate(static_cast<int>(a))));
    const char* combines[] = {"", "sum", "max"};
    return b_.update(v, {at}, values, index, combines[random_.below(3)]);
  }

  Random random_;
  RandomGraphOptions options_;
  Builder b_;
  std::vector<Value> values_;
};

double someReal(Random& r, bool special) {
  const double inf = std::numeric_limits<double>::infinity();
  const double specials[] = {0, -0.0, inf, -inf, std::nan(""), 1e-30, -1e-30, 1e-40};
  if (special && r.oneIn(24)) return specials[r.below(std::size(specials))];
  return roundTo(DType::F32, r.uniform(-2, 2));
}

}  // namespace

Graph randomGraph(uint64_t seed, const RandomGraphOptions& options) {
  return Grower(seed, options).run();
}

std::vector<Tensor> randomInputs(const Graph& g, uint64_t seed, bool special) {
  Random r(seed ^ 0x5851f42d4c957f2dull);
  std::vector<Tensor> out;
  for (Value v : g.inputs()) {
    const TensorType& t = g.type(v);
    Tensor x = Tensor::zeros(t.dtype, t.extents());
    for (int64_t i = 0; i < x.elements(); ++i)
      if (isFloat(t.dtype))
        x.reals()[i] = someReal(r, special);
      else
        x.integers()[i] = wrapTo(
            t.dtype, t.dtype == DType::Bool ? r.below(2) : r.below(8) - (r.oneIn(16) ? 1 : 0));
    out.push_back(std::move(x));
  }
  return out;
}

}  // namespace tektite
