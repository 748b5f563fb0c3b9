#include "golden.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace tektite {
namespace {

struct Case {
  std::string name, before, after;
  bool changes = false;
};

std::string trimmed(std::string text) {
  const size_t from = text.find_first_not_of("\n"), to = text.find_last_not_of("\n");
  return from == std::string::npos ? "" : text.substr(from, to - from + 1) + "\n";
}

std::vector<Case> casesOf(const std::filesystem::path& file, GoldenSettings& settings) {
  std::vector<Case> cases;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    const bool setting = line.starts_with("# ") && colon != std::string::npos;
    if (line.starts_with("# case: "))
      cases.push_back({line.substr(8), "", "", false});
    else if (line == "----" && !cases.empty())
      cases.back().changes = true;
    else if (!cases.empty())
      (cases.back().changes ? cases.back().after : cases.back().before) += line + "\n";
    else if (setting)
      settings.values[line.substr(2, colon - 2)] = line.substr(colon + 2);
  }
  return cases;
}

}  // namespace

std::vector<std::string> goldenTexts(const std::filesystem::path& file) {
  GoldenSettings settings;
  std::vector<std::string> out;
  for (const Case& c : casesOf(file, settings)) out.push_back(c.before);
  return out;
}

std::vector<std::filesystem::path> goldenFiles(const std::string& folder) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TEKTITE_TESTS) / folder))
    if (entry.path().extension() == ".tk") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

void checkGoldens(
    const std::filesystem::path& file,
    const std::function<std::string(const std::string&)>& canonical,
    const std::function<std::string(const std::string&, const GoldenSettings&)>& transform) {
  GoldenSettings settings;
  const std::vector<Case> cases = casesOf(file, settings);
  std::string updated;
  for (const auto& [key, value] : settings.values) updated += "# " + key + ": " + value + "\n";
  for (const Case& c : cases) {
    SCOPED_TRACE(file.filename().string() + ": " + c.name);
    std::string before, after, expected;
    try {
      before = trimmed(canonical(c.before));
      after = trimmed(transform(c.before, settings));
      expected = c.changes ? trimmed(c.after) : before;
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    updated +=
        "# case: " + c.name + "\n" + trimmed(c.before) + (before == after ? "" : "----\n" + after);
    if (!std::getenv("TEKTITE_UPDATE")) {
      EXPECT_EQ(after, expected);
    }
  }
  EXPECT_FALSE(cases.empty()) << file;
  if (std::getenv("TEKTITE_UPDATE")) std::ofstream(file) << updated;
}

}  // namespace tektite
