// No vector register of a kernel's innermost loops lies on the stack: read from the assembly.
#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "../evaluators.h"
#include "backends/cpu/compiler.h"
#include "small_models.h"

namespace tektite {
namespace {

/// A piece of code that is entered at its first line and left after its last.
struct CodeBlock {
  std::string label;
  std::vector<std::string> lines;
  std::vector<size_t> next;
};

std::vector<CodeBlock> blocksOf(const std::string& assembly) {
  std::vector<CodeBlock> out(1);
  std::vector<std::string> targets = {""};
  std::vector<bool> falls = {true};
  const auto begin = [&](const std::string& label) {
    out.push_back({label, {}, {}}), targets.emplace_back(), falls.push_back(true);
  };
  std::istringstream in(assembly);
  for (std::string line; std::getline(in, line);) {
    line = line.substr(0, line.find('#'));
    if (line.starts_with(".L") && line.find(':') != std::string::npos) {
      begin(line.substr(0, line.find(':')));
      continue;
    }
    out.back().lines.push_back(line);
    const bool returns = line.starts_with("\tret"), jumps = line.starts_with("\tj");
    if (!returns && !jumps) continue;
    if (const size_t at = line.find(".L"); jumps && at != std::string::npos)
      targets.back() = line.substr(at, line.find_first_of(" \t", at) - at);
    falls.back() = !returns && !line.starts_with("\tjmp");
    begin("");
  }
  for (size_t i = 0; i < out.size(); i++) {
    if (falls[i] && i + 1 < out.size()) out[i].next.push_back(i + 1);
    for (size_t k = 0; k < out.size() && !targets[i].empty(); k++)
      if (out[k].label == targets[i]) out[i].next.push_back(k);
  }
  return out;
}

/// The loops, by the block that each is entered at: what reaches a jump back to it without passing it.
std::map<size_t, std::set<size_t>> loopsOf(const std::vector<CodeBlock>& code) {
  std::vector<std::vector<size_t>> before(code.size());
  for (size_t i = 0; i < code.size(); i++)
    for (const size_t k : code[i].next) before[k].push_back(i);
  std::map<size_t, std::set<size_t>> loops;
  std::vector<int> state(code.size());  // 1: on the way here, 2: done
  const std::function<void(size_t)> visit = [&](size_t i) {
    state[i] = 1;
    for (const size_t k : code[i].next) {
      if (state[k] == 0) visit(k);
      if (state[k] != 1) continue;
      std::set<size_t>& loop = loops[k];
      std::vector<size_t> todo = {i};
      loop.insert(k);
      while (!todo.empty()) {
        const size_t b = todo.back();
        todo.pop_back();
        if (loop.insert(b).second) todo.insert(todo.end(), before[b].begin(), before[b].end());
      }
    }
    state[i] = 2;
  };
  for (size_t i = 0; i < code.size(); i++)
    if (state[i] == 0) visit(i);
  return loops;
}

/// Instructions of innermost loops that move a vector register to the stack or use one from there.
std::vector<std::string> spills(const std::string& assembly) {
  const std::vector<CodeBlock> code = blocksOf(assembly);
  const auto loops = loopsOf(code);
  std::vector<std::string> out;
  for (const auto& [entry, loop] : loops) {
    const bool inner = std::ranges::none_of(loops, [&, e = entry, &l = loop](const auto& other) {
      return other.first != e && l.count(other.first);
    });
    for (const size_t b : inner ? loop : std::set<size_t>())
      for (const std::string& line : code[b].lines)
        if (line.find("(%rsp)") != std::string::npos && line.find("mm") != std::string::npos)
          out.push_back(line);
  }
  return out;
}

std::string spilled(const Graph& g, std::optional<Target> target = {}) {
  CompileOptions options = compileOptions(false);
  if (target) options.target = *target;
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
  // a loop whose end stands first, and where the loop around it goes on before it: 2 and 3 are the inner one
  const std::string inner = "\tjae\t.LBB0_1\n.LBB0_3:\n\tjmp\t.LBB0_2\n";
  EXPECT_EQ(
      spills("\tjmp\t.LBB0_4\n.LBB0_1:\n" + body + ".LBB0_4:\n\tjmp\t.LBB0_3\n.LBB0_2:\n" + inner)
          .size(),
      0u);
  EXPECT_EQ(spills("\tjmp\t.LBB0_4\n.LBB0_1:\n.LBB0_4:\n\tjmp\t.LBB0_3\n.LBB0_2:\n" + body + inner)
                .size(),
            1u);
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

/// What becomes of a product's results takes more constants than there are registers beside the sums.
TEST(Spills, NoneInAProductBeforeALongTail) {
  for (const int64_t columns : {64, 128, 240, 256}) {
    Builder b;
    const auto weights = [&](std::vector<int64_t> shape, const char* name) {
      Tensor t = Tensor::zeros(DType::F32, shape);
      for (int64_t i = 0; i < t.elements(); i++)
        t.reals()[i] = static_cast<double>(i * 7919 % 1013) / 512 - 1;
      return b.constant(t.type(), t.toConst(), name);
    };
    const Value x = b.input("x", {DType::F32, {960, 240}}), w = weights({240, columns}, "w"),
                bias = weights({1, columns}, "bias");
    const Value y = b.map("a + b", {b.contract("pk,kc->pc", x, w), bias});
    const Value z = b.map("a * 2.0445526 + -0.24310489", {y});
    const Value gate = b.map("min(max(a + 3, 0), 6)", {z});
    b.graph.outputs = {b.map("0.62199306 * (a * b / 6) + 0.08859989", {z, gate})};
    Target t = findTarget("cpu:avx512");
    for (Level& level : t.levels)
      level.bytes = level.name == "l1" ? 48 << 10 : level.name == "l2" ? 2 << 20 : level.bytes;
    for (t.cores = 1; t.cores <= 8; t.cores *= 2)
      EXPECT_EQ(spilled(b.graph, t), "") << columns << " columns, " << t.cores << " cores";
  }
}

/// Steps along a window's taps read what rows read: over a round of several it would have to stay beside the sums.
TEST(Spills, NoneWhereStepsReadWhatRowsRead) {
  for (const int64_t places : {11, 12, 13}) {
    const int64_t taps = 10, filters = 150, channels = 32;
    Builder b;
    Tensor t = Tensor::zeros(DType::F32, {filters, channels, taps});
    for (int64_t i = 0; i < t.elements(); i++)
      t.reals()[i] = static_cast<double>(i * 7919 % 1013) / 512 - 1;
    const Value x = b.input("x", {DType::F32, {64, channels, places + taps - 1}});
    const Value w = b.constant(t.type(), t.toConst(), "w");
    const Value windows =
        b.view(x, {64, channels, places, taps}, {var("d0"), var("d1"), var("d2") + var("d3")});
    b.graph.outputs = {b.contract("ncpt,fct->nfp", windows, w)};
    Target target = findTarget("cpu:avx512");
    target.cores = 1;
    for (Level& level : target.levels)
      level.bytes = level.name == "l1" ? 48 << 10 : level.name == "l2" ? 2 << 20 : level.bytes;
    EXPECT_EQ(spilled(b.graph, target), "") << places;
  }
}

}  // namespace
}  // namespace tektite
