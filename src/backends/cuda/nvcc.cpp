#include "backends/cuda/nvcc.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "support/check.h"

namespace tektite {
namespace {

namespace fs = std::filesystem;

std::string readAll(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

/// A folder that ends with it.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    static std::atomic<int> count = 0;
    path = fs::temp_directory_path() / fmt::format("tektite-nvcc-{}-{}", ::getpid(), ++count);
    fs::create_directories(path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

bool inPath(const char* tool) {
  return std::system(fmt::format("command -v {} >/dev/null 2>&1", tool).c_str()) == 0;
}

/// The number before a word: "24 registers".
int numberBefore(const std::string& line, const std::string& word) {
  const size_t at = line.find(word);
  if (at == std::string::npos) return 0;
  size_t from = at;
  while (from > 0 && line[from - 1] == ' ') --from;
  size_t digits = from;
  while (digits > 0 && std::isdigit(static_cast<unsigned char>(line[digits - 1]))) --digits;
  return digits < from ? std::atoi(line.substr(digits, from - digits).c_str()) : 0;
}

}  // namespace

bool hasNvcc() {
  static const bool found = inPath("nvcc");
  return found;
}

bool hasNvdisasm() {
  static const bool found = inPath("nvdisasm");
  return found;
}

std::map<std::string, std::map<std::string, int>> parseSass(const std::string& text) {
  std::map<std::string, std::map<std::string, int>> out;
  std::map<std::string, int>* now = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kLabel = ".text.";
    if (line.starts_with(kLabel) && line.back() == ':')
      now = &out[line.substr(kLabel.size(), line.size() - kLabel.size() - 1)];
    const size_t address = line.find("/*"), end = line.find("*/");
    if (!now || address == std::string::npos || end == std::string::npos) continue;
    std::istringstream words(line.substr(end + 2));
    std::string word;
    words >> word;
    if (word.starts_with('@')) words >> word;  // a predicate
    word = word.substr(0, word.find_first_of(".;"));
    if (!word.empty() && std::isupper(static_cast<unsigned char>(word[0]))) ++(*now)[word];
  }
  return out;
}

std::map<std::string, KernelResources> parsePtxas(const std::string& log) {
  std::map<std::string, KernelResources> out;
  std::istringstream lines(log);
  KernelResources* now = nullptr;
  for (std::string line; std::getline(lines, line);) {
    if (const size_t at = line.find("Compiling entry function '"); at != std::string::npos) {
      const size_t from = at + 26;
      now = &out[line.substr(from, line.find('\'', from) - from)];
    } else if (now && line.find("spill stores") != std::string::npos) {
      now->spillBytes =
          numberBefore(line, "bytes spill stores") + numberBefore(line, "bytes spill loads");
    } else if (now && line.find("registers") != std::string::npos) {
      now->registers = numberBefore(line, "registers");
      now->sharedBytes = numberBefore(line, "bytes smem");
      now->barriers = numberBefore(line, "barriers");
    }
  }
  return out;
}

std::optional<NvccOutput> runNvcc(const std::string& source, const std::string& arch,
                                  const std::string& options) {
  if (!hasNvcc()) return std::nullopt;
  TemporaryFolder folder;
  const std::string at = folder.path;
  std::ofstream(at + "/kernels.cu") << source;
  const std::string command = fmt::format(
      "cd '{0}' && nvcc -std=c++17 -arch={1} {2} -cubin -Xptxas -v --keep -o kernels.cubin "
      "kernels.cu >log 2>&1",
      at, arch, options);
  const int status = std::system(command.c_str());
  NvccOutput out;
  out.log = readAll(at + "/log");
  TEKTITE_CHECK(status == 0, "nvcc refuses\n{}\n{}", out.log, source);
  out.ptx = readAll(at + "/kernels.ptx");
  out.cubin = readAll(at + "/kernels.cubin");
  out.resources = parsePtxas(out.log);
  if (hasNvdisasm() &&
      std::system(fmt::format("cd '{}' && nvdisasm -c kernels.cubin >sass 2>&1", at).c_str()) ==
          0) {
    out.sass = readAll(at + "/sass");
    for (auto& [entry, counts] : parseSass(out.sass))
      if (const auto known = out.resources.find(entry); known != out.resources.end())
        known->second.instructions = std::move(counts);
  }
  return out;
}

}  // namespace tektite
