// Expressions that are long when written out: what is used several times is computed once, and never where its condition would forbid a read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "../evaluators.h"
#include "ops/util.h"

namespace tektite {
namespace {

TensorAttribute floats(const std::vector<float>& values) {
  return tensor(DType::F32, {static_cast<int64_t>(values.size())}, {values.begin(), values.end()});
}

/// A search in a sorted table, its steps spelled out: each place is read at, compared at and stepped from.
TEST(Share, SearchesInSteps) {
  constexpr int64_t kPoints = 300, kTable = 256;
  std::vector<float> table, x;
  for (int64_t i = 0; i < kTable; i++) table.push_back(static_cast<float>(i * i) * 0.01f);
  for (int64_t i = 0; i < kPoints; i++) x.push_back(static_cast<float>((i * 7919) % 655));
  Builder b;
  const Value points = b.input("x", {DType::F32, {kPoints}}),
              list = b.input("table", {DType::F32, {kTable}});
  Value at = b.splat(DType::I64, 0, {kPoints});
  for (int64_t step = kTable / 2; step > 0; step /= 2) {
    const Value next = b.map(fmt::format("a + {}", step), {at});
    const Value found = b.gather(list, {next}, {kPoints}, {indexLoad(b, 1, next, coordinates(1))},
                                 imm(DType::F32, 0));
    at = b.map("select(a <= b, c, d)", {found, points, next, at});
  }
  b.graph.outputs = {b.convert(at, DType::F32)};
  for (const Evaluator& e : evaluators()) {
    const auto out = e.run(b.graph, {floats(x), floats(table)});
    for (size_t i = 0; i < x.size(); i++) {
      const auto above = std::upper_bound(table.begin(), table.end(), x[i]) - table.begin();
      ASSERT_EQ(static_cast<const float*>(out.at(0).data->data)[i], static_cast<float>(above - 1))
          << e.name << ", " << x[i];
    }
  }
}

/// Beside each other: each chain has its elements only on its own side.
TEST(Share, LongChainsInArms) {
  std::vector<float> x, y;
  for (int i = 0; i < 37; i++) x.push_back(static_cast<float>(i) / 40);
  for (int i = 0; i < 90; i++) y.push_back(1 - static_cast<float>(i) / 100);
  Builder b;
  const auto chain = [&](Value v) {
    for (int i = 0; i < 12; i++) v = b.map("a * a * 0.5 + a * 0.5", {v});
    return v;
  };
  const Value first = b.input("x", {DType::F32, {static_cast<int64_t>(x.size())}}),
              second = b.input("y", {DType::F32, {static_cast<int64_t>(y.size())}});
  OpCall concat{"Concat", {chain(first), chain(second)}};
  concat.attributes["axis"] = int64_t{0};
  b.graph.outputs = buildOp(b, concat);
  std::vector<double> expected(x.begin(), x.end());
  expected.insert(expected.end(), y.begin(), y.end());
  for (double& v : expected)
    for (int i = 0; i < 12; i++) v = v * v * 0.5 + v * 0.5;
  for (const Evaluator& e : evaluators()) {
    const auto out = e.run(b.graph, {floats(x), floats(y)});
    for (size_t i = 0; i < expected.size(); i++)
      ASSERT_NEAR(static_cast<const float*>(out.at(0).data->data)[i], expected[i], 1e-5)
          << e.name << ", " << i;
  }
}

}  // namespace
}  // namespace tektite
