#pragma once
#include <array>
#include <bit>
#include <vector>

#include "support/hash.h"

namespace tektite {

/// Different hashes, numbered as they come: few lie in a row, more are found through a table. No node of its own for each.
class HashNumbers {
 public:
  static constexpr size_t kNone = static_cast<size_t>(-1);
  size_t find(const Hash& h) const {
    if (table_.empty()) {
      for (size_t i = 0; i < size_; i++)
        if (few_[i] == h) return i;
      return kNone;
    }
    const uint32_t at = table_[slotOf(h)];
    return at ? at - 1 : kNone;
  }
  /// One that isn't among them.
  void add(const Hash& h) {
    if (size_ < kInRow) {
      few_[size_++] = h;
      return;
    }
    if (size_++ == kInRow) keys_.assign(few_.begin(), few_.end());
    keys_.push_back(h);
    if (keys_.size() * 2 > table_.size()) {
      table_.assign(std::bit_ceil(keys_.size() * 4), 0);
      for (size_t i = 0; i < keys_.size(); i++) table_[slotOf(keys_[i])] = number(i);
    } else {
      table_[slotOf(h)] = number(keys_.size() - 1);
    }
  }

 private:
  static constexpr size_t kInRow = 16;
  size_t size_ = 0;
  std::array<Hash, kInRow> few_;  // as long as there are no more
  std::vector<Hash> keys_;
  std::vector<uint32_t> table_;  // number + 1, or 0; none while they lie in a row

  static uint32_t number(size_t i) { return static_cast<uint32_t>(i + 1); }
  /// Where it is, or would be.
  size_t slotOf(const Hash& h) const {
    const size_t last = table_.size() - 1;  // a power of two less one
    size_t slot = h.lo & last;
    while (table_[slot] && !(keys_[table_[slot] - 1] == h)) slot = (slot + 1) & last;
    return slot;
  }
};

}  // namespace tektite
