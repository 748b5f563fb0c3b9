#pragma once
#include <optional>

#include "cli/cli.h"
#include "runtime/chain.h"

namespace tektite::cli {

/// A model compiled as --unfused or not, with its inputs and outputs: one program, or parts.
class Runner {
 public:
  Runner(const Prepared&, bool unfused, Team&);
  void run();
  /// Of the last run.
  std::vector<Array> outputs() const;
  std::vector<std::string> outputNames() const;
  /// The programs of a run, and how often it runs each.
  std::vector<std::pair<const Program*, int64_t>> programs() const;

 private:
  const Prepared& p_;
  std::vector<const void*> in_;
  std::shared_ptr<const Program> program_;
  std::vector<Array> outputs_;
  std::vector<void*> out_;
  std::optional<Session> session_;
  std::optional<Chain> chain_;
  std::vector<Carried> carriedIn_, carriedOut_;
};

}  // namespace tektite::cli
