#include "backends/launches.h"

#include "support/check.h"

namespace tektite {
namespace {

using Enqueue = std::function<void(const Launch&, const LaunchValues&)>;

void run(const std::vector<Launch>& launches, LaunchValues& values, const Enqueue& enqueue) {
  for (const Launch& launch : launches) {
    switch (launch.kind) {
      case Launch::Entry: enqueue(launch, values); break;
      case Launch::When:
        if (valueOf(launch.count, values)) run(launch.body, values, enqueue);
        break;
      case Launch::Loop:
        for (int64_t i = 0, n = valueOf(launch.count, values); i < n; i++) {
          values[launch.variable] = Expr(i);
          run(launch.body, values, enqueue);
        }
        values.erase(launch.variable);
    }
  }
}

}  // namespace

int64_t valueOf(const Expr& e, const LaunchValues& values) {
  const auto value = asInteger(substitute(e, values));
  TEKTITE_CHECK(value, "{} isn't known at the launch", toText(e));
  return *value;
}

LaunchShape shapeOf(const Launch& launch, const LaunchValues& values) {
  const int64_t tiles = valueOf(launch.count, values);
  if (launch.threads > 1)
    return {static_cast<unsigned>(tiles), static_cast<unsigned>(launch.threads)};
  return {static_cast<unsigned>((tiles + kTileGroup - 1) / kTileGroup), kTileGroup};
}

void runLaunches(const Artifact& artifact, const std::vector<int64_t>& dims,
                 const Enqueue& enqueue) {
  LaunchValues values;
  for (size_t i = 0; i < dims.size(); i++) values[artifact.dims.at(i)] = Expr(dims[i]);
  run(artifact.launches, values, enqueue);
}

}  // namespace tektite
