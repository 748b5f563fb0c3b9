#include "backends/backend.h"

#include <map>

#include "support/check.h"

namespace tektite {
namespace {

std::map<std::string_view, const Backend*>& registry() {
  static std::map<std::string_view, const Backend*> map;
  return map;
}

}  // namespace

Backend::Backend(std::string_view name) : name(name) { registry()[name] = this; }

std::vector<const Backend*> allBackends() {
  std::vector<const Backend*> all;
  for (const auto& [name, backend] : registry()) all.push_back(backend);
  return all;
}

const Backend* findBackend(std::string_view printer) {
  const auto it = registry().find(printer);
  return it == registry().end() ? nullptr : it->second;
}

const Backend* backendOf(const Target& target) {
  if (target.printer.empty()) return nullptr;
  if (const Backend* backend = findBackend(target.printer)) return backend;
  std::string known;
  for (const Backend* b : allBackends())
    known += (known.empty() ? "" : ", ") + std::string(b->name);
  userError("target {}: printer '{}' found, expected one of {}", target.name, target.printer,
            known);
}

}  // namespace tektite
