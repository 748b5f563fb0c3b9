#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tektite {

/// What main memory sees of a kernel's accesses: a fully associative cache of 64-byte lines, least recently used out first (design 7).
/// A line that is written before it is read isn't fetched; a dirty one is written back when it leaves, or at `flush`.
class CacheModel {
 public:
  explicit CacheModel(int64_t bytes) : capacity_(bytes / kLine) {}
  void read(uint64_t address, int bytes) { access(address, bytes, false); }
  void write(uint64_t address, int bytes) { access(address, bytes, true); }
  void stream(int bytes) { written_ += bytes; }  ///< a store past the caches
  void flush();                                  ///< writes back what is dirty; lines stay
  void clear();                                  ///< flush, and the cache is cold
  int64_t bytesRead() const { return read_; }
  int64_t bytesWritten() const { return written_; }

 private:
  static constexpr int kLine = 64;
  struct Line {
    uint64_t number;
    uint64_t valid = 0;  // a bit a byte: fetched or written
    bool dirty = false;
    int before = -1, after = -1;
  };
  void access(uint64_t address, int bytes, bool write);
  int find(uint64_t number);
  void unlink(int at);
  void toFront(int at);

  int64_t capacity_, read_ = 0, written_ = 0;
  std::unordered_map<uint64_t, int> where_;
  std::vector<Line> lines_;
  int first_ = -1, last_ = -1;
};

}  // namespace tektite
