#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace tektite {

/// LLVM through its C API: IR text -> optimised object code. Thread-safe: each call has its own context. InternalError where the text
/// doesn't parse or verify, with the text.
std::vector<char> compileObject(const std::string& llvmText, const Target& target);
/// Assembly of the same, for `compile -o` and tests (spills).
std::string compileAssembly(const std::string& llvmText, const Target& target);

/// Loaded object code: symbols stay valid while it lives.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
  virtual void add(const std::vector<char>& object) = 0;
  virtual void* find(const std::string& symbol) const = 0;  ///< null where there is none
};
std::unique_ptr<LoadedCode> newLoadedCode();

}  // namespace tektite
