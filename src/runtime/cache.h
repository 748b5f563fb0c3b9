#pragma once
#include <optional>
#include <string>
#include <vector>

#include "support/hash.h"

namespace tektite {

/// Object code on disk, a file a key. Files are written whole and renamed, and carry their length and a hash: what is truncated
/// or damaged counts as absent. Failures to write are silent: a cache is never needed. The first store of a process deletes the files used
/// longest ago where all of them exceed the limit; who only reads never lists the folder.
class CodeCache {
 public:
  /// No folder: nothing is kept.
  explicit CodeCache(std::string folder, int64_t limitBytes = int64_t{1} << 30);
  std::optional<std::vector<char>> find(const Hash& key) const;
  void store(const Hash& key, const std::vector<char>& code) const;
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  int64_t limitBytes_;
};

/// $TEKTITE_CACHE, else $XDG_CACHE_HOME/tektite, else ~/.cache/tektite; "" where there is no home.
std::string defaultCacheFolder();

}  // namespace tektite
