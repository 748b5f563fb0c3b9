#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "cli/cli.h"
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
  void write(const std::string& name, const std::string& text) {
    writeExactly(name, !text.empty() && text.back() != '\n' ? text + '\n' : text);
  }
  /// Answers the file's name.
  std::string writeExactly(const std::string& name, const std::string& bytes) {
    const std::string made = fmt::format("{:02}_{}{}", number_++, prefix_, name);
    const std::string path = path_ + "/" + made;
    std::ofstream file(path, std::ios::binary);
    file << bytes;
    file.close();
    if (!file) userError("{}: cannot be written: {}", path, std::strerror(errno));
    return made;
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

void writePart(Folder& folder, const Prepared& p, Report& report, Progress& progress) {
  CompileOptions texts = p.options;
  texts.code = p.options.target.kind == "cpu";  // devices needn't be here
  texts.sources = true;
  const Backend* backend = backendOf(p.options.target);
  texts.packs = backend && backend->writesPrograms();
  const std::shared_ptr<const Program> program = compile(p.graph, texts);
  folder.write("groups.tk", toText(program->graph));
  CompileOptions apart = p.options;
  apart.fusion.unfused = apart.interpret = true;
  report = makeReport(*program, compile(p.graph, apart).get());
  folder.write("report.txt", toText(report, true));
  folder.write("report.json", toJson(report));
  size_t done = 0;
  const Backend::Write write = [&](const std::string& name, const std::string& bytes) {
    return folder.writeExactly(name, bytes);
  };
  std::vector<WrittenKernel> kernels;
  for (const KernelInfo& kernel : program->kernels) {
    kernels.push_back({kernel.name, &kernel.artifact, ""});
    progress.show("writing", ++done, program->kernels.size());
    folder.write(kernel.name + ".tk", kernelFile(kernel));
    std::string& file = kernels.back().file;
    if (kernel.sameAs >= 0)
      file = kernels[static_cast<size_t>(kernel.sameAs)].file;
    else if (backend && !kernel.artifact.text.empty())
      file = backend->write(kernel.name, kernel.artifact, p.options.target, write);
  }
  if (backend) backend->write(*program, kernels, write);
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
