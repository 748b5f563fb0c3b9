#include "ir/target.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/check.h"

namespace tektite {
namespace {

std::string fileWith(const std::string& text) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("tektite_target_{}.toml", ::getpid());
  std::ofstream(path) << text;
  return path;
}

TEST(Target, TextReadsBack) {
  for (const char* name : {"host", "gpu-class", "test:npu", "test:avx2", "npu:ascend910b",
                           "npu:ethos-u65-512", "npu:neuroncore2"}) {
    const Target t = findTarget(name);
    const std::string file = fileWith(t.toText());
    EXPECT_EQ(findTarget(file).toText(), t.toText());
    std::filesystem::remove(file);
  }
}

TEST(Target, FilesChangeABase) {
  const std::string file = fileWith("base = \"cpu:avx2\"\nname = \"mine\"\ncores = 64\n");
  const Target t = findTarget(file);
  EXPECT_EQ(t.name, "mine");
  EXPECT_EQ(t.cores, 64);
  EXPECT_EQ(t.vectorBytes, 32);
  std::filesystem::remove(file);
}

TEST(Target, LevelsOfPresets) {
  EXPECT_EQ(findTarget("test:avx2").level("reg")->bytes, 512);
  EXPECT_EQ(findTarget("test:avx2").last().name, "l2");
  EXPECT_EQ(findTarget("test:sm_80").level("frag")->bytes, 1020);
  EXPECT_EQ(findTarget("test:npu").level("l0c")->bytes, 128 << 10);
  EXPECT_EQ(findTarget("cpu:avx2").level("shared"), nullptr);
  const Target gpu = findTarget("gpu-class");
  EXPECT_NEAR(gpu.cores * gpu.fmaPerCycle * gpu.lanes(4) * 2 * gpu.hertz, 19.5e12, 0.1e12);
}

TEST(Target, HostHasCachesAndCores) {
  const Target t = hostTarget();
  EXPECT_GE(t.cores, 1);
  EXPECT_GE(t.level("l1")->bytes, 8 << 10);
  EXPECT_GE(t.level("l2")->bytes, t.level("l1")->bytes);
  EXPECT_GE(t.hertz, 5e8);
  EXPECT_FALSE(t.cpu.empty());
}

TEST(Target, UnknownOnesAreRefused) {
  try {
    findTarget("cpu:z80");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()).rfind(
                  "target: found 'cpu:z80', expected a file or one of cpu:avx2, ", 0),
              0u)
        << e.what();
  }
  const std::string file = fileWith("base = \"cpu:avx2\"\ncore = 64\n");
  EXPECT_THROW(findTarget(file), UserError);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tektite
