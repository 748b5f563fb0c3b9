// No vector register of a kernel's innermost loops lies on the stack: read from the assembly.
#include <algorithm>
#include <sstream>

#include "../evaluators.h"
#include "backends/cpu/compiler.h"
#include "small_models.h"

namespace tektite {
namespace {

/// Instructions of innermost loops that move a vector register to the stack or use one from there.
std::vector<std::string> spills(const std::string& assembly) {
  std::vector<std::string> lines;
  std::istringstream in(assembly);
  for (std::string line; std::getline(in, line);) lines.push_back(line.substr(0, line.find('#')));
  std::map<std::string, size_t> labels;
  std::vector<std::pair<size_t, size_t>> loops;
  for (size_t i = 0; i < lines.size(); i++) {
    const std::string& l = lines[i];
    if (l.starts_with(".L") && l.find(':') != std::string::npos)
      labels[l.substr(0, l.find(':'))] = i;
    const size_t target = l.find(".L");
    if (l.find("\tj") == std::string::npos || target == std::string::npos) continue;
    std::string label = l.substr(target);
    label = label.substr(0, label.find_first_of(" \t"));
    if (labels.count(label)) loops.emplace_back(labels[label], i);
  }
  std::vector<std::string> out;
  for (const auto& [begin, end] : loops) {
    const bool inner = std::ranges::none_of(loops, [&, b = begin, e = end](const auto& other) {
      return other.first > b && other.second < e;
    });
    for (size_t i = begin; i < end && inner; i++)
      if (lines[i].find("(%rsp)") != std::string::npos && lines[i].find("mm") != std::string::npos)
        out.push_back(lines[i]);
  }
  return out;
}

std::string spilled(const Graph& g, bool unfused = false) {
  CompileOptions options = compileOptions(unfused);
  options.code = false;
  std::string out;
  const auto program = compile(prepareGraph(g, {}, {}), options);
  for (const KernelInfo& k : program->kernels)
    if (k.sameAs < 0 && !k.artifact.text.empty())
      for (const std::string& line : spills(compileAssembly(k.artifact.text, options.target)))
        out += k.name + ": " + line + "\n";
  return out;
}

TEST(Spills, TheReaderFindsThem) {
  const std::string body = "\tvmovups\t%ymm0, 32(%rsp)\n";
  EXPECT_EQ(spills(".LBB0_1:\n" + body + "\tjne\t.LBB0_1\n").size(), 1u);
  EXPECT_EQ(spills(body + ".LBB0_1:\n\tvaddps\t%ymm0, %ymm1, %ymm1\n\tjne\t.LBB0_1\n").size(), 0u);
  EXPECT_EQ(spills(".LBB0_1:\n" + body + ".LBB0_2:\n\tjne\t.LBB0_2\n\tjne\t.LBB0_1\n").size(), 0u);
}

TEST(Spills, NoneInSmallModels) {
  for (const NamedGraph& m : smallModels()) EXPECT_EQ(spilled(m.graph), "") << m.name;
}

/// Forty values that are all alive: more than there are registers. Apart or not, the inner loop keeps to them.
TEST(Spills, NoneWithFortyLiveValues) {
  Builder b;
  std::vector<Value> x, y;
  for (int i = 0; i < 40; i++) x.push_back(b.input(fmt::format("x{}", i), {DType::F32, {1 << 14}}));
  for (const Value& v : x) y.push_back(b.map("exp(a)", {v}));
  Value sum = y[0];
  for (size_t i = 1; i < 40; i++) sum = b.map("a * b + a", {sum, y[i]});
  for (size_t i = 0; i < 40; i++)
    sum = b.map("a + b", {sum, y[i]});  // each again, so that it stays
  b.graph.outputs = {sum};
  EXPECT_EQ(spilled(b.graph), "");
}

}  // namespace
}  // namespace tektite
