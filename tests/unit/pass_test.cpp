#include "passes/pass.h"

#include <gtest/gtest.h>

#include "support/check.h"

namespace tektite {
namespace {

std::string names(PassOptions options) {
  std::string out;
  options.observe = [&](std::string_view pass, const Graph&, bool, double) {
    out += (out.empty() ? "" : " ") + std::string(pass);
  };
  const Graph g = parseGraph(
      "graph (x: f32[4]) {\n  %1 = map (x) { pow($0, 3) } : f32[4]\n  return %1\n}\n", "test");
  runPasses(g, options);
  return out;
}

TEST(Passes, TheRunnerChooses) {
  const std::string all = names({});
  EXPECT_NE(all.find("simplify-bodies-ordered"), all.npos);
  EXPECT_EQ(all.find("simplify-bodies-fast"), all.npos);
  EXPECT_EQ(names({.numerics = Numerics::Strict}).find("ordered"), all.npos);
  EXPECT_EQ(names({.passes = {"dce", "cse"}}), "dce cse");
  EXPECT_EQ(names({.passes = {"dce", "cse"}, .disabled = {"dce"}}), "cse");
  EXPECT_EQ(names({.passes = {"dce", "cse", "dce"}, .stopAfter = "cse"}), "dce cse");
  EXPECT_EQ(names({.bisect = 2}), "unroll-scans sink-constants");
}

TEST(Passes, AnUnknownNameIsTheUsersError) {
  try {
    names({.passes = {"fuse-all"}});
    FAIL();
  } catch (const UserError& e) {
    EXPECT_TRUE(
        std::string(e.what()).starts_with("pass 'fuse-all': no such pass, expected one of "))
        << e.what();
  }
}

TEST(Passes, EachOfThePipelineIsRegisteredAndDescribed) {
  for (std::string_view name : pipeline()) ASSERT_TRUE(findPass(name)) << name;
  for (const Pass* p : allPasses()) EXPECT_FALSE(p->doc.empty()) << p->name;
}

}  // namespace
}  // namespace tektite
