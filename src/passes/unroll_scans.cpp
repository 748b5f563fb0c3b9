#include "passes/pass.h"
#include "passes/rebuild.h"

namespace tektite {
namespace {

/// The value with the first axis, of extent 1, taken away or put before.
Value reshaped(Graph& out, Value v, const TensorType& to, const std::string& origin) {
  const int rank = out.type(v).rank(), fewer = to.rank() < rank;
  View view;
  for (int a = 0; a < rank; a++)
    view.index.push_back(fewer && a == 0 ? Expr(0) : var(coordinate(fewer ? a - 1 : a + 1)));
  return out.add(
      {.kind = std::move(view), .operands = {v}, .results = {to}, .name = {}, .origin = origin});
}

std::vector<Value> unrolled(Graph& out, Node n) {
  const Scan* scan = n.as<Scan>();
  if (!scan) return keep(out, std::move(n));
  const auto states = static_cast<size_t>(scan->states),
             scanned = static_cast<size_t>(scan->scanned);
  const Expr time = scanned ? out.type(n.operands[states]).shape[0] : n.results[states].shape[0];
  const auto steps = asInteger(time);
  if (!steps || *steps > 1) return keep(out, std::move(n));
  std::vector<Value> results(n.operands.begin(), n.operands.begin() + static_cast<long>(states));
  if (*steps == 1) {
    std::vector<Value> inputs = n.operands;
    for (size_t i = states; i < states + scanned; i++) {
      TensorType slice = out.type(inputs[i]);
      slice.shape.erase(slice.shape.begin());
      inputs[i] = reshaped(out, inputs[i], slice, n.origin);
    }
    results = inlined(out, *scan->body, inputs);
  }
  for (size_t r = states; r < n.results.size(); r++) {
    const TensorType& type = n.results[r];
    const Const nothing{nullptr,
                        isFloat(type.dtype) ? imm(type.dtype, 0) : immInteger(type.dtype, 0)};
    if (*steps == 0)
      results.push_back(out.add(
          {.kind = nothing, .operands = {}, .results = {type}, .name = {}, .origin = n.origin}));
    else
      results[r] = reshaped(out, results[r], type, n.origin);
  }
  return results;
}

/// A scan of one step is its body; one of none gives its first states.
Graph unrollScans(const Graph& in) {
  return rebuild(in, [&](Graph& out, Node n) {
    return unrolled(out, withinNested(std::move(n), in, unrollScans));
  });
}

const Pass pass{"unroll-scans", "put scans of at most one step in place", unrollScans};

}  // namespace
}  // namespace tektite
