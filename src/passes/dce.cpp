#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

/// Keeps what the outputs need; inputs stay, they are the graph's signature.
Graph eliminateDead(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return keep(out, withinNested(std::move(n), in, eliminateDead));
  });
}

const Pass pass{"dce", "drop nodes that no output needs", eliminateDead};

}  // namespace
}  // namespace tektite
