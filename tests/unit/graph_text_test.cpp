#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fuzz/random_graph.h"
#include "ir/graph_eval.h"
#include "support/check.h"

namespace tektite {
namespace {

std::string readAll(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}
/// With TEKTITE_UPDATE set, files are rewritten instead of compared; reviewers read the difference.
bool updating() { return std::getenv("TEKTITE_UPDATE") != nullptr; }
void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

std::string withoutComments(const std::string& text) {
  std::stringstream in(text);
  std::string out, line;
  while (std::getline(in, line))
    if (line.empty() || line[0] != '#') out += line + "\n";
  return out;
}

TEST(GraphText, FilesAreCanonicalAndSound) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(TEKTITE_TESTS) / "graph/language")) {
    const std::string text = readAll(entry.path()), name = entry.path().filename();
    SCOPED_TRACE(name);
    try {
      const Graph g = parseGraph(text, name);
      verify(g);
      if (updating())
        write(entry.path(), text.substr(0, text.size() - withoutComments(text).size()) + toText(g));
      else
        EXPECT_EQ(toText(g), withoutComments(text));
      EXPECT_EQ(parseGraph(toText(g), name).hash(), g.hash());
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    files++;
  }
  EXPECT_GE(files, 16);
}

/// tests/errors/graph/*.txt: texts and the message that each gives, separated by lines of dashes.
TEST(GraphText, WrongTextsAndWrongGraphsAreRefused) {
  int cases = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TEKTITE_TESTS) / "errors/graph")) {
    std::stringstream in(readAll(entry.path()));
    std::string line, text;
    std::string* part = &text;
    std::string expected, rewritten;
    const auto check = [&] {
      if (text.empty()) return;
      SCOPED_TRACE(entry.path().filename().string() + ":\n" + text);
      std::string found = "no error";
      try {
        verify(parseGraph(text, "bad.tk"));
      } catch (const std::exception& e) {
        found = e.what();
      }
      if (!updating()) {
        EXPECT_EQ(found + "\n", expected);
      }
      rewritten += (rewritten.empty() ? "" : "====\n") + text + "----\n" + found + "\n";
      cases++;
      text.clear();
      expected.clear();
      part = &text;
    };
    while (std::getline(in, line)) {
      if (line == "====")
        check();
      else if (line == "----")
        part = &expected;
      else
        *part += line + "\n";
    }
    check();
    if (updating()) write(entry.path(), rewritten);
  }
  EXPECT_GE(cases, 40);
}

std::string refusal(const Graph& g) {
  try {
    verify(g);
  } catch (const InternalError& e) {
    return e.what();
  }
  return "no error";
}

/// Rules that no text can break.
TEST(GraphText, WrongGraphsInMemory) {
  const TensorType f{DType::F32, {4}};
  const auto graph = [&](Node n) {
    Graph g;
    g.add({Input{}, {}, {f}, "x", ""});
    g.add(std::move(n));
    g.outputs = {{1, 0}};
    return g;
  };
  const Expr x = var("$0", DType::F32);
  EXPECT_EQ(refusal(graph({Map{x}, {{1, 0}}, {f}, "", ""})),
            "verifier: node %1: operand %1 is not defined before its use (G1)");
  EXPECT_EQ(refusal(graph({Map{x}, {{0, 1}}, {f}, "", ""})),
            "verifier: node %1: operand %0 has no result 1 (G1)");
  EXPECT_EQ(refusal(graph({Map{x + var("$1", DType::F32)}, {{0, 0}}, {f}, "", ""})),
            "verifier: node %1: unknown name $1 in the body (G3)");
  EXPECT_EQ(refusal(graph({Map{load("$0", DType::F32, {var("d0")})}, {{0, 0}}, {f}, "", ""})),
            "verifier: node %1: a load in the body (G3)");
  EXPECT_EQ(refusal(graph({Map{var("$0", DType::F64)}, {{0, 0}}, {{DType::F64, {4}}}, "", ""})),
            "verifier: node %1: $0 is f32, used as f64 in the body (G7)");
  EXPECT_EQ(refusal(graph({Const{nullptr, imm(DType::F64, 1)}, {}, {f}, "", ""})),
            "verifier: node %1: the splat 1 in f32[4] (G7)");
  EXPECT_EQ(refusal(graph({Const{}, {}, {f}, "", ""})),
            "verifier: node %1: a constant is either data or a splat (G11)");
  auto data = std::make_shared<ConstData>();
  data->bytes = 12;
  EXPECT_EQ(refusal(graph({Const{data, {}}, {}, {f}, "", ""})),
            "verifier: node %1: 12 bytes of data for f32[4], expected 16 (G11)");
  EXPECT_EQ(refusal(graph({Call{}, {{0, 0}}, {f}, "", ""})),
            "verifier: node %1: a call without a routine (G16)");
  Graph g = graph({Map{x}, {{0, 0}}, {f}, "", ""});
  EXPECT_EQ(refusal(g), "no error");
  g.outputs.push_back({2, 0});
  EXPECT_EQ(refusal(g), "verifier: graph: output 0 of node 2 does not exist (G9)");
  g.outputs.pop_back();
  g.outputNames = {"a", "b"};
  EXPECT_EQ(refusal(g), "verifier: graph: 2 names for 1 outputs (G9)");
}

TEST(GraphText, RandomGraphsRoundTripAndSample) {
  for (uint64_t seed = 1; seed <= 150; seed++) {
    SCOPED_TRACE(seed);
    const Graph g = randomGraph(seed, {.jumps = true});
    const std::string text = toText(g);
    const Graph again = withData(parseGraph(text, "random"), keptAside(g));
    verify(again);
    EXPECT_EQ(toText(again), text);
    EXPECT_EQ(again.hash(), g.hash());
    const std::vector<Tensor> inputs = randomInputs(g, seed, true), whole = evaluate(g, inputs);
    for (size_t o = 0; o < whole.size(); o++) {
      const int64_t n = whole[o].elements();
      if (n == 0) continue;
      const std::vector<int64_t> elements{0, n - 1, n / 2};
      const std::vector<double> some = evaluateAt(g, static_cast<int>(o), elements, inputs);
      for (size_t i = 0; i < elements.size(); i++) {
        const double expected = whole[o].at(elements[i]);
        EXPECT_TRUE(some[i] == expected || (std::isnan(some[i]) && std::isnan(expected)))
            << some[i] << " " << expected << "\n"
            << text;
      }
    }
  }
}

TEST(GraphText, DimsBindInsideBodiesToo) {
  const Graph g = parseGraph(
      readAll(std::filesystem::path(TEKTITE_TESTS) / "graph/language/lstm.tk"), "lstm.tk");
  const Graph bound = bindDims(g, {{"T", 3}, {"B", 2}, {"H", 5}});
  verify(bound);
  EXPECT_TRUE(bound.dims.empty());
  EXPECT_EQ(toText(bound).find(" x "), std::string::npos);
}

}  // namespace
}  // namespace tektite
