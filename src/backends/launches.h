#pragma once
#include <functional>
#include <string>
#include <unordered_map>

#include "emit/artifact.h"

namespace tektite {

/// What a kernel's dims and the loops around a launch are.
using LaunchValues = std::unordered_map<std::string, Expr>;

/// Runs a device's launches in order: `enqueue` for each entry, with what is known then.
void runLaunches(const Artifact&, const std::vector<int64_t>& dims,
                 const std::function<void(const Launch&, const LaunchValues&)>& enqueue);
int64_t valueOf(const Expr&, const LaunchValues&);
/// The grid of an entry: blocks of threads. No blocks: nothing to launch.
struct LaunchShape {
  unsigned blocks = 0, threads = 1;
};
LaunchShape shapeOf(const Launch&, const LaunchValues&);

}  // namespace tektite
