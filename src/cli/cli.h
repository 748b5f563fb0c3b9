#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/import.h"
#include "runtime/array.h"
#include "runtime/compare.h"
#include "runtime/compile.h"
#include "support/options.h"

namespace tektite::cli {

constexpr int kSame = 0, kDiffers = 1, kWrongUse = 2;  // exit codes

// The commands: each prints its report to standard output and answers the exit code.
int run(const Options&);
int runSets(const Options&);  ///< several sets of inputs, of any shapes, in one session
int compileTo(const Options&);
int opt(const Options&);
int explain(const Options&);
int why(const Options&);
int whatIf(const Options&);
int verifyModel(const Options&);
int bench(const Options&);
int ops(const Options&);
int machine(const Options&);

/// A progress bar on standard error, from the second second on.
class Progress {
 public:
  ~Progress();
  void show(std::string_view stage, size_t done, size_t total);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_ = start_;
  bool shown_ = false;
};

/// A file `.onnx` or `.tk`, or the built-in model of --builtin.
Graph loadModel(const Options&);
Graph builtinModel(const std::string& name);
std::map<std::string, int64_t> givenDims(const Options&);
/// Passes as the debug options say: disabled, stopped, observed.
PassOptions passOptions(const Options&);
Target targetOf(const Options&);  ///< as --target, --arch and --set say
/// Everything about compiling; `progress` must outlive it.
CompileOptions compileOptions(const Options&, Progress& progress);

/// A model and its inputs.
struct Prepared {
  Graph model;  ///< as loaded
  Graph graph;  ///< static, after the passes
  std::vector<Array> inputs;
  CompileOptions options;
  RestPtr parts;  ///< a model in parts: it has no graph
  std::vector<std::string> outputNames;
  std::string ends;  ///< of a part: what it asks at its end
};
/// Loads the model; reads --inputs or makes random ones; binds dims from the inputs' shapes and --dim; runs the passes. `observe` sees
/// the passes, too. What isn't one graph for all dims is a model in parts.
Prepared prepareModel(const Options&, Progress&,
                      const decltype(PassOptions::observe)& observe = {});
/// What explain, compile and verify look at: the model itself, or the parts that a run with these inputs reaches, each with the inputs that
/// it meets first.
std::vector<Prepared> partsOf(Prepared);
/// `bench` for a machine that is only simulated: its cycles, fused and with --vs unfused.
int benchSimulated(const Options&, const std::vector<Prepared>&);
/// explain --sweep: totals for several values of one number of the target.
int sweep(const Options&, const std::vector<Prepared>& parts);
void printPart(const std::vector<Prepared>& parts,
               size_t i);  ///< a heading, where there are several
std::vector<Array> readArrays(const std::string& folder, const std::string& stem, size_t count);
void writeText(const std::string& path, const std::string& text);
std::vector<Array> newOutputs(const Program&);
std::vector<const void*> pointersTo(const std::vector<Array>&);
std::vector<void*> writablePointersTo(const std::vector<Array>&);
int threadsOf(const Options&);
Tolerance toleranceOf(const Options&);

}  // namespace tektite::cli
