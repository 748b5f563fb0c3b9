#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

constexpr size_t kMostBytesCompared =
    4 << 10;  // larger constants are the same only where they are the same memory

Hash identityOf(const Node& n) {
  const Const* c = n.as<Const>();
  if (!c || !c->data || c->data->bytes <= kMostBytesCompared) return hashOf(n);
  Hasher h;
  h.add(static_cast<int>(n.results[0].dtype))
      .add(static_cast<uint64_t>(reinterpret_cast<uintptr_t>(c->data->data)));
  for (const Expr& e : n.results[0].shape) h.add(e.hash());
  return h.finish();
}

/// Nodes that compute the same from the same operands are one. Calls are not compared: nothing says that they are pure.
Graph eliminateCommon(const Graph& in) {
  std::unordered_map<Hash, std::vector<Value>> known;
  return rebuild(in, [&](Graph& out, Node n) {
    n = withinNested(std::move(n), in, eliminateCommon);
    if (n.as<Call>()) return keep(out, std::move(n));
    const Hash h = identityOf(n);
    if (const auto it = known.find(h); it != known.end()) return it->second;
    return known.emplace(h, keep(out, std::move(n))).first->second;
  });
}

const Pass pass{"cse", "compute equal nodes once", eliminateCommon};

}  // namespace
}  // namespace tektite
