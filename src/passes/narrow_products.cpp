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
    if (!x || !k) return std::nullopt;
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
  /// A value with these labels, or 1 along them, in the axes of others: 1 along those that it lacks.
  Value along(Value v, const std::string& labels, const std::string& axes) {
    const TensorType t = g_.type(v);
    std::vector<Expr> index, shape(axes.size(), Expr(1));
    for (size_t d = 0; d < labels.size(); d++) {
      const size_t at = axes.find(labels[d]);
      const bool one = tektite::isConstant(t.shape[d], 1) || at == std::string::npos;
      index.push_back(one ? Expr(0) : var(coordinate(static_cast<int>(at))));
      if (!one) shape[at] = t.shape[d];
    }
    Node n;
    n.kind = View{std::move(index), {}, {}};
    n.operands = {v};
    n.results = {{t.dtype, std::move(shape)}};
    n.origin = n_.origin;
    return g_.add(std::move(n));
  }
  Value placed(Value v, const std::string& labels) { return along(v, labels, c_.output); }

  /// sum (x - zx) (k - zk) = sum x k - zk sum x - zx sum (k - zk), exact where integers wrap.
  Value product(size_t w, const IntegerForm& x, const IntegerForm& k) {
    const std::string &ofX = c_.inputs[1 - w], &ofK = c_.inputs[w];
    std::vector<Value> terms(1), operands(2);
    operands[w] = k.raw;
    operands[1 - w] = x.raw;
    terms[0] = contraction(c_.inputs, operands, c_.output);
    Expr all = var("$0", DType::I32);
    const auto take = [&](Value zero, Value sums) {
      const auto at = static_cast<int>(terms.size());
      all = all - var(operandName(at), DType::I32) * var(operandName(at + 1), DType::I32);
      terms.insert(terms.end(), {zero, sums});
    };
    if (k.zero) take(placed(k.zero, ofK), placed(rows(x.raw, ofX), ofX));
    if (x.zero) take(placed(x.zero, ofX), weights(k, ofK));
    return terms.size() == 1 ? terms[0] : map(all, terms);
  }

  /// Sums over what is summed, with its axes as 1. Windows that take whole axes take sums of these.
  Value rows(Value x, const std::string& labels) {
    std::vector<int> left;
    for (size_t d = 0; d < labels.size(); d++)
      if (isSummed(labels[d], c_)) left.push_back(static_cast<int>(d));
    const Node n = g_.node(x);
    const View* view = n.as<View>();
    if (!view || view->guard) return reduced(x, left);
    View now = *view;
    TensorType type{DType::I32, n.results[0].shape};
    std::vector<int> whole;
    int64_t count = 1;
    for (const int d : std::vector<int>(left)) {
      const int axis = wholeAxis(n, *view, d);
      if (axis < 0) continue;
      whole.push_back(axis);
      now.index[axis] = 0;
      count *= *asInteger(type.shape[d]);
      type.shape[d] = 1;
      std::erase(left, d);
    }
    if (whole.empty()) return reduced(x, left);
    std::ranges::sort(whole);
    if (now.fill) now.fill = immInteger(DType::I32, *asInteger(now.fill) * count);
    Node windows = n;
    windows.kind = std::move(now);
    windows.operands = {reduced(n.operands[0], whole)};
    windows.results = {std::move(type)};
    return reduced(g_.add(std::move(windows)), left);
  }
  /// The axis of a view's operand that is this one of its own, of known extent, if nothing else depends on it.
  int wholeAxis(const Node& n, const View& view, int d) const {
    const std::string name = coordinate(d);
    int found = -1, uses = 0;
    for (size_t a = 0; a < view.index.size(); a++) {
      const auto vars = freeVars(view.index[a]);
      uses += std::ranges::count(vars, name) > 0;
      if (view.index[a] == Expr(var(name)) && asInteger(n.results[0].shape[d]) &&
          g_.type(n.operands[0]).shape[a] == n.results[0].shape[d])
        found = static_cast<int>(a);
    }
    return uses == 1 ? found : -1;
  }
  Value reduced(Value v, const std::vector<int>& axes) {
    const TensorType t = g_.type(v);
    if (t.dtype != DType::I32) v = map(cast(DType::I32, var("$0", t.dtype)), {v});
    if (axes.empty()) return v;
    Node n;
    n.kind = Reduce{builtinCombine("sum", DType::I32), axes};
    n.operands = {v};
    n.results = {{DType::I32, t.shape}};
    for (int axis : axes) n.results[0].shape[axis] = 1;
    n.origin = n_.origin;
    return g_.add(std::move(n));
  }

  Value weights(const IntegerForm& k, const std::string& ofK) {
    const std::string labels = kept(ofK);
    const Value sums = contraction({ofK, summed()}, {k.raw, ones(DType::I8, summed())}, labels);
    if (!k.zero) return placed(sums, labels);
    const Expr each = var("$0", DType::I32) - var("$1", DType::I32) * cast(DType::I32, depth());
    return placed(map(each, {sums, along(k.zero, ofK, labels)}), labels);
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
