#include "passes/pass.h"

#include <algorithm>
#include <chrono>

#include "support/check.h"

namespace tektite {
namespace {

std::vector<const Pass*>& registry() {
  static std::vector<const Pass*> passes;
  return passes;
}

const Pass& mustFind(std::string_view name) {
  if (const Pass* p = findPass(name)) return *p;
  std::string known;
  for (const Pass* p : allPasses())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", p->name);
  userError("pass '{}': no such pass, expected one of {}", name, known);
}

std::vector<const Pass*> chosen(const PassOptions& options) {
  std::vector<const Pass*> out;
  if (options.passes.empty()) {
    for (std::string_view name : pipeline())
      if (const Pass& p = mustFind(name); p.needs <= options.numerics) out.push_back(&p);
  } else {
    for (const std::string& name : options.passes) out.push_back(&mustFind(name));
  }
  for (const std::string& name : options.disabled) {
    const Pass& off = mustFind(name);
    std::erase(out, &off);
  }
  if (!options.stopAfter.empty()) {
    const auto last = std::find(out.begin(), out.end(), &mustFind(options.stopAfter));
    if (last != out.end()) out.erase(last + 1, out.end());
  }
  if (options.bisect >= 0 && static_cast<size_t>(options.bisect) < out.size())
    out.resize(options.bisect);
  return out;
}

void verifyAfter(const Pass& pass, const Graph& after) {
  try {
    verify(after);
  } catch (const InternalError& e) {
    throw InternalError(fmt::format("after {}: {}", pass.name, e.what()));
  }
}

}  // namespace

Pass::Pass(std::string_view name, std::string_view doc, Graph (*run)(const Graph&), Numerics needs)
    : name(name), doc(doc), run(run), needs(needs) {
  registry().push_back(this);
}

std::vector<const Pass*> allPasses() {
  std::vector<const Pass*> out = registry();
  std::sort(out.begin(), out.end(), [](const Pass* a, const Pass* b) { return a->name < b->name; });
  return out;
}

const Pass* findPass(std::string_view name) {
  for (const Pass* p : registry())
    if (p->name == name) return p;
  return nullptr;
}

Graph runPasses(const Graph& in, const PassOptions& options) {
  using Clock = std::chrono::steady_clock;
  Graph graph = in;
  const std::vector<const Pass*> passes = chosen(options);
  for (const Pass* pass : passes) {
    const auto start = Clock::now();
    Graph after = pass->run(graph);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (options.verifyEach || pass == passes.back()) verifyAfter(*pass, after);
    if (options.observe) options.observe(pass->name, after, after.hash() != graph.hash(), seconds);
    graph = std::move(after);
  }
  return graph;
}

}  // namespace tektite
