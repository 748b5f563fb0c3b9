// How long planning takes, and how many steps: chains, softmax stacks, transformers, dense blocks, wide and Fibonacci graphs of so many nodes.
//   taskset -c 0 build/bench/planning [NAME|SIZE...]
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>

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

/// Layers of a transformer of one head: a norm, attention, two products, residuals.
Graph transformer(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {128, 64}});
  std::vector<Value> w;
  for (const char* name : {"q", "k", "v", "o"}) w.push_back(b.input(name, {DType::F32, {64, 64}}));
  const Value up = b.input("up", {DType::F32, {64, 256}}),
              down = b.input("down", {DType::F32, {256, 64}});
  for (int i = 0; i < n / 20; i++) {
    const Value c = b.map("a - b / 64", {x, b.reduce("sum", x, {1})});
    const Value s = b.reduce("sum", b.map("a * a", {c}), {1});
    const Value y = b.map("a / sqrt(b / 64 + 0.00001)", {c, s});
    const Value q = b.contract("mk,kn->mn", y, w[0]), k = b.contract("mk,kn->mn", y, w[1]),
                v = b.contract("mk,kn->mn", y, w[2]);
    const Value p = b.map("a / 8", {b.contract("mk,nk->mn", q, k)});
    const Value e = b.map("exp(a - b)", {p, b.reduce("max", p, {1})});
    const Value a = b.map("a / b", {e, b.reduce("sum", e, {1})});
    x = b.map("a + b", {b.contract("mk,kn->mn", b.contract("mk,kn->mn", a, v), w[3]), x});
    const Value h = b.map("a * sigmoid(a)", {b.contract("mk,kn->mn", x, up)});
    x = b.map("a + b", {b.contract("mk,kn->mn", h, down), x});
  }
  b.graph.outputs = {x};
  return b.graph;
}
/// Blocks of 24 layers, each reading the results of all before it in the block.
Graph dense(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {1, 32, 14, 14}});
  const Value shift = b.input("shift", {DType::F32, {1, 1, 14, 14}});
  for (int i = 0; i < n / 4; i++) {
    const int64_t channels = b.graph.type(x).extent(1);
    const Value w = b.input(fmt::format("w{}", i), {DType::F32, {8, channels}});
    const Value y = b.contract("nchw,oc->nohw", b.map("max(a * 0.5 + b, 0)", {x, shift}), w);
    x = i % 24 == 23 ? b.map("a + 1", {y}) : b.concat({x, y}, 1);
  }
  b.graph.outputs = {x};
  return b.graph;
}
Graph fibonacci(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {4096}}), y = b.input("y", {DType::F32, {4096}});
  for (int i = 0; i < n; i++) {
    const Value z = b.map("a + b", {x, y});
    x = y, y = z;
  }
  b.graph.outputs = {y};
  return b.graph;
}

void measure(const char* name, Graph (*make)(int), int n) {
  const Graph g = make(n);
  double best = 1e9;
  Fused planned;
  for (int round = 0; round < 3; round++) {
    const std::clock_t start = std::clock();  // of this process: others may run beside it
    planned = fuse(g, findTarget("cpu:avx2"), {});
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  const auto kernels = std::ranges::count_if(planned.graph.nodes, [](const Node& node) { return node.as<Group>(); });
  std::printf("%-12s %6zu nodes %9.2f ms %10lld steps %6td kernels\n", name, g.nodes.size(), best * 1e3,
              static_cast<long long>(planned.steps), kernels);
}

}  // namespace
}  // namespace tektite

int main(int argc, char** argv) {
  using namespace tektite;
  const std::pair<const char*, Graph (*)(int)> all[] = {
      {"chain", chain},   {"softmax", layers},          {"blocks", blocks}, {"transformer", transformer},
      {"dense", dense},   {"wide", wide}, {"fibonacci", fibonacci}};
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  const auto isNumber = [](const std::string& s) { return std::isdigit(s[0]) != 0; };
  std::vector<int> sizes;
  for (const std::string& s : wanted)
    if (isNumber(s)) sizes.push_back(std::stoi(s));
  if (sizes.empty()) sizes = {100, 1000, 10000};
  for (const auto& [name, make] : all)
    if (std::ranges::all_of(wanted, isNumber) || std::ranges::count(wanted, name))
      for (const int n : sizes) measure(name, make, n);
}
