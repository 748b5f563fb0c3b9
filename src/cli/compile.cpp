#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "backends/npu/hivm.h"
#include "cli/cli.h"
#include "runtime/launcher.h"
#include "runtime/report.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

/// A folder of files in the order in which they were made: 00_model.tk, 01_fold-constants.tk, ...
class Folder {
 public:
  explicit Folder(std::string path) : path_(std::move(path)) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) userError("{}: cannot be made: {}", path_, error.message());
  }
  void begin(const std::string& prefix) { prefix_ = prefix; }  ///< of the names from now on
  /// Answers the file's name.
  std::string write(const std::string& name, const std::string& text) {
    return writeExactly(name, !text.empty() && text.back() != '\n' ? text + '\n' : text);
  }
  std::string writeExactly(const std::string& name, const std::string& bytes) {
    const std::string made = next(name);
    ++number_;
    const std::string path = path_ + "/" + made;
    std::ofstream file(path, std::ios::binary);
    file << bytes;
    file.close();
    if (!file) userError("{}: cannot be written: {}", path, std::strerror(errno));
    return made;
  }
  /// What the next file is called.
  std::string next(const std::string& name) const {
    return fmt::format("{:02}_{}{}", number_, prefix_, name);
  }
  int written() const { return number_; }

 private:
  std::string path_, prefix_;
  int number_ = 0;
};

std::string kernelFile(const KernelInfo& kernel) {
  std::string text = fmt::format("# {}\n#\n# plan\n{}\n# schedule\n{}\n", kernel.name, kernel.plan,
                                 kernel.schedule);
  return text + "\n# kernel\n" + kernel.text;
}

/// Is a launcher written beside the kernels?
bool launches(const Target& target) { return target.printer == "cuda"; }

void writeLauncher(Folder& folder, const Program& program,
                   const std::vector<std::string>& modules) {
  const std::string why = whyNoLauncher(program);
  if (!why.empty()) {
    folder.write("no_launcher.txt", why);
    return;
  }
  const std::string weights = folder.next("weights.bin");
  const Launcher launcher = cudaLauncher(program, modules, weights);
  folder.writeExactly("weights.bin", launcher.weights);
  folder.write("launcher.cpp", launcher.text);
}

void writePart(Folder& folder, const Prepared& p, Report& report, Progress& progress) {
  CompileOptions texts = p.options;
  texts.code = p.options.target.kind == "cpu";  // devices needn't be here
  texts.sources = true;
  texts.packs = launches(p.options.target);
  const std::shared_ptr<const Program> program = compile(p.graph, texts);
  const Backend* backend = findBackend(p.options.target.printer);
  folder.write("groups.tk", toText(program->graph));
  CompileOptions apart = p.options;
  apart.fusion.unfused = apart.interpret = true;
  report = makeReport(*program, compile(p.graph, apart).get());
  folder.write("report.txt", toText(report, true));
  folder.write("report.json", toJson(report));
  size_t done = 0;
  std::vector<std::string> modules;
  for (const KernelInfo& kernel : program->kernels) {
    modules.push_back(kernel.sameAs >= 0 ? modules[static_cast<size_t>(kernel.sameAs)] : "");
    progress.show("writing", ++done, program->kernels.size());
    folder.write(kernel.name + ".tk", kernelFile(kernel));
    if (kernel.sameAs >= 0 || kernel.artifact.text.empty()) continue;
    if (p.options.target.hasExplicitMemory()) {
      folder.write(kernel.name + ".npu", kernel.artifact.text);
      const KernelModule module = parseKernels(kernel.artifact.text, kernel.name);
      if (hivmSupports(module, module.kernels[0], p.options.target).yes)
        folder.write(kernel.name + ".mlir", hivmText(module, module.kernels[0], p.options.target));
      continue;
    }
    for (const Backend::File& file : backend->files(kernel.artifact, p.options.target)) {
      const std::string name = folder.write(kernel.name + "." + file.extension, file.text);
      if (file.extension == "cu") modules.back() = name + "bin";  // what nvcc calls it
      if (file.extension == "cubin") modules.back() = name;
    }
  }
  if (launches(p.options.target)) writeLauncher(folder, *program, modules);
}

}  // namespace

int compileTo(const Options& options) {
  if (!options.given("-o")) userError("compile: no folder found, expected -o DIR");
  Progress progress;
  Folder folder(options.text("-o"));
  const std::vector<Prepared> parts = partsOf(prepareModel(
      options, progress, [&](std::string_view pass, const Graph& after, bool changed, double) {
        if (changed) folder.write(fmt::format("after_{}.tk", pass), toText(after));
      }));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  size_t kernels = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts.size() > 1) folder.begin(fmt::format("part{}_", i + 1));
    folder.write("model.tk", toText(parts[i].model));
    Report report;
    writePart(folder, parts[i], report, progress);
    kernels += report.kernels.size();
    json.push_back(nlohmann::ordered_json::parse(toJson(report)));
  }
  if (options.given("--json"))
    fmt::print("{}\n", (json.size() == 1 ? json[0] : json).dump(2));
  else
    fmt::print("{} kernels, {} files in {}\n", kernels, folder.written(), options.text("-o"));
  return kSame;
}

int opt(const Options& options) {
  Progress progress;
  PassOptions passes = passOptions(options);
  passes.passes = options.texts("--passes");
  const bool fuses = !passes.passes.empty() && passes.passes.back() == "fuse";
  if (fuses) passes.passes.pop_back();
  Graph graph = loadModel(options);
  const std::map<std::string, int64_t> dims = givenDims(options);
  if (!dims.empty()) graph = bindDims(graph, dims);
  if (!fuses || !passes.passes.empty()) graph = runPasses(graph, passes);
  if (fuses) {
    const CompileOptions compile = compileOptions(options, progress);
    graph = fuse(bindDims(graph, completeDims(graph, {})), compile.target, compile.fusion).graph;
  }
  fmt::print("{}", toText(graph));
  return kSame;
}

}  // namespace tektite::cli
