#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/cli.h"
#include "runtime/cache.h"
#include "support/check.h"
#include "support/parallel.h"

namespace tektite::cli {
namespace {

namespace fs = std::filesystem;

std::string readText(const std::string& path) {
  std::ifstream file(path);
  if (!file || fs::is_directory(path))
    userError("{}: cannot be read: {}", path,
              fs::is_directory(path) ? "it is a folder" : std::strerror(errno));
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

Numerics numericsOf(const std::string& text) {
  if (text == "strict") return Numerics::Strict;
  if (text == "ordered") return Numerics::Ordered;
  if (text == "fast") return Numerics::Fast;
  userError("--numerics: '{}' found, expected strict, ordered or fast", text);
}

/// Names of nodes, two by two.
std::vector<std::pair<std::string, std::string>> namePairs(const Options& options,
                                                           std::string_view name) {
  const std::vector<std::string> names = options.texts(name);
  if (names.size() % 2)
    userError("{}: {} names found, expected two for each pair: A,B", name, names.size());
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t i = 0; i < names.size(); i += 2) pairs.emplace_back(names[i], names[i + 1]);
  return pairs;
}

}  // namespace

void writeText(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) userError("{}: cannot be written: {}", path, std::strerror(errno));
}

Progress::~Progress() {
  if (shown_ && isatty(2)) std::fputs("\r\033[K", stderr);
}

void Progress::show(std::string_view stage, size_t done, size_t total) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (now - start_ < 1s || now - last_ < (isatty(2) ? 100ms : 5000ms)) return;
  last_ = now;
  shown_ = true;
  constexpr size_t kWidth = 30;
  const size_t filled = total ? kWidth * done / total : kWidth;
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  const std::string line = fmt::format("{:<12} [{}] {}/{}", stage, bar, done, total);
  std::fprintf(stderr, isatty(2) ? "\r%s" : "%s\n", line.c_str());
}

Graph loadModel(const Options& options) {
  const bool builtin = options.given("--builtin"),
             file = options.given("MODEL") || options.given("FILE");
  if (builtin == file)
    userError("a model: {} found, expected a file or --builtin", builtin ? "both" : "none");
  if (builtin) return builtinModel(options.text("--builtin"));
  const std::string path = options.text(options.given("MODEL") ? "MODEL" : "FILE");
  if (path.ends_with(".tk")) {
    Graph graph = parseGraph(readText(path), path);
    verify(graph);
    return graph;
  }
  if (!path.ends_with(".onnx")) userError("{}: expected a file named .onnx or .tk", path);
  return importOnnx(path);
}

std::map<std::string, int64_t> givenDims(const Options& options) {
  std::map<std::string, int64_t> dims;
  for (const std::string& text : options.texts("--dim")) {
    const size_t at = text.rfind('=');
    char* end = nullptr;
    const int64_t value =
        at == std::string::npos ? 0 : std::strtoll(text.c_str() + at + 1, &end, 10);
    if (at == std::string::npos || at == 0 || end == text.c_str() + at + 1 || *end || value < 0) {
      userError("--dim: '{}' found, expected NAME=N", text);
    }
    dims[text.substr(0, at)] = value;
  }
  return dims;
}

PassOptions passOptions(const Options& options) {
  PassOptions passes;
  passes.numerics = numericsOf(options.text("--numerics"));
  passes.disabled = options.texts("--disable");
  passes.stopAfter = options.text("--stop-after");
  passes.bisect = static_cast<int>(options.integer("--bisect"));
  const std::vector<std::string> printAfter = options.texts("--print-after");
  const std::string dump = options.text("--dump");
  const bool time = options.given("--time-passes");
  if (!dump.empty()) fs::create_directories(dump);
  passes.verifyEach =
      options.given("FILE") || !printAfter.empty() || !dump.empty() || passes.bisect >= 0;
  if (printAfter.empty() && dump.empty() && !time) return passes;  // who looks pays for hashes
  passes.observe = [=, number = 0](std::string_view pass, const Graph& after, bool changed,
                                   double seconds) mutable {
    const bool print = std::any_of(printAfter.begin(), printAfter.end(),
                                   [&](const std::string& p) { return p == "all" || p == pass; });
    if (print)
      std::fprintf(stderr, "# after %s\n%s\n", std::string(pass).c_str(), toText(after).c_str());
    if (time)
      std::fprintf(stderr, "%8.3f ms  %s%s\n", seconds * 1e3, std::string(pass).c_str(),
                   changed ? "" : " (no change)");
    if (!dump.empty())
      writeText(fmt::format("{}/{:02}_{}.tk", dump, number++, pass), toText(after));
  };
  return passes;
}

int threadsOf(const Options& options) {
  const int64_t threads = options.integer("--threads");
  if (threads < 0 || threads > 1024)
    userError("--threads: {} found, expected 1 to 1024, or 0 for all cores", threads);
  return threads ? static_cast<int>(threads) : hardwareThreads();
}

Target targetOf(const Options& options) {
  const std::string name = options.text("--target");
  Target target = name == "interpret" ? hostTarget() : findTarget(name);
  if (options.given("--arch")) target = withArch(target, options.text("--arch"));
  for (const std::string& assignment : options.texts("--set")) setNumber(target, assignment);
  return target;
}

CompileOptions compileOptions(const Options& options, Progress& progress) {
  CompileOptions compile;
  compile.interpret = options.text("--target") == "interpret";
  compile.target = targetOf(options);
  compile.fusion.unfused = options.given("--unfused");
  compile.fusion.numerics = numericsOf(options.text("--numerics"));
  compile.fusion.cut = namePairs(options, "--cut");
  compile.fusion.force = namePairs(options, "--fuse");
  if (options.given("--profile"))
    compile.fusion.profile = std::make_shared<const Profile>(
        readProfile(options.text("--profile"), compile.target.name));
  compile.passes = passOptions(options);
  compile.threads = threadsOf(options);
  compile.file = options.text("MODEL");
  if (options.given("--allow-fallback"))
    compile.fallback = [](const Fallback& f) {
      std::fprintf(stderr, "fallback: node '%s': %s\n", f.node.c_str(), toText(f).c_str());
    };
  if (!options.given("--no-cache"))
    compile.cacheFolder =
        options.given("--cache-dir") ? options.text("--cache-dir") : defaultCacheFolder();
  compile.progress = [&progress](std::string_view stage, size_t done, size_t total) {
    progress.show(stage, done, total);
  };
  return compile;
}

std::vector<Array> readArrays(const std::string& folder, const std::string& stem, size_t count) {
  if (!fs::is_directory(folder))
    userError("{}: expected a folder with {}_<i>.pb or .npy", folder, stem);
  std::vector<Array> arrays;
  for (size_t i = 0; i < count; ++i) {
    const std::string path = fmt::format("{}/{}_{}", folder, stem, i);
    const std::string npy = path + ".npy", pb = path + ".pb";
    if (!fs::exists(npy) && !fs::exists(pb))
      userError("{}: no such file, nor .npy; expected {} of them", pb, count);
    arrays.push_back(readArray(fs::exists(npy) ? npy : pb));
  }
  return arrays;
}

std::vector<Array> newOutputs(const Program& program) {
  std::vector<Array> outputs;
  for (const TensorType& type : program.outputs) outputs.emplace_back(type.dtype, type.extents());
  return outputs;
}

std::vector<const void*> pointersTo(const std::vector<Array>& arrays) {
  std::vector<const void*> pointers;
  for (const Array& array : arrays) pointers.push_back(array.data());
  return pointers;
}

std::vector<void*> writablePointersTo(const std::vector<Array>& arrays) {
  std::vector<void*> pointers;
  for (const Array& array : arrays) pointers.push_back(array.data());
  return pointers;
}

}  // namespace tektite::cli
