#include "runtime/cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace tektite {
namespace {

namespace fs = std::filesystem;

struct Header {
  char magic[8];
  uint64_t bytes;
  Hash hash;
};
constexpr char kMagic[8] = {'t', 'e', 'k', 't', 'i', 't', 'e', '1'};

Hash hashOf(const std::vector<char>& code) {
  return Hasher().add(std::string_view(code.data(), code.size())).finish();
}

/// Removes what was used longest ago until the folder holds at most half of the limit.
void trim(const std::string& folder, int64_t limitBytes) {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::error_code error;
  std::vector<Entry> entries;
  int64_t total = 0;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    entries.push_back({file.last_write_time(ignored), static_cast<int64_t>(file.file_size(ignored)),
                       file.path()});
    total += entries.back().bytes;
  }
  if (total <= limitBytes) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limitBytes / 2) break;
    fs::remove(entry.path, error);
    total -= entry.bytes;
  }
}

std::string pathOf(const std::string& folder, const Hash& key) {
  return folder + "/" + key.hex() + ".o";
}

}  // namespace

CodeCache::CodeCache(std::string folder, int64_t limitBytes)
    : folder_(std::move(folder)), limitBytes_(limitBytes) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) folder_.clear();
}

std::optional<std::vector<char>> CodeCache::find(const Hash& key) const {
  if (folder_.empty()) return {};
  const std::string path = pathOf(folder_, key);
  std::ifstream file(path, std::ios::binary);
  Header header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header) ||
      std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return {};
  std::error_code error;
  if (fs::file_size(path, error) != sizeof header + header.bytes || error) return {};
  std::vector<char> code(header.bytes);
  if (!file.read(code.data(), static_cast<std::streamsize>(code.size())) ||
      hashOf(code) != header.hash)
    return {};
  fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // for trim
  return code;
}

void CodeCache::store(const Hash& key, const std::vector<char>& code) const {
  if (folder_.empty()) return;
  static std::atomic<bool> trimmed{false};
  if (!trimmed.exchange(true)) trim(folder_, limitBytes_);
  static std::atomic<int> counter{0};
  const std::string path = pathOf(folder_, key);
  const std::string unfinished =
      path + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
  std::error_code error;
  {
    std::ofstream file(unfinished, std::ios::binary);
    Header header{{}, code.size(), hashOf(code)};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(code.data(), static_cast<std::streamsize>(code.size()));
    file.close();
    if (!file) {
      fs::remove(unfinished, error);
      return;
    }
  }
  fs::rename(unfinished, path, error);
  if (error) fs::remove(unfinished, error);
}

std::string defaultCacheFolder() {
  const auto variable = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value ? value : "";
  };
  if (const std::string folder = variable("TEKTITE_CACHE"); !folder.empty()) return folder;
  if (const std::string folder = variable("XDG_CACHE_HOME"); !folder.empty())
    return folder + "/tektite";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/tektite";
  return "";
}

}  // namespace tektite
