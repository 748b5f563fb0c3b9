#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>

namespace tektite {

/// Golden texts: a file is cases, each `# case: what it shows`, a text, `----`, and the text that is expected of it; without the
/// second part, nothing may change. Lines `# key: value` before the first case are settings for all.
///   TEKTITE_UPDATE=1 tektite_tests --gtest_filter='Golden*'    writes what came out
struct GoldenSettings {
  std::map<std::string, std::string> values;
  std::string at(const std::string& key) const {
    const auto it = values.find(key);
    return it == values.end() ? "" : it->second;
  }
};
/// `canonical` parses and prints, `transform` gives the text after.
void checkGoldens(
    const std::filesystem::path& file,
    const std::function<std::string(const std::string& text)>& canonical,
    const std::function<std::string(const std::string& text, const GoldenSettings&)>& transform);
/// The texts before `----` of a file's cases.
std::vector<std::string> goldenTexts(const std::filesystem::path& file);
/// The files of a folder of tests/, sorted: "graph".
std::vector<std::filesystem::path> goldenFiles(const std::string& folder);

}  // namespace tektite
