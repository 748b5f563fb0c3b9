#pragma once
#include <unordered_map>
#include <vector>

#include "emit/llvm_function.h"
#include "support/hash.h"

namespace tektite::llvm_text {

/// Values already in registers, by the expression's hash, in scopes as control flow dominates. Each knows which buffers it was
/// read from (a bit a buffer, several may share one), so that a store forgets it.
class Memo {
 public:
  Memo() { push(); }
  void push(bool isolated = false) { scopes_.push_back({{}, isolated}); }
  void pop() { scopes_.pop_back(); }
  const Value* find(const Hash& key) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto it = scopes_[i].values.find(key);
      if (it != scopes_[i].values.end()) return &it->second.value;
      if (scopes_[i].isolated) break;
    }
    return nullptr;
  }
  void add(const Hash& key, const Value& value, uint64_t reads) {
    scopes_.back().values[key] = {value, reads};
  }
  void forget(uint64_t written) {
    for (Scope& s : scopes_)
      std::erase_if(s.values, [&](const auto& e) { return e.second.reads & written; });
  }

 private:
  struct Entry {
    Value value;
    uint64_t reads;
  };
  struct Scope {
    std::unordered_map<Hash, Entry> values;
    bool isolated;
  };
  std::vector<Scope> scopes_;
};

}  // namespace tektite::llvm_text
