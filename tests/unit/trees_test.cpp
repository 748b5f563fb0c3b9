// Random tree ensembles, small and large trees, every comparison, missing values, against a walk of each row down each tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "../evaluators.h"
#include "fuzz_seeds.h"
#include "ops/op.h"

namespace tektite {
namespace {

struct RandomForest {
  std::vector<int64_t> features, modes, yes, no, yesLeaf, noLeaf, missing, roots, leafTargets;
  std::vector<double> splits, members, leafWeights;
  std::vector<std::vector<double>> sets;  // of each node that asks for membership
  int64_t targets = 1;
};

constexpr int kFeatures = 5, kMember = 6;

class Grower {
 public:
  Grower(uint64_t seed, int modes) : random_(seed), modes_(modes) {}

  RandomForest grow(int trees, int leaves, bool missing, int targets) {
    f_.targets = targets;
    missing_ = missing;
    for (int t = 0; t < trees; t++) f_.roots.push_back(node(std::max(2, upTo(leaves) + 1)));
    for (const auto& set : f_.sets) {
      f_.members.insert(f_.members.end(), set.begin(), set.end());
      f_.members.push_back(std::nan(""));
    }
    return f_;
  }
  /// Of few values, so that comparisons meet equals.
  double value() { return upTo(9) * 0.25 - 1; }
  int upTo(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }

 private:
  /// A subtree of so many leaves; nodes and leaves have numbers of their own.
  int64_t node(int leaves) {
    const auto self = static_cast<int64_t>(f_.features.size());
    const auto i = static_cast<size_t>(self);
    f_.features.push_back(upTo(kFeatures - 1));
    f_.modes.push_back(modes_ == 0 ? 0 : upTo(kMember));
    f_.splits.push_back(value());
    f_.missing.push_back(missing_ ? upTo(1) : 0);
    for (auto* list : {&f_.yes, &f_.no, &f_.yesLeaf, &f_.noLeaf}) list->push_back(0);
    if (f_.modes.back() == kMember) {
      f_.sets.emplace_back();
      for (int k = upTo(3); k > 0; k--) f_.sets.back().push_back(value());
    }
    const int left = 1 + upTo(leaves - 2);
    f_.yesLeaf[i] = left == 1;
    f_.noLeaf[i] = leaves - left == 1;
    const int64_t yes = left == 1 ? leaf() : node(left);
    f_.yes[i] = yes;
    const int64_t no = leaves - left == 1 ? leaf() : node(leaves - left);
    f_.no[i] = no;
    return self;
  }
  int64_t leaf() {
    f_.leafTargets.push_back(upTo(static_cast<int>(f_.targets) - 1));
    f_.leafWeights.push_back(upTo(100) - 50);  // sums are exact in any order
    return static_cast<int64_t>(f_.leafWeights.size()) - 1;
  }
  std::mt19937_64 random_;
  int modes_;
  bool missing_ = false;
  RandomForest f_;
};

bool takes(const RandomForest& f, size_t n, double x) {
  if (std::isnan(x) && f.missing[n]) return true;
  const double s = f.splits[n];
  size_t set = 0;
  switch (f.modes[n]) {
    case 0: return x <= s;
    case 1: return x < s;
    case 2: return x >= s;
    case 3: return x > s;
    case 4: return x == s;
    case 5: return x != s;
    default:
      for (size_t i = 0; i < n; i++) set += f.modes[i] == kMember;
      return std::ranges::count(f.sets[set], x) > 0;
  }
}

std::vector<double> walk(const RandomForest& f, const std::vector<double>& x, bool least) {
  std::vector<double> out(static_cast<size_t>(f.targets), least ? INFINITY : 0);
  for (const int64_t root : f.roots) {
    auto n = static_cast<size_t>(root);
    for (bool done = false; !done;) {
      const bool yes = takes(f, n, x[static_cast<size_t>(f.features[n])]);
      done = yes ? f.yesLeaf[n] : f.noLeaf[n];
      n = static_cast<size_t>(yes ? f.yes[n] : f.no[n]);
    }
    for (size_t c = 0; c < out.size(); c++) {
      const double w = static_cast<size_t>(f.leafTargets[n]) == c ? f.leafWeights[n] : 0;
      out[c] = least ? std::min(out[c], w) : out[c] + w;
    }
  }
  return out;
}

TensorAttribute list(DType t, const std::vector<double>& values) {
  return tensor(t, {static_cast<int64_t>(values.size())}, values);
}

OpCall callOf(const RandomForest& f, DType t, bool least) {
  OpCall c;
  c.op = "TreeEnsemble";
  c.opset = 5;
  c.attributes["nodes_featureids"] = f.features;
  c.attributes["nodes_modes"] =
      list(DType::U8, std::vector<double>(f.modes.begin(), f.modes.end()));
  c.attributes["nodes_splits"] = list(t, f.splits);
  c.attributes["nodes_truenodeids"] = f.yes;
  c.attributes["nodes_falsenodeids"] = f.no;
  c.attributes["nodes_trueleafs"] = f.yesLeaf;
  c.attributes["nodes_falseleafs"] = f.noLeaf;
  c.attributes["nodes_missing_value_tracks_true"] = f.missing;
  c.attributes["tree_roots"] = f.roots;
  c.attributes["leaf_targetids"] = f.leafTargets;
  c.attributes["leaf_weights"] = list(t, f.leafWeights);
  c.attributes["n_targets"] = f.targets;
  c.attributes["aggregate_function"] = int64_t{least ? 2 : 1};
  if (!f.members.empty()) c.attributes["membership_values"] = list(t, f.members);
  return c;
}

void check(uint64_t seed, int mostLeaves, int rows, DType t) {
  Grower grower(seed, static_cast<int>(seed % 3 == 2));
  const bool least = seed % 5 == 4;
  const RandomForest f = grower.grow(1 + grower.upTo(6), mostLeaves, seed % 2 == 1,
                                     1 + static_cast<int>(seed % 4 == 3) * 2);
  std::vector<double> x, expected;
  for (int r = 0; r < rows; r++) {
    std::vector<double> row;
    for (int k = 0; k < kFeatures; k++)
      row.push_back(grower.upTo(9) == 0   ? std::nan("")
                    : grower.upTo(9) == 0 ? INFINITY
                                          : grower.value());
    x.insert(x.end(), row.begin(), row.end());
    for (const double y : walk(f, row, least)) expected.push_back(y);
  }
  Builder b;
  OpCall call = callOf(f, t, least);
  const TensorAttribute in = tensor(t, {rows, kFeatures}, x);
  call.in = {b.input("x", in.type)};
  b.graph.outputs = buildOp(b, call, "ai.onnx.ml");
  for (const Evaluator& e : evaluators()) {
    const TensorAttribute got = e.run(b.graph, {in}).at(0);
    ASSERT_EQ(got.type, (TensorType{t, {rows, f.targets}}));
    for (size_t i = 0; i < expected.size(); i++)
      ASSERT_EQ(loadFloat(t, got.data->data, static_cast<int64_t>(i)), expected[i])
          << e.name << ", element " << i << ", seed " << seed;
  }
}

TEST(Trees, FewLeavesAndMany) {
  constexpr int leaves[] = {3, 30, 60, 150, 62};
  for (uint64_t seed = 0; seed < 16; seed++)
    check(seed, leaves[seed % 5], seed % 7 == 3 ? 1 : 19, seed % 4 < 2 ? DType::F32 : DType::F64);
}

TEST(Trees, HalfPrecisionAndNoRows) {
  check(2, 20, 9, DType::F16);
  check(1, 100, 9, DType::F16);
  check(5, 20, 0, DType::F32);
}

}  // namespace
}  // namespace tektite
