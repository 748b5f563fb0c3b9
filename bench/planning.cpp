// How long planning takes, and how many steps: chains, layers, wide graphs, kernels side by side, of so many nodes.
//   taskset -c 0 build/bench/planning
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "support/check.h"

namespace tektite {
namespace {

Graph chain(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {1 << 16}});
  for (int i = 0; i < n; i++) x = b.map("a * 1.5 + 1", {x});
  b.graph.outputs = {x};
  return b.graph;
}
Graph layers(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {512, 64}});
  for (int i = 0; i < n / 4; i++) {
    const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {1})});
    x = b.map("a / b", {e, b.reduce("sum", e, {1})});
  }
  b.graph.outputs = {x};
  return b.graph;
}
/// Blocks of a transformer, without their attention: a norm, two products, a residual.
Graph blocks(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {128, 256}});
  const Value w = b.input("w", {DType::F32, {256, 1024}}), v = b.input("v", {DType::F32, {1024, 256}});
  for (int i = 0; i < n / 8; i++) {
    const Value mean = b.map("a / 256", {b.reduce("sum", x, {1})});
    const Value c = b.map("a - b", {x, mean});
    const Value s = b.map("a / 256", {b.reduce("sum", b.map("a * a", {c}), {1})});
    const Value y = b.map("a / sqrt(b + 0.00001)", {c, s});
    const Value h = b.map("a * sigmoid(a)", {b.contract("mk,kn->mn", y, w)});
    x = b.map("a + b", {b.contract("mk,kn->mn", h, v), x});
  }
  b.graph.outputs = {x};
  return b.graph;
}
Graph wide(int n) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {1 << 14}});
  std::vector<Value> level;
  for (int i = 0; i < n / 2; i++) level.push_back(b.map(fmt::format("a * {}.5", i), {x}));
  for (; level.size() > 1; level.resize((level.size() + 1) / 2))
    for (size_t i = 0; 2 * i + 1 < level.size(); i++)
      level[i] = b.map("max(a, b)", {level[2 * i], level[2 * i + 1]});
  b.graph.outputs = {level[0]};
  return b.graph;
}

void measure(const char* name, Graph (*make)(int)) {
  for (const int n : {100, 1000, 10000}) {
    const Graph g = make(n);
    double best = 1e9;
    int64_t steps = 0;
    for (int round = 0; round < 3; round++) {
      const auto start = std::chrono::steady_clock::now();
      steps = fuse(g, findTarget("cpu:avx2"), {}).steps;
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                                .count());
    }
    std::printf("%-8s %6zu nodes %9.2f ms %10lld steps\n", name, g.nodes.size(), best * 1e3,
                static_cast<long long>(steps));
  }
}

}  // namespace
}  // namespace tektite

int main() {
  tektite::measure("chain", tektite::chain);
  tektite::measure("layers", tektite::layers);
  tektite::measure("blocks", tektite::blocks);
  tektite::measure("wide", tektite::wide);
}
