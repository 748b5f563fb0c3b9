// Random changes of the files of tests/kernel: whatever they become is refused with a message, or runs; and what the verifier proves
// holds in a run.
#include <gtest/gtest.h>

#include "ir/kernel_verify.h"
#include "kernel_harness.h"
#include "support/lexer.h"

namespace tektite {
namespace {

using namespace tektite::testing;

/// The text with one token changed: gone, doubled, exchanged for another one of the text, or a number near it.
std::string mutated(const std::string& text, std::mt19937_64& random) {
  Lexer in(text, "text");
  std::vector<Token> tokens;
  while (in.peek().kind != Token::End) tokens.push_back(in.next());
  const Token& t = tokens[random() % tokens.size()];
  const std::string by = [&]() -> std::string {
    switch (random() % 4) {
      case 0: return "";
      case 1: return std::string(t.text) + " " + std::string(t.text);
      case 2: return std::string(tokens[random() % tokens.size()].text);
      default:
        return t.kind == Token::Number ? std::to_string(random() % 20)
                                       : std::string(tokens[random() % tokens.size()].text);
    }
  }();
  const size_t at = t.text.data() - text.data();
  return text.substr(0, at) + " " + by + " " + text.substr(at + t.text.size());
}

struct Outcome {
  int refused = 0, wrong = 0, faults = 0, ran = 0;
};

void tryText(const std::string& text, const std::vector<Dims>& shapes, Outcome& outcome) {
  KernelModule m;
  try {
    m = parseKernels(text, "mutated");
  } catch (const UserError&) {
    outcome.refused++;
    return;
  }
  if (m.kernels.empty() || !faultsOf(m).empty()) {
    outcome.wrong++;
    return;
  }
  for (const Dims& dims : shapes) {
    try {
      Dims known = dims;
      for (const Dim& d : m.kernels[0].dims) {
        known.try_emplace(d.name, d.low);
        known[d.name] = std::clamp(known[d.name], d.low, std::max(d.low, d.high));
      }
      for (const Dim& d : m.kernels[0].dims)
        if (known[d.name] > 100) return;
      Tensors tensors = makeTensors(m.kernels[0], known, 3);
      KernelEvalOptions options;
      options.order = KernelEvalOptions::Shuffled;
      runKernel(m, tensors, known, options);
      outcome.ran++;
    } catch (const KernelFault& fault) {
      const bool dynamic = fault.rule == 5 || fault.rule == 7 || fault.rule == 9 ||
                           fault.rule == 11 || fault.rule == 12;
      EXPECT_TRUE(dynamic) << fault.what() << "\n" << toText(m);
      outcome.faults++;
    }
  }
}

TEST(KernelMutations, AreRefusedOrRun) {
  std::mt19937_64 random(1);
  Outcome outcome;
  for (const auto& entry : std::filesystem::directory_iterator(TEKTITE_TESTS "/kernel")) {
    const std::string text = entry.is_regular_file() ? readText(entry.path()) : "";
    if (header(text, "test").empty()) continue;
    const auto shapes = parseShapes(header(text, "test"));
    const int tries =
        std::getenv("TEKTITE_MUTATIONS") ? std::atoi(std::getenv("TEKTITE_MUTATIONS")) : 60;
    for (int i = 0; i < tries; i++) {
      SCOPED_TRACE(entry.path().filename());
      tryText(mutated(text, random), {shapes[1]}, outcome);
    }
  }
  EXPECT_GT(outcome.refused, 0);
  EXPECT_GT(outcome.wrong, 0);
  EXPECT_GT(outcome.faults, 0);
  EXPECT_GT(outcome.ran, 0);
  RecordProperty("ran", outcome.ran);
}

}  // namespace
}  // namespace tektite
