#include "runtime/specialize.h"

#include "runtime/dims.h"

namespace tektite {

Specializer::Specializer(Graph model, CompileOptions options, size_t capacity)
    : model_(std::move(model)),
      options_(std::move(options)),
      capacity_(std::max<size_t>(capacity, 1)),
      team_(options_.threads) {}

Specializer::Instance& Specializer::at(const std::vector<std::vector<int64_t>>& inputShapes) {
  std::vector<DType> types;
  for (Value v : model_.inputs()) types.push_back(model_.type(v).dtype);
  types.resize(inputShapes.size());
  return at(dimsOf(model_, types, inputShapes));
}

Specializer::Instance& Specializer::at(const std::map<std::string, int64_t>& given) {
  const std::map<std::string, int64_t> dims = completeDims(model_, given);
  for (auto i = instances_.begin(); i != instances_.end(); ++i) {
    if (i->dims != dims) continue;
    instances_.splice(instances_.begin(), instances_, i);
    return instances_.front();
  }
  Instance made;
  made.dims = dims;
  made.graph = prepareGraph(model_, dims, options_.passes);
  made.program = compile(made.graph, options_);
  made.session = std::make_unique<Session>(made.program, &team_);
  ++compilations_;
  instances_.push_front(std::move(made));
  if (instances_.size() > capacity_) instances_.pop_back();
  return instances_.front();
}

}  // namespace tektite
