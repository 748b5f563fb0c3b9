#include "fusion/profile.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "support/check.h"

namespace tektite {
namespace {

constexpr char kFirstLine[] = "tektite profile ";

uint64_t word(const std::string& hex) { return std::stoull(hex, nullptr, 16); }

bool isHash(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string Profile::toText() const {
  std::vector<std::pair<Hash, double>> groups(seconds.begin(), seconds.end());
  std::ranges::stable_sort(groups, std::greater(), &std::pair<Hash, double>::second);
  std::string out = kFirstLine + target + "\n";
  for (const auto& [hash, time] : groups) {
    const auto name = names.find(hash);
    out += fmt::format("{} {:.4g}{}\n", hash.hex(), time,
                       name == names.end() ? "" : "  # " + name->second);
  }
  return out;
}

Profile readProfile(const std::string& file, const std::string& target) {
  std::ifstream in(file);
  if (!in) userError("{}: cannot be read", file);
  Profile out;
  std::string line;
  for (int number = 1; std::getline(in, line); number++) {
    line = line.substr(0, line.find('#'));
    if (number == 1) {
      if (!line.starts_with(kFirstLine))
        userError("{}:1: '{}' found, expected {}TARGET", file, line, kFirstLine);
      out.target = line.substr(sizeof kFirstLine - 1);
      if (out.target != target)
        userError("{}:1: measured on {}, expected {}", file, out.target, target);
      continue;
    }
    std::istringstream words(line);
    std::string hash, rest;
    double seconds = 0;
    if (!(words >> hash)) continue;
    if (!isHash(hash) || !(words >> seconds) || seconds < 0 || (words >> rest))
      userError("{}:{}: '{}' found, expected 32 hexadecimal digits and seconds", file, number,
                line);
    out.seconds[{word(hash.substr(0, 16)), word(hash.substr(16))}] = seconds;
  }
  return out;
}

}  // namespace tektite
