// tests/kernel/wrong: kernels that break one rule each, and the files of tests/kernel, which break none.
#include <gtest/gtest.h>

#include "ir/kernel_verify.h"
#include "kernel_harness.h"

namespace tektite {
namespace {

using namespace tektite::testing;

std::vector<std::string> casesOf(const std::string& text) {
  std::vector<std::string> out;
  size_t at = 0;
  for (size_t end; (end = text.find("\n----\n", at)) != std::string::npos; at = end + 6)
    out.push_back(text.substr(at, end - at + 1));
  out.push_back(text.substr(at));
  return out;
}

std::vector<std::string> files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(TEKTITE_TESTS "/kernel/wrong"))
    out.push_back(entry.path().stem());
  std::sort(out.begin(), out.end());
  return out;
}

void expectFaultInRun(const KernelModule& m, const std::string& text, int rule) {
  const Dims dims = parseShapes(header(text, "test"))[0];
  for (auto order :
       {KernelEvalOptions::Forward, KernelEvalOptions::Reverse, KernelEvalOptions::Shuffled}) {
    Tensors tensors = makeTensors(m.kernels[0], dims, 5);
    KernelEvalOptions options;
    options.order = order;
    try {
      runKernel(m, tensors, dims, options);
      ADD_FAILURE() << header(text, "case") << ": ran, in order " << int(order);
    } catch (const KernelFault& fault) {
      const bool tooEarly = rule == 5 && order != KernelEvalOptions::Forward &&
                            fault.rule == 12;  // the write comes later in this order
      EXPECT_EQ(fault.rule, tooEarly ? 12 : rule) << header(text, "case") << ": " << fault.what();
    }
  }
}

class WrongKernels : public ::testing::TestWithParam<std::string> {};

TEST_P(WrongKernels, AreCaught) {
  const int rule = std::stoi(GetParam().substr(1, 2));
  for (const std::string& text :
       casesOf(readText(TEKTITE_TESTS "/kernel/wrong/" + GetParam() + ".tk"))) {
    const std::string what = header(text, "case"), target = header(text, "target");
    const KernelModule m = parseKernels(text, what);
    KernelVerifyOptions options;
    std::optional<Target> machine;
    if (!target.empty()) options.target = &machine.emplace(findTarget(target));
    const auto faults = faultsOf(m, options);
    if (header(text, "found by") == "verifier") {
      ASSERT_FALSE(faults.empty()) << what << ": accepted";
      EXPECT_EQ(faults[0].rule, rule) << what << ": " << faults[0].what();
    } else {
      for (const KernelFault& f : faults) EXPECT_EQ(f.rule, rule) << what << ": " << f.what();
      expectFaultInRun(m, text, rule);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, WrongKernels, ::testing::ValuesIn(files()),
                         [](const auto& info) { return info.param; });

TEST(KernelVerify, AcceptsTheFiles) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TEKTITE_TESTS "/kernel")) {
    const std::string text = entry.is_regular_file() ? readText(entry.path()) : "",
                      name = header(text, "target");
    if (name.empty()) continue;
    const Target target = findTarget("test:" + name);
    KernelVerifyOptions options;
    options.target = &target;
    for (const KernelFault& f : faultsOf(parseKernels(text, entry.path().filename()), options))
      ADD_FAILURE() << entry.path().filename() << ": " << f.what();
    count++;
  }
  EXPECT_EQ(count, 15);
}

TEST(KernelVerify, MessagesSayWhere) {
  const KernelModule m = parseKernels(
      "kernel f(dim N: 1..9, x: f32[N], out y: f32[N]) { for i in N parallel { y[i] = x[i + 1] } }",
      "f");
  try {
    verifyKernels(m);
    ADD_FAILURE();
  } catch (const KernelFault& fault) {
    EXPECT_STREQ(
        fault.what(),
        "K4: kernel f: `y[i] = x[i + 1]`: x: index i + 1 of axis 0 isn't proved to be below N");
  }
  Tensors tensors = makeTensors(m.kernels[0], {{"N", 4}}, 1);
  try {
    runKernel(m, tensors, {{"N", 4}});
    ADD_FAILURE();
  } catch (const KernelFault& fault) {
    EXPECT_STREQ(fault.what(),
                 "K4: kernel f: `y[i] = x[i + 1]` at i = 3: x[i + 1]: index 0 is 4, outside 0..3");
  }
}

}  // namespace
}  // namespace tektite
