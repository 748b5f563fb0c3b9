#include "ops/forest.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/nested.h"
#include "ops/util.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kDeepest = 256;
constexpr int64_t kMostLeaves = 64;  // of a word
constexpr int64_t kDeBruijn32 = 0x077CB531, kDeBruijn64 = 0x03f79d71b4cb0a89;

size_t at(int64_t i) { return static_cast<size_t>(i); }

Value integerTable(Builder& b, DType t, const std::vector<int64_t>& values,
                   std::vector<Expr> shape) {
  auto memory = std::make_shared<std::vector<char>>(values.size() * at(bytes(t)) + 1);
  for (size_t i = 0; i < values.size(); i++)
    storeInteger(t, memory->data(), static_cast<int64_t>(i), values[i]);
  auto data = std::make_shared<ConstData>();
  data->data = memory->data();
  data->bytes = memory->size() - 1;
  data->owner = memory;
  return b.constant({t, std::move(shape)}, data);
}

// ---- one kind of comparison

/// The largest number of the type below `x`; NaN, which nothing is below, where there is none.
double below(DType t, double x) {
  if (std::isinf(x) && x < 0) return std::nan("");
  return t == DType::F64 ? std::nextafter(x, -INFINITY)
                         : std::nextafterf(static_cast<float>(x), -INFINITY);
}

/// Says every comparison by `value <= split`, with NaN as `missing` has it: others by their negation, by the number below the split, or by two nodes.
void onlyLeq(Forest& f, DType t) {
  const auto nodes = static_cast<int64_t>(f.features.size());
  f.weights.resize(at(nodes * f.targets));
  for (int64_t n = 0; n < nodes; n++) {
    const size_t i = at(n);
    if (t != DType::F64) f.splits[i] = static_cast<float>(f.splits[i]);
    int64_t mode = f.modes[i];
    f.modes[i] = Forest::Leq;
    if (f.leaf(n)) continue;
    const auto negate = [&] {
      std::swap(f.yes[i], f.no[i]);
      f.missing[i] = !f.missing[i];
    };
    if (mode == Forest::Neq) {  // NaN differs from every split
      negate();
      f.missing[i] = false;
      mode = Forest::Eq;
    }
    if (std::isnan(f.splits[i])) continue;
    if (mode == Forest::Gt || mode == Forest::Gte) negate();
    if (mode == Forest::Lt || mode == Forest::Gte) f.splits[i] = below(t, f.splits[i]);
    if (mode == Forest::Eq) {
      const int64_t second = f.add(f.features[i], Forest::Leq, below(t, f.splits[i]), false);
      f.yes[at(second)] = f.no[i];
      f.no[at(second)] = f.yes[i];
      f.yes[i] = second;
    }
  }
  f.weights.resize(f.features.size() * at(f.targets), 0);
}

/// x turned, [features, rows]; where trees treat missing values in two ways each feature stands there twice, the second time with NaN as -inf.
struct Columns {
  Value values;
  std::vector<int64_t> of;  ///< each node's row of `values`

  Columns(Builder& b, const Forest& f, Value x) : values(b.transpose(x, {1, 0})), of(f.features) {
    bool some = false, all = true;
    for (int64_t n = 0; n < static_cast<int64_t>(of.size()); n++) {
      if (f.leaf(n)) continue;
      some |= f.missing[at(n)] != 0;
      all &= f.missing[at(n)] != 0;
    }
    if (!some) return;
    if (all) {
      values = b.map("select(isnan(a), -inf, a)", {values});
      return;
    }
    const Expr features = b.type(values).shape.at(0), rows = b.type(values).shape.at(1);
    const Value twice = b.broadcast(b.reshape(values, {features, 1, rows}), {features, 2, rows});
    values = b.reshape(b.map("select(isnan(a) & d1 == 1, -inf, a)", {twice}), {features * 2, rows});
    for (size_t i = 0; i < of.size(); i++) of[i] = 2 * of[i] + f.missing[i];
  }
  /// The values at these numbers of columns, given over the axes before the last: [..., rows]
  Value look(Builder& b, Value columns, const std::vector<Expr>& shape) const {
    const int last = static_cast<int>(shape.size()) - 1;
    std::vector<Expr> place = coordinates(last);
    return b.gather(values, {columns}, shape,
                    {indexLoad(b, 1, columns, place), var(coordinate(last))},
                    imm(b.dtype(values), 0));
  }
};

// ---- small trees: words of leaves

/// A tree's comparisons, each with the leaves that stay where it fails, and its leaves in order.
struct Word {
  struct Row {
    int64_t node, stay;
  };
  std::vector<Row> rows;
  std::vector<int64_t> leaves;

  /// False: there are more leaves than bits.
  bool fill(const Forest& f, int64_t node) {
    if (f.leaf(node)) {
      leaves.push_back(node);
      return static_cast<int64_t>(leaves.size()) <= kMostLeaves;
    }
    const size_t row = rows.size(), from = leaves.size();
    rows.push_back({node, 0});
    if (!fill(f, f.yes[at(node)])) return false;
    uint64_t gone = 0;
    for (size_t i = from; i < leaves.size(); i++) gone |= uint64_t{1} << i;
    rows[row].stay = static_cast<int64_t>(~gone);
    return fill(f, f.no[at(node)]);
  }
};

/// Each tree's leaf as a row of a table of weights, [trees, rows], and that table.
struct Leaves {
  Value index, weights;
};

Leaves leavesOfWords(Builder& b, const Forest& f, const Columns& x,
                     const std::vector<Word>& words) {
  size_t most = 1, bitsUsed = 0;
  for (const Word& w : words) {
    most = std::max(most, w.rows.size());
    bitsUsed = std::max(bitsUsed, w.leaves.size());
  }
  const int width = bitsUsed <= 32 ? 32 : 64, log = width == 32 ? 5 : 6;
  const DType t = b.dtype(x.values), word = width == 32 ? DType::U32 : DType::U64;
  const auto trees = static_cast<int64_t>(words.size()), deep = static_cast<int64_t>(most);
  std::vector<int64_t> columns(at(deep * trees), 0), masks(at(deep * trees), -1);
  std::vector<double> splits(at(deep * trees), 0), weights(at(trees * width * f.targets), 0);
  for (int64_t k = 0; k < trees; k++) {
    const Word& w = words[at(k)];
    for (size_t i = 0; i < w.rows.size(); i++) {
      const size_t cell = i * at(trees) + at(k);
      columns[cell] = x.of[at(w.rows[i].node)];
      splits[cell] = f.splits[at(w.rows[i].node)];
      masks[cell] = w.rows[i].stay;
    }
    for (size_t i = 0; i < w.leaves.size(); i++) {  // where the product of its bit points
      const auto place = width == 32 ? static_cast<uint32_t>(kDeBruijn32 << i) >> 27
                                     : static_cast<uint64_t>(kDeBruijn64) << i >> 58;
      for (int64_t c = 0; c < f.targets; c++)
        weights[(at(k) * at(width) + place) * at(f.targets) + at(c)] =
            f.weights[at(w.leaves[i] * f.targets + c)];
    }
  }
  const Expr rows = b.type(x.values).shape.at(1);
  const std::vector<Expr> cells = {deep, trees};
  const Value value = x.look(b, integerTable(b, DType::I32, columns, cells), {deep, trees, rows});
  const Value split = constantOf(b, t, splits, {deep, trees, 1});
  const Value stay = integerTable(b, word, masks, {deep, trees, 1});
  const Expr stays = select(le(var("$0", t), var("$1", t)), immInteger(word, -1), var("$2", word));
  const Value left = b.reduce("all", b.map(stays, {value, split, stay}), {0});
  const Expr l = var("$0", word);
  const Expr lowest = apply(Op::And, {l, immInteger(word, 0) - l});
  const Expr place =
      apply(Op::Shr, {lowest * immInteger(word, width == 32 ? kDeBruijn32 : kDeBruijn64),
                      immInteger(word, width - log)});
  const Value index = squeeze(
      b,
      b.map(cast(DType::I32, place) + cast(DType::I32, var("d1")) * immInteger(DType::I32, width),
            {left}),
      {0});
  return {index, constantOf(b, t, weights, {trees * width, f.targets})};
}

// ---- large trees: walks

int depthOf(const Forest& f, int64_t root) {
  std::vector<int64_t> level = {root};
  for (int d = 0; d < kDeepest; d++) {
    std::vector<int64_t> next;
    for (const int64_t n : level)
      if (!f.leaf(n)) {
        next.push_back(f.yes[at(n)]);
        next.push_back(f.no[at(n)]);
      }
    if (next.empty()) return d;
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    level = std::move(next);
  }
  userError("trees deeper than {} are not supported", kDeepest);
}

Leaves leavesOfWalks(Builder& b, const Forest& f, const Columns& x,
                     const std::vector<int64_t>& roots, int depth) {
  const auto nodes = static_cast<int64_t>(f.features.size()),
             trees = static_cast<int64_t>(roots.size());
  const DType t = b.dtype(x.values);
  std::vector<int64_t> next;
  for (size_t i = 0; i < f.yes.size(); i++) {
    next.push_back(f.no[i]);
    next.push_back(f.yes[i]);
  }
  const Expr rows = b.type(x.values).shape.at(1);
  const std::vector<Expr> shape = {trees, rows};
  const Value start = b.broadcast(integerTable(b, DType::I32, roots, {trees, 1}), shape),
              columns = integerTable(b, DType::I32, x.of, {nodes}),
              splits = constantOf(b, t, f.splits, {nodes}),
              after = integerTable(b, DType::I32, next, {2 * nodes});
  const Value index =
      scan(b, {start}, {b.map(var("d0"), {}, {depth})}, {columns, splits, after, x.values}, {},
           [&](Builder& inner, const std::vector<Value>& in,
               const std::vector<Value>& around) -> std::vector<Value> {
             const Value node = in.at(0);
             const auto look = [&](Value table, Value i) {
               return inner.gather(table, {i}, shape,
                                   {indexLoad(inner, 1, i, {var("d0"), var("d1")})},
                                   imm(inner.dtype(table), 0));
             };
             const Value column = look(around[0], node);
             const Value value = inner.gather(
                 around[3], {column}, shape,
                 {indexLoad(inner, 1, column, {var("d0"), var("d1")}), var("d1")}, imm(t, 0));
             const Value way =
                 inner.map("a * 2 + select(b <= c, 1, 0)", {node, value, look(around[1], node)});
             return {look(around[2], way)};
           })
          .at(0);
  return {index, constantOf(b, t, f.weights, {nodes, f.targets})};
}

// ---- all of them

/// Parts of a list in which the greatest cost is less than twice the least.
template <class T>
std::vector<std::vector<T>> alike(std::vector<std::pair<int64_t, T>> list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::vector<T>> out;
  int64_t most = 0;
  for (auto& [cost, item] : list) {
    if (out.empty() || 2 * cost < most) {
      out.emplace_back();
      most = cost;
    }
    out.back().push_back(std::move(item));
  }
  return out;
}

/// [rows, targets]
Value joined(Builder& b, const Leaves& of, std::string_view combine) {
  const auto& shape = b.type(of.index).shape;
  const Expr targets = b.type(of.weights).shape.at(1);
  const Value all = b.gather(of.weights, {of.index}, {shape.at(0), shape.at(1), targets},
                             {indexLoad(b, 1, of.index, {var("d0"), var("d1")}), var("d2")},
                             imm(b.dtype(of.weights), 0));
  return squeeze(b, b.reduce(combine, all, {0}), {0});
}

}  // namespace

int64_t Forest::add(int64_t feature, int64_t mode, double split, bool missingTrue) {
  const auto self = static_cast<int64_t>(features.size());
  features.push_back(feature);
  modes.push_back(mode);
  splits.push_back(split);
  missing.push_back(missingTrue);
  yes.push_back(self);
  no.push_back(self);
  return self;
}

Value scoresOf(Builder& b, Forest f, Value x, std::string_view combine) {
  const DType t = b.dtype(x);
  if (bytes(t) < 4) x = b.convert(x, DType::F32);
  onlyLeq(f, b.dtype(x));
  const Columns columns(b, f, x);
  std::vector<std::pair<int64_t, Word>> words;
  std::vector<std::pair<int64_t, int64_t>> walks;
  for (const int64_t root : f.roots) {
    const int64_t depth = depthOf(f, root);
    Word w;
    if (w.fill(f, root))
      words.emplace_back(std::max<int64_t>(1, static_cast<int64_t>(w.rows.size())), std::move(w));
    else
      walks.emplace_back(depth, root);
  }
  Value out;
  const auto add = [&](const Leaves& leaves) {
    const Value y = joined(b, leaves, combine);
    const std::string text = combine == "sum" ? "a + b" : std::string(combine) + "(a, b)";
    out = out ? b.map(text, {out, y}) : y;
  };
  for (const auto& part : alike(std::move(words))) add(leavesOfWords(b, f, columns, part));
  for (const auto& part : alike(std::move(walks)))
    add(leavesOfWalks(b, f, columns, part, depthOf(f, part.at(0))));
  return b.convert(out ? out : b.splat(t, 0, {b.type(x).shape.at(0), f.targets}), t);
}

}  // namespace tektite
