#pragma once
#include <optional>
#include <string>

#include "fuzz/random_graph.h"
#include "ir/target.h"
#include "passes/pass.h"

namespace tektite {

/// The largest difference of two results, relative to the magnitudes in them; infinite where shapes, NaNs or infinities differ.
double largestDifference(const Tensor& a, const Tensor& b);

/// What a fuzz case found wrong: the seed, the step, the difference and the graph's text. Nothing where all agree.
struct FuzzFailure {
  uint64_t seed;
  std::string what;
};
/// A random graph after the passes (one of them disabled, by the seed) against itself before, both interpreted in double.
std::optional<FuzzFailure> fuzzPasses(uint64_t seed);
/// A random graph compiled fused and unfused (moves, scratch and threads by the seed), run, and held against the interpreter.
std::optional<FuzzFailure> fuzzCompiled(uint64_t seed, const Target& target);

}  // namespace tektite
