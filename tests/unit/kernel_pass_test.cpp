// tests/kernel/passes: kernels before and after a pass, and what that saves; TEKTITE_UPDATE=1 rewrites what comes after. And: passes change no result.
#include "lower/kernel_pass.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ir/kernel_verify.h"
#include "kernel_harness.h"

namespace tektite {
namespace {

using namespace tektite::testing;

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

/// A file is cases divided by `====`: its head (comments), the kernel, `----`, and what it becomes; no second part: it stays.
struct Case {
  std::string head, before, after;
};
std::vector<Case> casesOf(const std::string& text) {
  std::vector<Case> out(1);
  std::string Case::* part = &Case::before;
  for (const std::string& line : lines(text)) {
    if (line == "====") {
      out.emplace_back();
      part = &Case::before;
    } else if (line == "----") {
      part = &Case::after;
    } else {
      (out.back().*(line[0] == '#' && part == &Case::before && out.back().before.empty()
                        ? &Case::head
                        : part)) += line + "\n";
    }
  }
  return out;
}

std::vector<std::string> passNames() {  // of the files: passes may not be registered yet
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(TEKTITE_TESTS "/kernel/passes"))
    out.push_back(entry.path().stem());
  std::sort(out.begin(), out.end());
  return out;
}
std::string fileOf(const std::string& pass) {
  return TEKTITE_TESTS "/kernel/passes/" + pass + ".tk";
}

/// What the interpreter counts: float operations, those of indices and conditions, elements read and written outside of registers.
std::string counts(const KernelModule& m) {
  Dims dims;
  for (const Dim& d : m.kernels[0].dims) dims[d.name] = d.high;
  Tensors tensors = makeTensors(m.kernels[0], dims, 11);
  const EvalCounters c = runKernel(m, tensors, dims, {});
  return fmt::format("{} flops, {} integers, {} reads, {} writes", c.flops, c.integers, c.reads,
                     c.writes);
}
/// The head with what the pass saves.
std::string withCounts(const std::string& head, const std::string& before,
                       const std::string& after) {
  std::string out;
  for (const std::string& line : lines(head))
    if (!line.starts_with("# counted: ")) out += line + "\n";
  return out + "# counted: " + before + (before == after ? "" : " -> " + after) + "\n";
}

class KernelPasses : public ::testing::TestWithParam<std::string> {};

TEST_P(KernelPasses, MakeWhatTheTextsSay) {
  std::string rewritten;
  const std::string text = readText(fileOf(GetParam()));
  ASSERT_FALSE(text.empty()) << fileOf(GetParam());
  for (const Case& c : casesOf(text)) {
    const KernelModule m = parseKernels(c.before, c.head);
    verifyKernels(m);
    const KernelModule now = runKernelPasses(m, {GetParam()});
    verifyKernels(now);
    const std::string found = toText(now), expected = c.after.empty() ? toText(m) : c.after;
    EXPECT_EQ(found, expected) << c.head;
    const std::string head = withCounts(c.head, counts(m), counts(now));
    EXPECT_EQ(head, c.head);
    rewritten += (rewritten.empty() ? "" : "====\n") + head + toText(m) +
                 (found == toText(m) ? "" : "----\n" + found);
  }
  if (std::getenv("TEKTITE_UPDATE")) std::ofstream(fileOf(GetParam())) << rewritten;
}

std::map<std::string, std::vector<char>> outputs(const KernelModule& m, const Dims& dims) {
  Tensors tensors = makeTensors(m.kernels[0], dims, 11);
  KernelEvalOptions options;
  options.order = KernelEvalOptions::Shuffled;
  options.roundEach = true;
  runKernel(m, tensors, dims, options);
  std::map<std::string, std::vector<char>> out;
  for (const Param& p : m.kernels[0].params)
    if (p.mode != Param::In) out[p.buffer.name] = tensors[p.buffer.name].raw;
  return out;
}

TEST_P(KernelPasses, ChangeNoBitOfTheFiles) {
  for (const auto& entry : std::filesystem::directory_iterator(TEKTITE_TESTS "/kernel")) {
    const std::string text = entry.is_regular_file() ? readText(entry.path()) : "";
    if (header(text, "test").empty()) continue;
    const KernelModule m = parseKernels(text, entry.path().filename()),
                       now = runKernelPasses(m, {GetParam()});
    SCOPED_TRACE(toText(now));
    for (const KernelFault& f : faultsOf(now)) ADD_FAILURE() << f.what();
    for (const Dims& dims : parseShapes(header(text, "test")))
      EXPECT_EQ(outputs(m, dims), outputs(now, dims)) << entry.path().filename();
  }
}

TEST(KernelPass, HasAFile) {
  for (const KernelPass* p : allKernelPasses())
    EXPECT_TRUE(std::filesystem::exists(fileOf(std::string(p->name)))) << p->name;
}

INSTANTIATE_TEST_SUITE_P(All, KernelPasses, ::testing::ValuesIn(passNames()), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace tektite
