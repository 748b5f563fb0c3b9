#include <algorithm>
#include <map>

#include "ops/nested.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Tree ensembles: every row walks every tree from its root, a fixed number of steps; a leaf leads to itself.
namespace tektite {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";
constexpr int kDeepest = 256;

enum Mode : int64_t { Leq, Lt, Gte, Gt, Eq, Neq };

/// All trees' nodes and leaves in one numbering.
struct Forest {
  std::vector<double> splits;
  std::vector<int64_t> features, modes, yes, no, missing, roots;
  std::vector<double> weights;  // [nodes, targets]
  int64_t targets = 1;

  int64_t add(int64_t feature, int64_t mode, double split, bool missingTrue) {
    const auto self = static_cast<int64_t>(features.size());
    features.push_back(feature);
    modes.push_back(mode);
    splits.push_back(split);
    missing.push_back(missingTrue);
    yes.push_back(self);
    no.push_back(self);
    return self;
  }
  int depth() const {
    std::vector<int64_t> level = roots;
    for (int d = 0; d < kDeepest; d++) {
      std::vector<int64_t> next;
      for (const int64_t n : level) {
        const auto i = static_cast<size_t>(n);
        if (yes[i] != n) next.push_back(yes[i]);
        if (no[i] != n) next.push_back(no[i]);
      }
      if (next.empty()) return d;
      if (next.size() > features.size()) break;  // not a tree
      level = std::move(next);
    }
    userError("trees deeper than {} are not supported", kDeepest);
  }
};

Value table(Builder& b, DType t, const std::vector<int64_t>& values, std::vector<Expr> shape) {
  return b.convert(constantOf(b, DType::I64, std::vector<double>(values.begin(), values.end()),
                              std::move(shape)),
                   t);
}

/// What a step reads of the nodes: tables, which a step of the walk is given as it was captured.
struct Tables {
  Value features, splits, yes, no, modes, missing;  ///< the last two are empty where all are alike
  int64_t mode = Leq;

  Tables(Builder& b, const Forest& f, DType t) {
    const std::vector<Expr> nodes = {static_cast<int64_t>(f.features.size())};
    const auto ints = [&](const std::vector<int64_t>& v) { return table(b, DType::I32, v, nodes); };
    features = ints(f.features);
    splits = constantOf(b, t, f.splits, nodes);
    yes = ints(f.yes);
    no = ints(f.no);
    mode = f.modes.at(0);
    if (std::ranges::any_of(f.modes, [&](int64_t m) { return m != mode; })) modes = ints(f.modes);
    if (std::ranges::any_of(f.missing, [](int64_t m) { return m != 0; })) missing = ints(f.missing);
  }
  std::vector<Value> list() const {
    std::vector<Value> out = {features, splits, yes, no};
    for (const Value v : {modes, missing})
      if (v) out.push_back(v);
    return out;
  }
};

/// From each row's and tree's node to the next. `tables` as Tables::list() has them, in this builder.
Value stepDown(Builder& b, const Tables& of, Value at, Value x, const std::vector<Value>& tables) {
  static constexpr const char* texts[] = {"a <= b", "a < b",  "b <= a",
                                          "b < a",  "a == b", "not(a == b)"};
  const auto shape = b.type(at).shape;
  const DType t = b.dtype(x);
  const Expr here = indexLoad(b, 1, at, {var("d0"), var("d1")});
  const auto look = [&](size_t i) {
    return b.gather(tables[i], {at}, shape, {here}, imm(b.dtype(tables[i]), 0));
  };
  const Value feature = look(0), split = look(1),
              value = b.gather(x, {feature}, shape, {var("d0"), here}, imm(t, 0));
  Value take = b.map(texts[of.mode], {value, split});
  if (of.modes) {
    const Value mode = look(4);
    for (int m = Leq; m <= Neq; m++)
      if (m != of.mode)
        take = b.map(fmt::format("select(a == {}, b, c)", m),
                     {mode, b.map(texts[m], {value, split}), take});
  }
  if (of.missing) take = b.map("a | isnan(b) & c == 1", {take, value, look(of.modes ? 5 : 4)});
  return b.map("select(a, b, c)", {take, look(2), look(3)});
}

/// The leaf of each row and tree: [rows, trees], after as many steps as the deepest tree has levels.
Value leaves(Builder& b, const Forest& f, Value x) {
  const auto trees = static_cast<int64_t>(f.roots.size());
  const Value roots =
      b.broadcast(table(b, DType::I32, f.roots, {1, trees}), {b.type(x).shape.at(0), trees});
  const int depth = f.depth();
  if (depth == 0) return roots;
  const Tables tables(b, f, b.dtype(x));
  std::vector<Value> captured = tables.list();
  captured.push_back(x);
  const Value steps = b.map(var("d0"), {}, {depth});
  return scan(b, {roots}, {steps}, captured, {},
              [&](Builder& inner, const std::vector<Value>& in,
                  const std::vector<Value>& around) -> std::vector<Value> {
                return {stepDown(inner, tables, in.at(0), around.back(), around)};
              })
      .at(0);
}

/// [rows, targets]
Value scores(Builder& b, const Forest& f, Value x, const std::string& aggregate,
             const std::vector<double>& base) {
  const Value leaf = leaves(b, f, x);
  const DType t = b.dtype(x);
  const Value weights =
      constantOf(b, t, f.weights, {static_cast<int64_t>(f.features.size()), f.targets});
  const Value all =
      b.gather(weights, {leaf}, {b.type(leaf).shape.at(0), b.type(leaf).shape.at(1), f.targets},
               {indexLoad(b, 1, leaf, {var("d0"), var("d1")}), var("d2")}, imm(t, 0));
  Value y = squeeze(b,
                    b.reduce(aggregate == "MIN"   ? "min"
                             : aggregate == "MAX" ? "max"
                                                  : "sum",
                             all, {1}),
                    {1});
  if (aggregate == "AVERAGE") y = b.map(fmt::format("a / {}", f.roots.size()), {y});
  if (!base.empty())
    y = b.map("a + b", {y, constantOf(b, t, base, {static_cast<int64_t>(base.size())})});
  return y;
}

Value transformed(Builder& b, Value y, const std::string& how) {
  if (how == "NONE" || how.empty()) return y;
  if (how == "LOGISTIC") return b.map("sigmoid(a)", {y});
  if (how == "SOFTMAX") {
    const Value e = b.map("exp(a - b)", {y, b.reduce("max", y, {1})});
    return b.map("a / b", {e, b.reduce("sum", e, {1})});
  }
  userError("attribute 'post_transform' is '{}', expected NONE, LOGISTIC or SOFTMAX", how);
}

/// The form before version 5: nodes are named by tree and number; what leaves give is listed apart, under `prefix`.
Forest forestOf(const OpCall& c, const std::string& prefix, int64_t targets) {
  static const std::map<std::string, int64_t> modes = {{"BRANCH_LEQ", Leq}, {"BRANCH_LT", Lt},
                                                       {"BRANCH_GTE", Gte}, {"BRANCH_GT", Gt},
                                                       {"BRANCH_EQ", Eq},   {"BRANCH_NEQ", Neq}};
  const auto trees = c.integers("nodes_treeids"), ids = c.integers("nodes_nodeids"),
             features = c.integers("nodes_featureids"), yes = c.integers("nodes_truenodeids"),
             no = c.integers("nodes_falsenodeids");
  const auto missing = c.integers("nodes_missing_value_tracks_true", std::vector<int64_t>{});
  const auto kinds = c.texts("nodes_modes");
  const auto values = c.reals("nodes_values");
  Forest f;
  f.targets = targets;
  std::map<std::pair<int64_t, int64_t>, int64_t> number;
  for (size_t i = 0; i < ids.size(); i++) {
    const auto mode = modes.find(kinds.at(i));
    if (mode == modes.end() && kinds[i] != "LEAF") userError("a node of kind '{}'", kinds[i]);
    if (i == 0 || trees[i] != trees[i - 1]) f.roots.push_back(static_cast<int64_t>(i));
    number[{trees.at(i), ids[i]}] = f.add(
        features.at(i), mode == modes.end() ? (f.modes.empty() ? 0 : f.modes.at(0)) : mode->second,
        values.at(i), i < missing.size() && missing[i]);
  }
  const auto find = [&](int64_t tree, int64_t id) {
    const auto at = number.find({tree, id});
    if (at == number.end()) userError("tree {} has no node {}", tree, id);
    return at->second;
  };
  for (size_t i = 0; i < ids.size(); i++) {
    if (kinds[i] == "LEAF") continue;
    f.yes[i] = find(trees[i], yes.at(i));
    f.no[i] = find(trees[i], no.at(i));
  }
  f.weights.assign(ids.size() * static_cast<size_t>(targets), 0);
  const auto ofTree = c.integers(prefix + "_treeids"), ofNode = c.integers(prefix + "_nodeids"),
             target = c.integers(prefix + "_ids");
  const auto weights = c.reals(prefix + "_weights");
  for (size_t i = 0; i < weights.size(); i++) {
    if (target.at(i) < 0 || target[i] >= targets)
      userError("a leaf gives to target {} of {}", target[i], targets);
    f.weights[static_cast<size_t>(find(ofTree.at(i), ofNode.at(i)) * targets + target[i])] +=
        weights[i];
  }
  return f;
}

const OpDef regressor{
    "TreeEnsembleRegressor",
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = isFloat(b.dtype(c.at(0))) ? c.at(0) : b.convert(c.at(0), DType::F32);
      const Forest f = forestOf(c, "target", c.integer("n_targets", 1));
      const Value y = scores(b, f, x, c.text("aggregate_function", "SUM"),
                             c.reals("base_values", std::vector<double>{}));
      return transformed(b, b.convert(y, DType::F32), c.text("post_transform", "NONE"));
    },
    1, kDomain};

/// One score for two classes is that of the second.
const OpDef classifier{
    "TreeEnsembleClassifier",
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = isFloat(b.dtype(c.at(0))) ? c.at(0) : b.convert(c.at(0), DType::F32);
      const auto labels = c.integers("classlabels_int64s");
      const auto classes = static_cast<int64_t>(labels.size());
      const auto ids = c.integers("class_ids");
      const bool binary = classes == 2 && std::all_of(ids.begin(), ids.end(),
                                                      [&](int64_t i) { return i == ids.at(0); });
      OpCall call = c;
      if (binary) call.attributes["class_ids"] = std::vector<int64_t>(ids.size(), 0);
      const Forest f = forestOf(call, "class", binary ? 1 : classes);
      const std::string how = c.text("post_transform", "NONE");
      Value y = b.convert(scores(b, f, x, "SUM", c.reals("base_values", std::vector<double>{})),
                          DType::F32);
      if (binary) {
        const bool positive =
            std::all_of(f.weights.begin(), f.weights.end(), [](double w) { return w >= 0; });
        const Value second = how == "LOGISTIC" ? b.map("sigmoid(a)", {y}) : y;
        y = b.concat({b.map(how == "LOGISTIC" || positive ? "1 - a" : "-a", {second}), second}, 1);
      } else {
        y = transformed(b, y, how);
      }
      return {labelOf(b, y, labels), y};
    },
    1, kDomain};

/// Version 5: leaves have numbers of their own.
const OpDef ensemble{
    "TreeEnsemble",
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = c.at(0);
      const auto numbers = [&](const char* name) {
        const TensorAttribute& t = c.tensor(name);
        std::vector<double> out;
        for (int64_t i = 0; i < t.type.elements(); i++)
          out.push_back(isFloat(t.type.dtype)
                            ? loadFloat(t.type.dtype, t.data->data, i)
                            : static_cast<double>(loadInteger(t.type.dtype, t.data->data, i)));
        return out;
      };
      const auto features = c.integers("nodes_featureids"), yes = c.integers("nodes_truenodeids"),
                 no = c.integers("nodes_falsenodeids"), yesLeaf = c.integers("nodes_trueleafs"),
                 noLeaf = c.integers("nodes_falseleafs"), targets = c.integers("leaf_targetids"),
                 missing = c.integers("nodes_missing_value_tracks_true", std::vector<int64_t>{});
      const auto modes = numbers("nodes_modes"), splits = numbers("nodes_splits"),
                 weights = numbers("leaf_weights");
      Forest f;
      f.roots = c.integers("tree_roots");
      f.targets = c.integer("n_targets", 1);
      const auto inner = static_cast<int64_t>(features.size());
      for (size_t i = 0; i < features.size(); i++) {
        if (modes.at(i) > 5) userError("set membership is not supported");
        f.add(features[i], static_cast<int64_t>(modes[i]), splits.at(i),
              i < missing.size() && missing[i]);
        f.yes.back() = yes.at(i) + (yesLeaf.at(i) ? inner : 0);
        f.no.back() = no.at(i) + (noLeaf.at(i) ? inner : 0);
      }
      const int64_t mode = f.modes.empty() ? 0 : f.modes.at(0);
      for (size_t i = 0; i < weights.size(); i++) f.add(0, mode, 0, false);
      for (size_t i = 0; i < f.yes.size(); i++)
        if (f.yes[i] < 0 || f.no[i] < 0 ||
            std::max(f.yes[i], f.no[i]) >= static_cast<int64_t>(f.yes.size()))
          userError("node {} leads out of the trees", i);
      f.weights.assign(f.features.size() * static_cast<size_t>(f.targets), 0);
      for (size_t i = 0; i < weights.size(); i++) {
        if (targets.at(i) < 0 || targets[i] >= f.targets)
          userError("a leaf gives to target {} of {}", targets[i], f.targets);
        f.weights[(features.size() + i) * static_cast<size_t>(f.targets) +
                  static_cast<size_t>(targets[i])] = weights[i];
      }
      static constexpr const char* aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
      static constexpr const char* transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                   "PROBIT"};
      const int64_t aggregate = c.integer("aggregate_function", 1),
                    transform = c.integer("post_transform", 0);
      if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4)
        userError("aggregate function {} and transform {}", aggregate, transform);
      return transformed(b, scores(b, f, x, aggregates[aggregate], {}), transforms[transform]);
    },
    5, kDomain};

}  // namespace
}  // namespace tektite
