#pragma once
#include <algorithm>
#include <map>
#include <set>

#include "fusion/change.h"
#include "fusion/streaming.h"

namespace tektite {

/// One accumulator's memory from piece to piece.
struct CarriedSum {
  Combine combine;
  std::vector<std::string> names;  ///< of its values in the stage's outer stores
  std::vector<Expr> index;         ///< of their buffers, over the stage's axes
  TensorType type;                 ///< but for the dtype
  Change change;
  std::string mean;                ///< it sums squares of distances from this mean: "" for others
  std::vector<Expr> meanIndex;     ///< where the mean is read
  std::vector<size_t> order = {};  ///< in which its values are joined: none after one that it reads
  std::string run(size_t m) const { return "run_" + names[m]; }
};

/// A mean that is read on the way as it is so far.
struct CarriedMean {
  size_t stage;             ///< that sums it
  size_t carried;           ///< which of the stage's accumulators
  std::vector<Expr> index;  ///< where it is stored
};

/// What is known of a set of stages that walk an axis (streaming.cpp), for who makes the new stages (streaming_stages.cpp).
struct AxisWalk {
  const StageSet& in;
  std::vector<int> axis;    ///< [stage] the walked axis, or -1
  std::vector<bool> after;  ///< [stage] behind the walk
  int root = -1;
  std::map<std::string, size_t> maxima;      ///< in-walk values of results: the stage of each
  std::map<std::string, CarriedMean> means;  ///< the same of means
  std::map<size_t, std::vector<CarriedSum>> carried;  ///< [stage]
  std::set<std::pair<std::string, double>> fixes;     ///< factors exp(k (now - before)) in use
  std::set<std::string> readAfter;

  const PlanBuffer& buffer(const std::string& name) const {
    return *std::ranges::find(in.buffers, name, &PlanBuffer::name);
  }
  bool isOutput(const std::string& name) const { return buffer(name).kind == PlanBuffer::Output; }
  std::vector<int> spaceAxes(size_t stage) const {
    std::vector<int> out;
    for (size_t a = 0; a < in.stages[stage].axes.size(); a++)
      if (!in.stages[stage].axes[a].reduce) out.push_back(static_cast<int>(a));
    return out;
  }
};
Streamed stagesOf(const AxisWalk&);

}  // namespace tektite
