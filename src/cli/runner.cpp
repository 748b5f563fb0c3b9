#include "cli/runner.h"

namespace tektite::cli {

Runner::Runner(const Prepared& p, bool unfused, Team& team) : p_(p), in_(pointersTo(p.inputs)) {
  CompileOptions options = p.options;
  options.fusion.unfused = unfused;
  if (p.parts) {
    for (const Array& input : p.inputs) carriedIn_.push_back(carriedFrom(input));
    chain_.emplace(p.parts, options, team);
    run();  // what compiles it
    return;
  }
  program_ = compile(p.graph, options);
  for (const TensorType& type : program_->outputs)
    outputs_.emplace_back(type.dtype, type.extents());
  out_ = writablePointersTo(outputs_);
  session_.emplace(program_, &team);
}

void Runner::run() {
  if (!chain_) {
    session_->run(in_.data(), out_.data());
    return;
  }
  carriedOut_.clear();  // its memory serves again
  carriedOut_ = chain_->run(carriedIn_);
}

std::vector<Array> Runner::outputs() const {
  std::vector<Array> outputs;
  for (const Array& array : outputs_) outputs.push_back(arrayFrom(carriedFrom(array)));
  for (const Carried& c : carriedOut_) outputs.push_back(arrayFrom(c));
  return outputs;
}

std::vector<std::string> Runner::outputNames() const {
  return chain_ ? p_.outputNames : program_->outputNames;
}

std::vector<std::pair<const Program*, int64_t>> Runner::programs() const {
  std::vector<std::pair<const Program*, int64_t>> programs;
  if (!chain_) return {{program_.get(), 1}};
  for (const auto& stage : chain_->reached())
    if (stage->program) programs.emplace_back(stage->program.get(), stage->times);
  return programs;
}

}  // namespace tektite::cli
