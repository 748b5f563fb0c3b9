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

std::string errorOf(const std::function<void()>& what) {
  try {
    what();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

TEST(Target, NumbersCanBeSet) {
  Target t = findTarget("cuda:sm_90");
  setNumber(t, "scratch_bytes=393216");
  EXPECT_EQ(t.level("shared")->bytes, 393216);
  setNumber(t, "l2.bytes=1048576");
  EXPECT_EQ(t.level("l2")->bytes, 1048576);
  setNumber(t, "launch_seconds=1e-6");
  EXPECT_EQ(t.launchSeconds, 1e-6);
  setNumber(t, "grid_sync=false");
  EXPECT_FALSE(t.gridSync);
  Target cpu = findTarget("cpu:avx2");
  setNumber(cpu, "scratch_bytes=1024");
  EXPECT_EQ(cpu.level("l3")->bytes, 1024);
}

TEST(Target, WhatCannotBeSetIsNamed) {
  Target t = findTarget("gpu-class");
  EXPECT_TRUE(errorOf([&] {
                setNumber(t, "launch_us=1");
              }).starts_with("--set: 'launch_us' found, expected scratch_bytes, name, kind, "));
  EXPECT_EQ(errorOf([&] { setNumber(t, "l1.bytes=1"); }),
            "--set: level 'l1' found, expected one of reg, shared, l2, main");
  EXPECT_EQ(errorOf([&] { setNumber(t, "cores=many"); }),
            "--set: cores: 'many' found, expected an integer");
  EXPECT_EQ(errorOf([&] { setNumber(t, "cores"); }), "--set: 'cores' found, expected NAME=VALUE");
}

TEST(Target, ArchitecturesOfCuda) {
  EXPECT_EQ(withArch(findTarget("cuda"), "sm_90").toText(), findTarget("cuda:sm_90").toText());
  EXPECT_EQ(errorOf([] { withArch(findTarget("cuda"), "sm_10"); }),
            "--arch: 'sm_10' found, expected one of sm_80, sm_86, sm_89, sm_90");
  EXPECT_EQ(errorOf([] { withArch(findTarget("cpu"), "sm_90"); }).substr(0, 8), "--arch: ");
}

TEST(Target, UnknownOnesAreRefused) {
  try {
    findTarget("cpu:z80");
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()).rfind(
                  "target: found 'cpu:z80', expected a file or one of cpu, cpu:avx2, ", 0),
              0u)
        << e.what();
  }
  const std::string file = fileWith("base = \"cpu:avx2\"\ncore = 64\n");
  EXPECT_THROW(findTarget(file), UserError);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tektite
