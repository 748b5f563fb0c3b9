// Predicted bytes are counted bytes (design 7): what plans say of main memory against what the kernel interpreter's accesses leave of it behind
// a cache of the last on-chip level's size, on targets whose caches are small enough to matter.
#include <fstream>

#include "fusion/fuse.h"
#include "lowered_executor.h"
#include "passes/pass.h"
#include "small_models.h"

namespace tektite {
namespace {

/// cpu:avx2 with caches of so many bytes.
std::string targetOf(int64_t last) {
  Target t = findTarget("cpu:avx2");
  t.name = fmt::format("cache{}", last);
  for (size_t i = 1; i + 1 < t.levels.size(); i++)
    t.levels[i].bytes = last >> (2 * (t.levels.size() - 2 - i));
  t.cores = 2;
  const std::string file = ::testing::TempDir() + t.name + ".toml";
  std::ofstream(file) << t.toText();
  return file;
}

struct Bytes {
  std::string group;
  int64_t predicted, counted;
};
std::vector<Bytes> bytesOf(const Graph& model, const std::string& file, bool unfused) {
  const Graph g = runPasses(model, {});
  FusionOptions options;
  options.unfused = unfused;
  const Fused fused = fuse(g, findTarget(file), options);
  std::vector<Bytes> out;
  for (const Node& node : fused.graph.nodes) {
    const Group* group = node.as<Group>();
    if (!group || group->plan->scan) continue;
    std::map<Value, TestTensor> leaves;
    for (int i = 0; i < static_cast<int>(group->body->nodes.size()); i++) {
      const Node& n = group->body->nodes[static_cast<size_t>(i)];
      if (!n.as<Input>() && !n.as<Const>()) continue;
      TestTensor t{n.results[0], {}, {}};
      for (int64_t k = 0; k < t.type.elements(); k++)
        t.real.push_back(static_cast<double>(k % 13) / 8 - 0.7), t.integer.push_back(k % 3);
      leaves[Value{i, 0}] = std::move(t);
    }
    CountedBytes counted;
    runLowered(*group->plan, *group->body, leaves, file, &counted);
    const Cost& c = group->plan->cost;
    out.push_back({node.origin + "\n" + toText(*group->plan),
                   c.bytesRead + c.bytesWritten + counted.padding, counted.read + counted.written});
  }
  return out;
}

void expectCounted(const NamedGraph& m, int64_t cache, bool unfused) {
  for (const Bytes& b : bytesOf(m.graph, targetOf(cache), unfused)) {
    const auto near = static_cast<double>(b.counted);
    EXPECT_NEAR(static_cast<double>(b.predicted), near, std::max(0.05 * near, 128.0))
        << m.name << (unfused ? " unfused" : "") << ", cache of " << cache << ": " << b.group;
  }
}

TEST(Counted, LargeCaches) {
  for (const NamedGraph& m : smallModels())
    for (const bool unfused : {false, true}) expectCounted(m, 1 << 22, unfused);
}
TEST(Counted, SmallCaches) {
  for (const NamedGraph& m : smallModels()) expectCounted(m, 1 << 16, false);
}

}  // namespace
}  // namespace tektite
