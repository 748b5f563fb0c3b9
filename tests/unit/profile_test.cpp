#include <fstream>

#include "fusion/fuse.h"
#include "ir/builder.h"
#include "support/check.h"

namespace tektite {
namespace {

Graph pair() {
  Builder b;
  const Value x = b.input("x", {DType::F32, {64, 128}});
  b.origin = "first";
  const Value y = b.map("exp(a)", {x});
  b.origin = "second";
  b.graph.outputs = {b.map("a / b", {y, b.reduce("sum", y, {1})})};
  return b.graph;
}
Fused fused(const Graph& g, std::shared_ptr<const Profile> profile, bool unfused = false) {
  FusionOptions o;
  o.profile = std::move(profile);
  o.unfused = unfused;
  return fuse(g, findTarget("cpu:avx2"), o);
}
std::vector<Hash> hashes(const Fused& f) {
  std::vector<Hash> out;
  for (const Node& n : f.graph.nodes)
    if (const Group* g = n.as<Group>()) out.push_back(g->body->hash());
  return out;
}

TEST(Profile, AGroupThatWasSlowerThanItsPartsIsSplit) {
  const Graph g = pair();
  const std::vector<Hash> whole = hashes(fused(g, nullptr)),
                          parts = hashes(fused(g, nullptr, true));
  ASSERT_EQ(whole.size(), 1u);
  ASSERT_EQ(parts.size(), 2u);
  const auto withTimes = [&](double together, double each) {
    auto p = std::make_shared<Profile>();
    p->seconds[whole[0]] = together;
    for (const Hash& h : parts) p->seconds[h] = each;
    return fused(g, p);
  };
  EXPECT_EQ(hashes(withTimes(1, 0.6)).size(), 1u);
  const Fused split = withTimes(2, 0.6);
  EXPECT_EQ(hashes(split), parts);
  const Refusal r = split.ledger.between("first", "second").at(0).refusal;
  EXPECT_EQ(r.reason, Reason::NoGain);
  EXPECT_DOUBLE_EQ(r.needed, 1.2);
  EXPECT_DOUBLE_EQ(r.available, 2);
  auto some = std::make_shared<Profile>();  // a part that was not measured: nothing is known
  some->seconds[whole[0]] = 2;
  some->seconds[parts[0]] = 0.6;
  EXPECT_EQ(hashes(fused(g, some)).size(), 1u);
}

/// Stacked kernels that have nothing in common: where the stack was slow, its members may still be worth it.
TEST(Profile, AStackThatWasSlowerLeavesItsMembersWhole) {
  Builder b;
  for (const char* name : {"x", "y"}) {
    b.origin = fmt::format("exponentials of {}", name);
    const Value e = b.map("exp(a)", {b.input(name, {DType::F32, {8, 128}})});
    b.origin = fmt::format("shares of {}", name);
    b.graph.outputs.push_back(b.map("a / b", {e, b.reduce("sum", e, {1})}));
  }
  const auto fusedFor = [&](std::shared_ptr<const Profile> profile, bool unfused = false) {
    FusionOptions o;
    o.profile = std::move(profile);
    o.unfused = unfused;
    return hashes(fuse(b.graph, findTarget("gpu-class"), o));
  };
  const std::vector<Hash> whole = fusedFor(nullptr), parts = fusedFor(nullptr, true);
  ASSERT_EQ(whole.size(), 1u);
  ASSERT_EQ(parts.size(), 4u);
  auto p = std::make_shared<Profile>();
  p->seconds[whole[0]] = 3;
  for (const Hash& h : parts) p->seconds[h] = 0.6;
  const std::vector<Hash> apart = fusedFor(p);
  ASSERT_EQ(apart.size(), 2u);
  for (const Hash& h : apart) p->seconds[h] = 2;  // now these, too
  EXPECT_EQ(fusedFor(p).size(), 4u);
}

TEST(Profile, FilesReadBackAndSayWhatIsWrong) {
  const std::string file = ::testing::TempDir() + "times.profile";
  const auto write = [&](const std::string& text) { std::ofstream(file) << text; };
  const auto error = [&] {
    try {
      readProfile(file, "cpu:avx2");
    } catch (const UserError& e) {
      return std::string(e.what()).substr(file.size());
    }
    return std::string("none");
  };
  Profile p{"cpu:avx2",
            {{hashes(fused(pair(), nullptr))[0], 0.25}, {{1, 2}, 0.5}},
            {{{1, 2}, "MatMul_1+Relu_2"}}};
  EXPECT_EQ(p.toText().find("00000000000000010000000000000002 0.5  # MatMul_1+Relu_2\n"),
            p.toText().find('\n') + 1);  // the longest first
  write(p.toText() + "# a remark\n");
  EXPECT_EQ(readProfile(file, "cpu:avx2").seconds, p.seconds);
  write("something else\n");
  EXPECT_EQ(error(), ":1: 'something else' found, expected tektite profile TARGET");
  write("tektite profile cpu:avx512\n");
  EXPECT_EQ(error(), ":1: measured on cpu:avx512, expected cpu:avx2");
  write("tektite profile cpu:avx2\nabc 1\n");
  EXPECT_EQ(error(), ":2: 'abc 1' found, expected 32 hexadecimal digits and seconds");
}

}  // namespace
}  // namespace tektite
