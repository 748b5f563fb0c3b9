#pragma once
#include <list>
#include <memory>
#include <mutex>

#include "runtime/compile.h"
#include "runtime/team.h"

namespace tektite {

/// A model that is compiled for each set of extents of its named dims that it meets; the `capacity` sets used last are kept.
class Specializer {
 public:
  struct Instance {
    std::map<std::string, int64_t> dims;
    Graph graph;  ///< static, after the passes
    std::shared_ptr<const Program> program;
    std::unique_ptr<Session> session;
  };
  static constexpr size_t kCapacity = 8;

  Specializer(Graph model, CompileOptions options, size_t capacity = kCapacity);
  /// The instance for inputs of these shapes; compiled now where there is none. Good until `capacity` others were asked for.
  Instance& at(const std::vector<std::vector<int64_t>>& inputShapes);
  Instance& at(const std::map<std::string, int64_t>& dims);
  const Graph& model() const { return model_; }
  const CompileOptions& options() const { return options_; }
  int compilations() const { return compilations_; }  ///< programs compiled so far

 private:
  Graph model_;
  CompileOptions options_;
  size_t capacity_;
  Team team_;
  std::list<Instance> instances_;  // the one used last first
  int compilations_ = 0;
};

}  // namespace tektite
