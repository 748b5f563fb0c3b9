#pragma once
#include "ops/op.h"

namespace tektite {

/// A graph inside a node, and the outer values that are its last inputs. Constants and known shapes are not inputs: the graph
/// has its own.
struct Nested {
  std::shared_ptr<const Graph> graph;
  std::vector<Value> captured;
};
using BuildInner = std::function<std::vector<Value>(Builder&, const std::vector<Value>& inputs,
                                                    const std::vector<Value>& captured)>;
/// Builds a graph of its own whose first inputs have these types; `captured` are values of the builder around it.
Nested nest(Builder& outer, const std::vector<TensorType>& inputs,
            const std::vector<Value>& captured, const BuildInner& build);

/// A recurrence over axis 0 of `scanned`: results are the final states, then what each step gives, stacked. `reverse` has a flag
/// for each scanned operand and each stacked result; empty: none. HostLoop (with no body): a state changes its type.
std::vector<Value> scan(Builder&, const std::vector<Value>& states,
                        const std::vector<Value>& scanned, const std::vector<Value>& captured,
                        std::vector<bool> reverse, const BuildInner& body);

}  // namespace tektite
