#include <algorithm>

#include "ir/facts.h"
#include "passes/coordinates.h"
#include "passes/pass.h"
#include "passes/rebuild.h"
#include "passes/short_products.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr double kTransformed = 2;  // multiplications that one of a transform costs: short sums
constexpr double kWeightSteps =
    8;  // and an element of the transformed weights, which no tile reads twice
constexpr double kLeastGain = 1.25;
constexpr int64_t kLeastChannels = 16;  // with fewer the transforms are most of the work

/// A tensor [batch, channels, places...] by tiles: [batch, (tile, place in it)..., channels].
struct Tiles {
  Value value;
  std::vector<int64_t> outputs;  ///< places a tile, for each axis
};

std::string axis(size_t d) { return coordinate(static_cast<int>(d)); }

/// A part of what stands for the node.
Value addFor(const Node& n, Graph& g, NodeKind kind, std::vector<Value> operands, TensorType type) {
  Node made;
  made.kind = std::move(kind);
  made.operands = std::move(operands);
  made.results = {std::move(type)};
  made.origin = n.origin;
  return g.add(std::move(made));
}

/// Sums over windows of a convolution with constant weights, taken by tiles of outputs: along each axis a tile of m outputs needs m + r - 1
/// products of transformed inputs and weights instead of m * r (Toom and Cook; Winograd's minimal filtering). Everything is a contraction:
/// two for each axis with small constant matrices, one over the channels for each of the products.
class ShortWindows {
 public:
  ShortWindows(Graph& g, const Node& n) : g_(g), n_(n), c_(*n.as<Contract>()) {}

  /// Nothing where it isn't one, or does not pay.
  std::optional<Tiles> run() {
    if (!matches()) return std::nullopt;
    double best = direct() / kLeastGain;
    for (const int64_t m : {2, 4}) {
      if (!formsFor(m)) continue;
      if (const double cost = transformed(); cost < best) best = cost, most_ = m;
    }
    if (!most_ || !formsFor(most_)) return std::nullopt;
    Tiles out{products(), {}};
    for (const ShortProduct& f : forms_) out.outputs.push_back(f.outputs);
    return out;
  }

 private:
  size_t spatial() const { return c_.output.size() - 2; }
  int64_t extent(Value v, size_t axis) const { return g_.type(v).extent(static_cast<int>(axis)); }
  int64_t outs(size_t k) const { return n_.results[0].extent(static_cast<int>(2 + k)); }
  int64_t taps(size_t k) const { return extent(n_.operands[1], 2 + k); }
  int64_t tiles(size_t k) const { return outs(k) / forms_[k].outputs; }
  int64_t batch() const { return extent(n_.operands[0], 0); }
  int64_t channels() const { return extent(n_.operands[0], 1); }
  int64_t results() const { return extent(n_.operands[1], 0); }

  /// "ncpqij,ocij->nopq" of floats, of constant weights and windows whose elements depend on p + i and q + j only.
  bool matches() {
    if (n_.operands.size() != 2 || n_.results[0].dtype != DType::F32 || c_.output.size() < 3)
      return false;
    for (Value v : n_.operands)
      if (g_.type(v).dtype != DType::F32 || !g_.type(v).isStatic()) return false;
    const std::string &x = c_.inputs[0], &w = c_.inputs[1], &y = c_.output;
    const size_t s = spatial();
    if (x.size() != 2 + 2 * s || w.size() != 2 + s) return false;
    if (x[0] != y[0] || w[0] != y[1] || x[1] != w[1] || x.substr(2, s) != y.substr(2) ||
        x.substr(2 + s) != w.substr(2))
      return false;
    const Const* weights = g_.node(n_.operands[1]).as<Const>();
    const View* view = g_.node(n_.operands[0]).as<View>();
    if (!weights || !weights->data || !weights->data->data || !view) return false;
    if (channels() < kLeastChannels || results() < kLeastChannels) return false;
    if (view->fill && view->fill.as<Imm>()->real != 0) return false;
    for (size_t k = 0; k < s; k++)
      if (!slides(*view, k)) return false;
    return true;
  }
  /// Is a step of the output along the axis one of the window?
  bool slides(const View& view, size_t k) const {
    const std::string out = axis(2 + k), in = axis(2 + spatial() + k);
    const auto same = [&](const Expr& e) {
      return simplify(substitute(e, {{out, var(out) + Expr(1)}}), {}) ==
             simplify(substitute(e, {{in, var(in) + Expr(1)}}), {});
    };
    return taps(k) == 1 ||
           (std::ranges::all_of(view.index, same) && (!view.guard || same(view.guard)));
  }

  bool formsFor(int64_t m) {
    forms_.clear();
    bool any = false;
    for (size_t k = 0; k < spatial(); k++) {
      const bool shorter = taps(k) > 1 && outs(k) > 1;
      const auto form = shorter ? shortProduct(m, taps(k)) : std::nullopt;
      if (taps(k) > 1 && (!form || outs(k) % m)) return false;  // others would have to be cropped
      forms_.push_back(form.value_or(ShortProduct{1, 1, {1}, {1}, {1}}));
      any |= shorter;
    }
    return any;
  }

  double direct() const {
    double n = static_cast<double>(batch() * channels() * results());
    for (size_t k = 0; k < spatial(); k++) n *= static_cast<double>(outs(k) * taps(k));
    return n;
  }
  double transformed() const {
    double tilesOf = static_cast<double>(batch()), points = 1, before = 0, after = 0;
    for (size_t k = 0; k < spatial(); k++) {
      tilesOf *= static_cast<double>(tiles(k));
      points *= static_cast<double>(forms_[k].points());
    }
    double left = points;
    for (const ShortProduct& f : forms_) {
      if (f.points() == 1) continue;
      before += points * static_cast<double>(f.points());
      left *= static_cast<double>(f.outputs) / static_cast<double>(f.points());
      after += left * static_cast<double>(f.points());
    }
    const double c = static_cast<double>(channels()), o = static_cast<double>(results());
    return tilesOf * (points * c * o + kTransformed * (before * c + after * o)) +
           kWeightSteps * points * c * o;
  }

  // ---- nodes. Tensors have the points of each axis first, then batch, tiles, channels: products of rows by matrices, one for each point

  Value add(NodeKind kind, std::vector<Value> operands, std::vector<Expr> shape) {
    return addFor(n_, g_, std::move(kind), std::move(operands), {DType::F32, std::move(shape)});
  }
  Value constant(const std::vector<float>& values, std::vector<Expr> shape) {
    const auto memory = std::make_shared<std::vector<float>>(values);
    auto data = std::make_shared<ConstData>();
    data->data = memory->data();
    data->bytes = memory->size() * sizeof(float);
    data->owner = memory;
    return add(Const{std::move(data), {}}, {}, std::move(shape));
  }
  std::string labels(char from) const {
    std::string out;
    for (size_t k = 0; k < spatial(); k++) out += static_cast<char>(from + k);
    return out;
  }
  /// Axis k of the first ones by a matrix [rows x columns]. `last`: in the order of tiles.
  Value along(size_t k, Value v, const std::vector<float>& matrix, int64_t rows, int64_t columns,
              bool last = false) {
    std::vector<Expr> shape = g_.type(v).shape;
    shape[k] = rows;
    const std::string from = labels('e') + "n" + labels('p') + "c";
    std::string to = from, ordered = "n";
    to[k] = 'z';
    std::vector<Expr> places = {shape[spatial()]};
    for (size_t d = 0; d < spatial(); d++) {
      ordered += {to[spatial() + 1 + d], to[d]};
      places.insert(places.end(), {shape[spatial() + 1 + d], shape[d]});
    }
    places.push_back(shape.back());
    return add(Contract{{from, std::string("z") + from[k]}, last ? ordered + "c" : to},
               {v, constant(matrix, {rows, columns})}, last ? places : shape);
  }

  /// The tiles of the input: element a of tile p is what stood at output p * m with window place a.
  Value inputTiles() {
    const Node& windows = g_.node(n_.operands[0]);
    View view = *windows.as<View>();
    const size_t s = spatial();
    std::unordered_map<std::string, Expr> at;
    std::vector<Expr> shape;
    for (const ShortProduct& f : forms_) shape.emplace_back(f.points());
    shape.emplace_back(batch());
    for (size_t k = 0; k < s; k++) shape.emplace_back(tiles(k));
    shape.emplace_back(channels());
    const auto place = [](size_t d) { return var(axis(d)); };
    at.emplace(axis(0), place(s));
    at.emplace(axis(1), place(2 * s + 1));
    for (size_t k = 0; k < s; k++) {
      at.emplace(axis(2 + k), place(s + 1 + k) * Expr(forms_[k].outputs) + place(k));
      at.emplace(axis(2 + s + k), Expr(0));
    }
    for (Expr& e : view.index) e = simplify(substitute(e, at), {});
    if (view.guard) view.guard = simplify(substitute(view.guard, at), {});
    return add(std::move(view), windows.operands, std::move(shape));
  }

  Value weights() {
    const auto* w = static_cast<const float*>(g_.node(n_.operands[1]).as<Const>()->data->data);
    std::vector<Expr> shape;
    for (const ShortProduct& f : forms_) shape.emplace_back(f.points());
    shape.insert(shape.end(), {Expr(channels()), Expr(results())});
    return constant(transformWeights(w, results(), channels(), forms_), std::move(shape));
  }

  Value products() {
    Value v = inputTiles();
    for (size_t k = 0; k < spatial(); k++)
      if (forms_[k].points() > 1)
        v = along(k, v, forms_[k].input, forms_[k].points(), forms_[k].points());
    std::vector<Expr> shape = g_.type(v).shape;
    shape.back() = results();
    const std::string rows = labels('e') + "n" + labels('p');
    v = add(Contract{{rows + "c", labels('e') + "co"}, rows + "o"}, {v, weights()}, shape);
    size_t last = 0;
    for (size_t k = 0; k < spatial(); k++)
      if (forms_[k].points() > 1) last = k;
    for (size_t k = 0; k < spatial(); k++)
      if (forms_[k].points() > 1)
        v = along(k, v, forms_[k].output, forms_[k].outputs, forms_[k].points(), k == last);
    return v;
  }

  Graph& g_;
  const Node n_;
  const Contract c_;
  std::vector<ShortProduct> forms_;
  int64_t most_ = 0;
};

/// Convolutions, and the maps behind them: what is computed at every place is computed in the tiles.
class Shortening {
 public:
  explicit Shortening(Graph& g) : g_(g) {}

  std::vector<Value> rewrite(Node n) {
    std::optional<Tiles> tiles;
    if (n.as<Contract>()) tiles = ShortWindows(g_, n).run();
    if (const Map* m = n.as<Map>()) tiles = mapped(n, *m);
    if (!tiles) return keep(g_, std::move(n));
    const Value v = whole(n, *tiles);
    tiles_.emplace(v, *tiles);
    return {v};
  }

 private:
  /// The tensor of the tiles.
  Value whole(const Node& n, const Tiles& t) {
    View view;
    view.index.push_back(var(axis(0)));
    for (size_t k = 0; k < t.outputs.size(); k++) {
      view.index.push_back(floorDiv(var(axis(2 + k)), Expr(t.outputs[k])));
      view.index.push_back(floorMod(var(axis(2 + k)), Expr(t.outputs[k])));
    }
    view.index.push_back(var(axis(1)));
    return addFor(n, g_, std::move(view), {t.value}, n.results[0]);
  }

  /// A map of what lies in tiles and of what else it takes; nothing where no operand does, or it looks at its coordinates.
  std::optional<Tiles> mapped(const Node& n, const Map& m) {
    const auto found = std::ranges::find_if(n.operands, [&](Value v) {
      const auto it = tiles_.find(v);
      return it != tiles_.end() && g_.type(v).shape == n.results[0].shape;
    });
    if (found == n.operands.end() || n.results.size() != 1) return std::nullopt;
    for (const std::string& v : freeVars(m.body))
      if (!v.starts_with("$")) return std::nullopt;
    const Tiles like = tiles_.at(*found);
    std::vector<Value> operands;
    for (Value v : n.operands) operands.push_back(inTiles(n, v, like));
    TensorType type{n.results[0].dtype, g_.type(like.value).shape};
    return Tiles{addFor(n, g_, m, std::move(operands), std::move(type)), like.outputs};
  }
  /// An operand in the places of tiles; axes of one element stay so.
  Value inTiles(const Node& n, Value v, const Tiles& like) {
    if (const auto it = tiles_.find(v); it != tiles_.end() && it->second.outputs == like.outputs &&
                                        g_.type(v).shape == n.results[0].shape)
      return it->second.value;
    const TensorType from = g_.type(v);
    const std::vector<Expr>& to = g_.type(like.value).shape;
    const auto alone = [&](size_t d) { return isConstant(from.shape[d], 1); };
    View view;
    TensorType type{from.dtype, {alone(0) ? Expr(1) : to[0]}};
    view.index = {alone(0) ? Expr(0) : var(axis(0)), alone(1) ? Expr(0) : var(axis(to.size() - 1))};
    for (size_t k = 0; k < like.outputs.size(); k++) {
      const size_t d = 1 + 2 * k;
      const bool one = alone(2 + k);
      type.shape.insert(type.shape.end(), {one ? Expr(1) : to[d], one ? Expr(1) : to[d + 1]});
      view.index.push_back(one ? Expr(0) : var(axis(d)) * Expr(like.outputs[k]) + var(axis(d + 1)));
    }
    type.shape.push_back(alone(1) ? Expr(1) : to.back());
    return addFor(n, g_, std::move(view), {v}, std::move(type));
  }

  Graph& g_;
  std::map<Value, Tiles> tiles_;  // of values of the graph
};

Graph shortenWindows(const Graph& in) {
  std::optional<Shortening> all;
  const Graph out = rebuild(in, [&](Graph& out, Node n) {
    if (!all) all.emplace(out);
    return all->rewrite(withinNested(std::move(n), in, shortenWindows));
  });
  return rebuild(out, keep);
}

const Pass pass{"shorten-windows",
                "convolve tiles of outputs by fewer products of transformed inputs and weights",
                shortenWindows, Numerics::Fast};

}  // namespace
}  // namespace tektite
