#include "runtime/fallback.h"

#include "ir/graph_eval.h"
#include "support/check.h"

namespace tektite {
namespace {

std::string nameOf(const Node& node, size_t number) {
  return node.origin.empty() ? fmt::format("%{}", number) : node.origin;
}

}  // namespace

std::string toText(const Fallback& f) {
  return fmt::format("a {} that the graph interpreter executes, {:.3g} scalar steps{}", f.kind,
                     f.steps, f.kind == "loop" ? " each time round" : "");
}

void refuse(const CompileOptions& options, const Node& node, size_t number,
            const std::string& what) {
  userError("{}{}node '{}': found {}, expected what can be a kernel", options.file,
            options.file.empty() ? "" : ": ", nameOf(node, number), what);
}

Fallback fallBack(const CompileOptions& options, const Node& node, size_t number) {
  Fallback out{nameOf(node, number), std::string(kindName(node.kind)), 0};
  for (const auto& nested : nestedGraphs(node)) out.steps += evalSteps(*nested);
  const Scan* s = node.as<Scan>();
  const auto states = static_cast<size_t>(s ? s->states : 0);
  if (s && states < node.results.size() &&
      node.results[states].isStatic())  // stacked: an axis of steps
    out.steps *= static_cast<double>(node.results[states].extent(0));
  if (!options.fallback)
    refuse(options, node, number, toText(out) + " (only if it is allowed to fall back)");
  options.fallback(out);
  return out;
}

}  // namespace tektite
