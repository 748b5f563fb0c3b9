#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "ir/target.h"
#include "passes/pass.h"
#include "runtime/program.h"

namespace tektite {

struct CompileOptions {
  Target target;  ///< a CPU that this machine can run, unless `code` is off
  FusionOptions fusion;
  PassOptions passes;
  int threads = 1;  ///< of the runs; compilation takes all cores
  bool interpret =
      false;           ///< groups are executed by the graph interpreter: slow, and needs no code
  bool code = true;    ///< off: everything but object code, to look at
  bool packs = false;  ///< makes packed constants also where `code` is off, to write them out
  bool sources =
      false;  ///< keeps the text of each kernel's code also where the code comes from the cache
  bool resources = false;   ///< asks the target's compiler for registers and the like
  bool reuseMemory = true;  ///< off: every value keeps its memory until the end of the run
  /// What can't be a kernel goes to the graph interpreter, and is told here once a compilation. Not set: it is refused.
  std::function<void(const Fallback&)> fallback;
  std::string file;         ///< the model's, for messages
  std::string cacheFolder;  ///< "": no cache on disk
  std::function<void(std::string_view stage, size_t done, size_t total)>
      progress;  ///< may be called from several threads, one at a time
};

/// The graph after bindDims and the passes.
Graph prepareGraph(const Graph& model, const std::map<std::string, int64_t>& dims,
                   const PassOptions&);
/// From a static graph after the passes to what runs. UserError: what can't run on this target.
std::shared_ptr<const Program> compile(const Graph& prepared, const CompileOptions&);
/// The values of all named dims: those given, 1 (or the smallest legal) for the others. UserError: a name that the graph lacks.
std::map<std::string, int64_t> completeDims(const Graph&,
                                            const std::map<std::string, int64_t>& given);

}  // namespace tektite
