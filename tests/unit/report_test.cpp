// What reports say of a simulated machine.
#include "runtime/report.h"

#include <nlohmann/json.hpp>

#include "../evaluators.h"

namespace tektite {
namespace {

/// A kernel that keeps more than a memory holds doesn't run on the machine: the report says which, where and by how much.
TEST(Report, KernelsThatDontFitAreNamed) {
  Target t = findTarget("npu:ascend910b");
  for (Level& l : t.levels)
    if (l.name == "ub") l.bytes = 65536;
  Report report;
  report.kernels.resize(2);
  report.kernels[0].name = "k0_fits", report.kernels[1].name = "k1_conv";
  Simulated fits, large;
  fits.peaks = {{"ub", 65536}, {"l1", 4096}, {"main", 1 << 30}};
  large.peaks = {{"ub", 69760}, {"l1", 4096}};
  addSimulated(report, {fits, large}, t);
  const std::string text = toText(report, false);
  EXPECT_NE(text.find("k1_conv doesn't fit: 69760 of 65536 bytes of ub\n"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("k0_fits doesn't"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(toJson(report));
  EXPECT_EQ(json["kernels"][0]["overflows"].size(), 0u);
  EXPECT_EQ(json["kernels"][1]["overflows"].dump(),
            R"([{"available":65536,"level":"ub","needed":69760}])");
}

}  // namespace
}  // namespace tektite
