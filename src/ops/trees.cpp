#include <algorithm>
#include <cmath>
#include <map>

#include "ops/forest.h"
#include "ops/op.h"
#include "ops/util.h"
#include "support/check.h"

// Tree ensembles: how models list their nodes, and what becomes of the leaves' sums.
namespace tektite {
namespace {

constexpr std::string_view kDomain = "ai.onnx.ml";

/// [rows, targets]
Value scores(Builder& b, const Forest& f, Value x, const std::string& aggregate,
             const std::vector<double>& base) {
  Value y = scoresOf(b, f, x, aggregate == "MIN" ? "min" : aggregate == "MAX" ? "max" : "sum");
  if (aggregate == "AVERAGE") y = b.map(fmt::format("a / {}", f.roots.size()), {y});
  if (!base.empty())
    y = b.map("a + b", {y, constantOf(b, b.dtype(y), base, {static_cast<int64_t>(base.size())})});
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

void needSizes(size_t expected, const std::vector<std::pair<std::string, size_t>>& lists) {
  for (const auto& [name, size] : lists)
    if (size != expected)
      userError("attribute '{}' has {} elements, expected {}", name, size, expected);
}

/// The form before version 5: nodes are named by tree and number; what leaves give is listed apart, under `prefix`.
Forest forestOf(const OpCall& c, const std::string& prefix, int64_t targets) {
  static const std::map<std::string, int64_t> modes = {
      {"BRANCH_LEQ", Forest::Leq}, {"BRANCH_LT", Forest::Lt}, {"BRANCH_GTE", Forest::Gte},
      {"BRANCH_GT", Forest::Gt},   {"BRANCH_EQ", Forest::Eq}, {"BRANCH_NEQ", Forest::Neq}};
  const auto trees = c.integers("nodes_treeids"), ids = c.integers("nodes_nodeids"),
             features = c.integers("nodes_featureids"), yes = c.integers("nodes_truenodeids"),
             no = c.integers("nodes_falsenodeids");
  const auto missing = c.integers("nodes_missing_value_tracks_true", std::vector<int64_t>{});
  const auto kinds = c.texts("nodes_modes");
  const auto values = c.reals("nodes_values");
  needSizes(ids.size(), {{"nodes_treeids", trees.size()},
                         {"nodes_featureids", features.size()},
                         {"nodes_truenodeids", yes.size()},
                         {"nodes_falsenodeids", no.size()},
                         {"nodes_modes", kinds.size()},
                         {"nodes_values", values.size()}});
  if (targets < 1) userError("{} targets, expected at least 1", targets);
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
  needSizes(weights.size(), {{prefix + "_treeids", ofTree.size()},
                             {prefix + "_nodeids", ofNode.size()},
                             {prefix + "_ids", target.size()}});
  for (size_t i = 0; i < weights.size(); i++) {
    if (target.at(i) < 0 || target[i] >= targets)
      userError("a leaf gives to target {} of {}", target[i], targets);
    f.weights[static_cast<size_t>(find(ofTree.at(i), ofNode.at(i)) * targets + target[i])] +=
        weights[i];
  }
  return f;
}

const OpDef regressor{
    "TreeEnsembleRegressor", Takes{"n2"},
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
    "TreeEnsembleClassifier", Takes{"n2"},
    [](Builder& b, const OpCall& c) -> Values {
      const Value x = isFloat(b.dtype(c.at(0))) ? c.at(0) : b.convert(c.at(0), DType::F32);
      const auto labels = labelsOf(c, "classlabels_int64s");
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

constexpr int64_t kMember = 6;

/// Nodes that ask whether a value is one of a set: a comparison each of the set's numbers, one after the other. NaN ends a set.
void memberships(Forest& f, const std::vector<double>& modes, const std::vector<double>& members) {
  size_t next = 0;
  for (size_t i = 0; i < modes.size(); i++) {
    if (modes[i] != kMember) continue;
    const int64_t no = f.no[i];
    size_t at = i;
    f.splits[i] = std::nan("");
    for (bool first = true; next < members.size() && !std::isnan(members[next]); next++) {
      if (!first) {
        f.no[at] = f.add(f.features[i], Forest::Eq, 0, false);
        at = f.features.size() - 1;
        f.yes[at] = f.yes[i];
        f.no[at] = no;
      }
      f.splits[at] = members[next];
      first = false;
    }
    next++;
  }
}

/// Version 5: leaves have numbers of their own.
const OpDef ensemble{
    "TreeEnsemble", Takes{"f2"},
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
      needSizes(features.size(), {{"nodes_truenodeids", yes.size()},
                                  {"nodes_falsenodeids", no.size()},
                                  {"nodes_trueleafs", yesLeaf.size()},
                                  {"nodes_falseleafs", noLeaf.size()},
                                  {"nodes_modes", modes.size()},
                                  {"nodes_splits", splits.size()}});
      needSizes(weights.size(), {{"leaf_targetids", targets.size()}});
      Forest f;
      f.roots = c.integers("tree_roots");
      f.targets = c.integer("n_targets", 1);
      if (f.targets < 1) userError("attribute 'n_targets' is {}, expected at least 1", f.targets);
      const auto inner = static_cast<int64_t>(features.size());
      const auto child = [&](int64_t n, bool leaf) {
        const int64_t there = leaf ? static_cast<int64_t>(weights.size()) : inner;
        if (n < 0 || n >= there)
          userError("a node leads to {} {} of {}", leaf ? "leaf" : "node", n, there);
        return n + (leaf ? inner : 0);
      };
      for (const int64_t root : f.roots)
        if (root < 0 || root >= std::max<int64_t>(inner, 1))
          userError("a tree begins at node {} of {}", root, inner);
      for (size_t i = 0; i < features.size(); i++) {
        const auto mode = static_cast<int64_t>(modes.at(i));
        if (mode < Forest::Leq || mode > kMember) userError("a comparison of mode {}", mode);
        f.add(features[i], mode == kMember ? Forest::Eq : mode, splits.at(i),
              i < missing.size() && missing[i]);
        f.yes.back() = child(yes[i], yesLeaf[i]);
        f.no.back() = child(no[i], noLeaf[i]);
      }
      const int64_t mode = f.modes.empty() ? 0 : f.modes.at(0);
      for (size_t i = 0; i < weights.size(); i++) f.add(0, mode, 0, false);
      if (c.given("membership_values")) memberships(f, modes, numbers("membership_values"));
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
