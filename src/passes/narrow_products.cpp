#include <algorithm>

#include "passes/integer_form.h"
#include "passes/pass.h"
#include "passes/rebuild.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kLeastDepth = 16;  // terms of a sum of floats that is worth it

bool isSummed(char label, const Contract& c) { return c.output.find(label) == std::string::npos; }

/// A contraction of two operands that stand for 8-bit integers, as one of these and what the zero points take away from it.
class Narrowing {
 public:
  Narrowing(Graph& g, const Node& n) : g_(g), n_(n), c_(*n.as<Contract>()) {}

  /// Nothing where it isn't one.
  std::optional<Value> run() {
    const DType type = n_.results[0].dtype;
    if (n_.operands.size() != 2 || (type != DType::I32 && type != DType::F32)) return std::nullopt;
    if (!labelsFit()) return std::nullopt;
    if (isConstant(n_.operands[0]) && isConstant(n_.operands[1])) return std::nullopt;
    const size_t w = isConstant(n_.operands[0]) ? 0 : 1;
    const DType ofX = g_.type(n_.operands[1 - w]).dtype, ofK = g_.type(n_.operands[w]).dtype;
    if (ofX == DType::U8 && ofK == DType::I8) return std::nullopt;  // as narrow as it gets
    const auto x = integerForm(g_, n_.operands[1 - w], DType::U8),
               k = integerForm(g_, n_.operands[w], DType::I8);
    if (!x || !k || k->inside || (x->inside && k->zero)) return std::nullopt;
    if (!isInvariant(1 - w, *x) || !isInvariant(w, *k)) return std::nullopt;
    if (type == DType::I32 && (x->scale || k->scale)) return std::nullopt;
    if (type == DType::I32) return product(w, *x, *k);
    if (!x->scale || !k->scale || !isExact(*x, *k)) return std::nullopt;
    const Value sum = product(w, *x, *k);
    const Expr all =
        cast(DType::F32, var("$0", DType::I32)) * (var("$1", DType::F32) * var("$2", DType::F32));
    return map(all, {sum, placed(x->scale, c_.inputs[1 - w]), placed(k->scale, c_.inputs[w])});
  }

 private:
  /// Every label once in an operand, every summed one in both.
  bool labelsFit() const {
    for (size_t i = 0; i < 2; i++)
      for (char l : c_.inputs[i]) {
        if (std::ranges::count(c_.inputs[i], l) != 1) return false;
        if (isSummed(l, c_) && c_.inputs[1 - i].find(l) == std::string::npos) return false;
      }
    return true;
  }
  bool isConstant(Value v) const {
    const Node& n = g_.node(v);
    if (n.as<Const>()) return true;
    return (n.as<Map>() || n.as<View>()) && !n.operands.empty() &&
           std::ranges::all_of(n.operands, [&](Value o) { return isConstant(o); });
  }
  bool isInvariant(size_t i, const IntegerForm& f) const {
    for (const Value v : {f.zero, f.scale})
      for (size_t d = 0; v && d < c_.inputs[i].size(); d++)
        if (isSummed(c_.inputs[i][d], c_) && !tektite::isConstant(g_.type(v).shape[d], 1))
          return false;
    return true;
  }
  Expr extentOf(char label) const {
    for (size_t i = 0; i < 2; i++)
      if (const size_t d = c_.inputs[i].find(label); d != std::string::npos)
        return g_.type(n_.operands[i]).shape[d];
    TEKTITE_CHECK(false, "no label {}", label);
  }
  std::string summed() const {
    std::string out;
    for (char l : c_.inputs[0])
      if (isSummed(l, c_)) out += l;
    return out;
  }
  Expr depth() const {
    Expr out = 1;
    for (char l : summed()) out = out * extentOf(l);
    return out;
  }
  /// The largest |raw - zero|.
  std::optional<double> largest(const IntegerForm& f) const {
    const double low = g_.type(f.raw).dtype == DType::U8 ? 0 : -128, high = low + 255;
    if (!f.zero) return std::max(-low, high);
    const auto zero = splatValue(g_, f.zero);
    if (!zero) return std::nullopt;
    const auto z = static_cast<double>(*zero);
    return std::max(std::abs(low - z), std::abs(high - z));
  }
  /// Can't the sum of integers leave i32? And is it long enough to be worth it.
  bool isExact(const IntegerForm& x, const IntegerForm& k) const {
    const auto a = largest(x), b = largest(k);
    const Interval n = boundsOf(depth(), g_.ranges());
    return a && b && static_cast<double>(n.low) >= kLeastDepth &&
           static_cast<double>(n.high) * *a * *b < 2147483648.0;
  }

  // ---- nodes

  Value map(const Expr& body, const std::vector<Value>& operands) {
    const Value v = mapOf(g_, body, operands);
    g_.nodes[v.node].origin = n_.origin;
    return v;
  }
  Value contraction(std::vector<std::string> inputs, std::vector<Value> operands,
                    const std::string& output) {
    Node n;
    n.kind = Contract{std::move(inputs), output};
    n.operands = std::move(operands);
    n.results = {{DType::I32, {}}};
    for (char l : output) n.results[0].shape.push_back(extentOf(l));
    n.origin = n_.origin;
    return g_.add(std::move(n));
  }
  Value ones(DType type, const std::string& labels) {
    Node c;
    c.kind = Const{nullptr, immInteger(type, 1)};
    c.results = {{type, {}}};
    for (char l : labels) c.results[0].shape.push_back(extentOf(l));
    return g_.add(std::move(c));
  }
  std::string kept(const std::string& labels) const {
    std::string out;
    for (char l : c_.output)
      if (labels.find(l) != std::string::npos) out += l;
    return out;
  }
  /// A value with these labels, or 1 along them, in the result's axes.
  Value placed(Value v, const std::string& labels) {
    const TensorType t = g_.type(v);
    std::vector<Expr> index, shape(c_.output.size(), Expr(1));
    for (size_t d = 0; d < labels.size(); d++) {
      const size_t at = c_.output.find(labels[d]);
      const bool one = tektite::isConstant(t.shape[d], 1);
      index.push_back(one || at == std::string::npos ? Expr(0)
                                                     : var(coordinate(static_cast<int>(at))));
      if (!one && at != std::string::npos) shape[at] = t.shape[d];
    }
    Node n;
    n.kind = View{std::move(index), {}, {}};
    n.operands = {v};
    n.results = {{t.dtype, std::move(shape)}};
    n.origin = n_.origin;
    return g_.add(std::move(n));
  }

  /// sum (x - zx) (k - zk) = sum x k - zx sum k - zk sum x + zx zk n, exact where integers wrap.
  Value product(size_t w, const IntegerForm& x, const IntegerForm& k) {
    const std::string &ofX = c_.inputs[1 - w], &ofK = c_.inputs[w];
    std::vector<Value> operands(2);
    operands[w] = k.raw;
    operands[1 - w] = x.raw;
    std::vector<Value> terms = {contraction(c_.inputs, operands, c_.output)};
    Expr all = var("$0", DType::I32);
    const auto take = [&](const std::vector<Value>& factors, bool plus) {
      Expr term;
      for (Value f : factors) {
        const Expr e = var(operandName(static_cast<int>(terms.size())), DType::I32);
        term = term ? term * e : e;
        terms.push_back(f);
      }
      all = plus ? all + term : all - term;
    };
    if (x.zero) take({placed(x.zero, ofX), weights(k.raw, ofK, x.inside, ofX)}, false);
    if (k.zero) {
      const std::string labels = kept(ofX);
      const Value rows = contraction({ofX, summed()}, {x.raw, ones(DType::I8, summed())}, labels);
      take({placed(k.zero, ofK), placed(rows, labels)}, false);
    }
    if (x.zero && k.zero) {
      const Value n = count();
      take({placed(x.zero, ofX), placed(k.zero, ofK), n}, true);
    }
    return terms.size() == 1 ? terms[0] : map(all, terms);
  }
  Value count() {
    Node n;
    n.kind = Map{cast(DType::I32, depth())};
    n.results = {{DType::I32, std::vector<Expr>(c_.output.size(), Expr(1))}};
    n.origin = n_.origin;
    return g_.add(std::move(n));
  }
  /// Sums of the weights over what is data: the same everywhere, but for windows that reach beyond it.
  Value weights(Value k, const std::string& ofK, Value inside, const std::string& ofX) {
    std::string within, rest;  // summed labels that have a say in what is data, and the others
    std::string mask;
    std::vector<Expr> index, shape;
    if (inside) {
      const TensorType t = g_.type(inside);
      for (size_t d = 0; d < ofX.size(); d++)
        if (!tektite::isConstant(t.shape[d], 1)) mask += ofX[d], shape.push_back(t.shape[d]);
      for (char l : ofX)
        index.push_back(mask.find(l) == std::string::npos
                            ? Expr(0)
                            : var(coordinate(static_cast<int>(mask.find(l)))));
    }
    for (char l : summed()) (mask.find(l) == std::string::npos ? rest : within) += l;
    std::string first = kept(ofK);
    for (char l : within) first += l;
    Value sums = contraction({ofK, rest}, {k, ones(DType::I8, rest)}, first);
    if (!inside) return placed(sums, first);
    Node flat;
    flat.kind = View{std::move(index), {}, {}};
    flat.operands = {inside};
    flat.results = {{DType::U8, std::move(shape)}};
    flat.origin = n_.origin;
    const Value data = g_.add(std::move(flat));
    std::string second;
    for (char l : c_.output)
      if (mask.find(l) != std::string::npos || first.find(l) != std::string::npos) second += l;
    sums = contraction({mask, first}, {data, sums}, second);
    return placed(sums, second);
  }

  Graph& g_;
  const Node n_;
  const Contract c_;
};

Graph narrowed(const Graph& in, DType sums, Graph (*self)(const Graph&)) {
  const Graph out = rebuild(in, [&](Graph& out, Node n) {
    n = withinNested(std::move(n), in, self);
    if (n.as<Contract>() && n.results[0].dtype == sums)
      if (const auto v = Narrowing(out, n).run()) return std::vector<Value>{*v};
    return keep(out, std::move(n));
  });
  return rebuild(out, keep);
}
Graph narrowProducts(const Graph& in) { return narrowed(in, DType::I32, narrowProducts); }
Graph deferScales(const Graph& in) { return narrowed(in, DType::F32, deferScales); }

const Pass narrow{"narrow-products",
                  "multiply 8-bit integers as they are, zero points taken off the sums",
                  narrowProducts};
/// The sum of the floats would round at every step; this one rounds once.
const Pass defer{"defer-scales",
                 "sum products of scaled 8-bit integers as integers, scale the sums", deferScales,
                 Numerics::Ordered};

}  // namespace
}  // namespace tektite
