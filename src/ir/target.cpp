#include "ir/target.h"

#include <stdexcept>

// The TOML parser asserts some of what it reads; here that is an error like any other.
[[noreturn]] static void refuseToml(const char* expected) {
  throw std::runtime_error(std::string("not a TOML file: expected ") + expected);
}
#define TOML_ASSERT(condition) ((condition) ? void() : refuseToml(#condition))
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ir/target_texts.h"
#include "support/check.h"

namespace tektite {
namespace {

/// The fields of a target's text, in order: one list for printing and reading.
template <class T, class F>
void fields(T& t, F&& field) {
  field("name", t.name);
  field("kind", t.kind);
  field("printer", t.printer);
  field("arch", t.arch);
  field("cores", t.cores);
  field("vector_bytes", t.vectorBytes);
  field("vector_registers", t.vectorRegisters);
  field("fma", t.fma);
  field("masked_moves", t.maskedMoves);
  field("hertz", t.hertz);
  field("fma_per_cycle", t.fmaPerCycle);
  field("slots_per_cycle", t.slotsPerCycle);
  field("loads_per_cycle", t.loadsPerCycle);
  field("fma_latency", t.fmaLatency);
  field("reorder_window", t.reorderWindow);
  field("launch_seconds", t.launchSeconds);
  field("grid_sync_seconds", t.gridSyncSeconds);
  field("grid_sync", t.gridSync);
  field("queues", t.queues);
  field("warp", t.warp);
  field("scratch", t.scratch);
  field("operands", t.operands);
  field("weights", t.weights);
  field("vector_start_cycles", t.vectorStartCycles);
  field("latency_seconds", t.latencySeconds);
  field("triple", t.triple);
  field("cpu", t.cpu);
  field("features", t.features);
}
template <class L, class F>
void levelFields(L& l, F&& field) {
  field("name", l.name);
  field("bytes", l.bytes);
  field("bytes_per_second", l.bytesPerSecond);
  field("shared_bytes_per_second", l.sharedBytesPerSecond);
  field("align", l.align);
}
template <class P, class F>
void pathFields(P& p, F&& field) {
  field("from", p.from);
  field("to", p.to);
  field("engine", p.engine);
  field("bytes_per_second", p.bytesPerSecond);
  field("start_seconds", p.startSeconds);
  field("half_bytes", p.halfBytes);
  field("channels", p.channels);
  field("products_at_once", p.productsAtOnce);
}
template <class M, class F>
void matrixFields(M& m, F&& field) {
  field("engine", m.engine);
  field("left", m.left);
  field("right", m.right);
  field("result", m.result);
  field("rows", m.rows);
  field("columns", m.columns);
  field("depth_bytes", m.depthBytes);
  field("hertz", m.hertz);
  field("start_cycles", m.startCycles);
  field("wide", m.wide);
}

struct Writer {
  std::string out;
  void operator()(const char* key, const std::string& v) { line(key, '"' + v + '"'); }
  void operator()(const char* key, bool v) { line(key, v ? "true" : "false"); }
  void operator()(const char* key, int v) { line(key, std::to_string(v)); }
  void operator()(const char* key, int64_t v) { line(key, std::to_string(v)); }
  void operator()(const char* key, double v) {
    std::string text = fmt::format("{}", v);
    if (text.find_first_of(".ein") == std::string::npos) text += ".0";
    line(key, text);
  }
  void operator()(const char* key, const std::vector<std::string>& v) {
    std::string list;
    for (const std::string& s : v) list += (list.empty() ? "\"" : ", \"") + s + '"';
    line(key, "[" + list + "]");
  }
  void line(const char* key, const std::string& v) { out += fmt::format("{} = {}\n", key, v); }
};

/// Takes the keys of a table; what is left over is unknown.
struct Reader {
  const toml::table& table;
  std::string file;
  std::vector<std::string> known;

  template <class T>
  void read(const char* key, T& v, const char* expected) {
    known.push_back(key);
    const toml::node* n = table.get(key);
    if (!n) return;
    const auto value = n->value<T>();
    if (!value)
      userError("{}:{}: {}: found another type, expected {}", file, n->source().begin.line, key,
                expected);
    v = *value;
  }
  void operator()(const char* key, std::string& v) { read(key, v, "a string"); }
  void operator()(const char* key, bool& v) { read(key, v, "true or false"); }
  void operator()(const char* key, int& v) { read(key, v, "an integer"); }
  void operator()(const char* key, int64_t& v) { read(key, v, "an integer"); }
  void operator()(const char* key, double& v) { read(key, v, "a number"); }
  void operator()(const char* key, std::vector<std::string>& v) {
    known.push_back(key);
    const toml::array* list = table[key].as_array();
    if (!list) return;
    v.clear();
    for (const toml::node& n : *list) v.push_back(n.value_or(std::string()));
  }
  void refuseOthers() const {
    for (const auto& [key, node] : table)
      if (std::find(known.begin(), known.end(), key.str()) == known.end())
        userError("{}:{}: unknown key '{}'", file, node.source().begin.line, key.str());
  }
};

/// Reads an array of tables, if the text has it: it replaces what the base had.
template <class T, class F>
void readTables(const toml::table& table, const char* key, const std::string& file,
                std::vector<T>& out, F&& fieldsOf) {
  const toml::array* list = table[key].as_array();
  if (!list) return;
  out.clear();
  for (const toml::node& n : *list) {
    if (!n.is_table())
      userError("{}:{}: {}: found another type, expected tables", file, n.source().begin.line, key);
    Reader one{*n.as_table(), file, {}};
    fieldsOf(out.emplace_back(), one);
    one.refuseOthers();
  }
}

void checkExplicit(const Target& t, const std::string& file) {
  const auto known = [&](const char* what, const std::string& level) {
    if (!level.empty() && !t.level(level))
      userError("{}: {}: found level '{}', which the target hasn't", file, what, level);
  };
  known("scratch", t.scratch);
  known("operands", t.operands);
  known("weights", t.weights);
  for (const std::string* l : {&t.matrix.left, &t.matrix.right, &t.matrix.result})
    known("matrix", *l);
  for (const MemoryPath& p : t.paths) known("paths", p.from), known("paths", p.to);
  if (!t.hasExplicitMemory()) return;
  if (!t.path("main", t.scratch) || !t.path(t.scratch, "main"))
    userError("{}: expected paths from main to {} and back", file, t.scratch);
}

Target targetFrom(const toml::table& table, const std::string& file) {
  Target t;
  t.name = file;
  t.kind = "cpu";
  Reader reader{table, file, {"base", "levels", "paths", "matrix"}};
  if (const auto base = table["base"].value<std::string>()) t = findTarget(*base);
  fields(t, reader);
  reader.refuseOthers();
  if (t.kind == "cpu" && t.printer.empty()) t.printer = "llvm";
  readTables(table, "levels", file, t.levels, [](Level& l, Reader& r) { levelFields(l, r); });
  readTables(table, "paths", file, t.paths, [](MemoryPath& p, Reader& r) { pathFields(p, r); });
  if (const toml::table* unit = table["matrix"].as_table()) {
    Reader matrix{*unit, file, {}};
    matrixFields(t.matrix, matrix);
    matrix.refuseOthers();
  }
  if (t.levels.size() < 2)
    userError("{}: found {} levels, expected two or more, the last of them main", file,
              t.levels.size());
  checkExplicit(t, file);
  if (t.hasExplicitMemory() && t.printer.empty()) t.printer = "npu";
  return t;
}

Target readTarget(const std::string& file) {
  toml::table table;
  try {
    table = toml::parse_file(file);
  } catch (const toml::parse_error& e) {
    userError("{}:{}: {}", file, e.source().begin.line, e.description());
  } catch (const std::exception& e) {
    userError("{}: {}", file, e.what());
  }
  return targetFrom(table, file);
}

Target cpu(std::string name, int vectorBytes, int registers, std::string llvmCpu) {
  Target t;
  t.name = std::move(name);
  t.kind = "cpu";
  t.printer = "llvm";
  t.cores = 4;
  t.vectorBytes = vectorBytes;
  t.vectorRegisters = registers;
  t.fma = vectorBytes > 16;
  t.maskedMoves = vectorBytes == 64;
  t.triple = "x86_64-pc-linux-gnu";
  t.cpu = std::move(llvmCpu);
  const double h = t.hertz;
  t.levels = {{"reg", int64_t{vectorBytes} * registers, 0, 0},
              {"l1", 32 << 10, 2 * vectorBytes * h, 0},
              {"l2", 512 << 10, 32 * h, 0},
              {"l3", 16 << 20, 16 * h, 64 * h},
              {"main", 0, 20e9, 80e9}};
  return t;
}

Target withFeatures(Target t, std::string features) {
  t.features = std::move(features);
  return t;
}

Target testAvx2() {
  Target t = cpu("test:avx2", 32, 16, "x86-64-v3");
  t.cores = 1;
  t.levels.erase(t.levels.begin() + 3);  // l2 is the last
  t.levels.back().sharedBytesPerSecond = 0;
  return t;
}

/// A data-centre GPU of 108 multiprocessors: published numbers.
Target gpu(std::string name, int64_t sharedBytes) {
  Target t;
  t.name = std::move(name);
  t.kind = "gpu";
  t.cores = 108;
  t.warp = 32;
  t.vectorBytes = 128;  // a warp of 4-byte lanes
  t.vectorRegisters = 255;
  t.maskedMoves = true;
  t.hertz = 1.41e9;
  t.fmaPerCycle = 2;  // 64 lanes: 108 * 64 * 2 * 1.41e9 = 19.5 TFLOP/s
  t.slotsPerCycle = 4;
  t.loadsPerCycle = 1;
  t.launchSeconds = 4e-6;
  t.gridSyncSeconds = 2e-6;
  t.queues = {"cp"};
  t.levels = {{"reg", 1020, 0, 0},
              {"shared", sharedBytes, 128 * t.hertz, 0},
              {"l2", 40 << 20, 0, 4e12},
              {"main", 0, 0, 1.5e12}};
  return t;
}

/// What published numbers tell apart of an architecture.
struct GpuNumbers {
  std::string_view arch;
  int cores;
  double hertz;
  double warpsPerCycle;  ///< FMAs of a multiprocessor
  int64_t sharedBytes;   ///< that one block may have
  int64_t l2Bytes;
  double l2BytesPerSecond, bytesPerSecond;
};
constexpr GpuNumbers gpus[] = {
    {"sm_80", 108, 1.41e9, 2, 163 << 10, 40 << 20, 4e12, 1.555e12},   // A100, 40 GB
    {"sm_86", 82, 1.695e9, 4, 99 << 10, 6 << 20, 2e12, 9.36e11},      // RTX 3090
    {"sm_89", 128, 2.52e9, 4, 99 << 10, 72 << 20, 5e12, 1.008e12},    // RTX 4090
    {"sm_90", 132, 1.83e9, 4, 227 << 10, 50 << 20, 5.5e12, 3.35e12},  // H100, SXM
};

Target cuda(const GpuNumbers& n) {
  Target t = gpu(fmt::format("cuda:{}", n.arch), n.sharedBytes);
  t.printer = "cuda";
  t.arch = n.arch;
  t.cores = n.cores;
  t.hertz = n.hertz;
  t.fmaPerCycle = n.warpsPerCycle;
  t.levels[1].bytesPerSecond = 128 * n.hertz;
  t.levels[2].bytes = n.l2Bytes;
  t.levels[2].sharedBytesPerSecond = n.l2BytesPerSecond;
  t.levels[3].sharedBytesPerSecond = n.bytesPerSecond;
  return t;
}

/// Any OpenCL device: what all of them have.
Target opencl() {
  Target t = gpu("opencl", 32 << 10);
  t.printer = "opencl";
  t.queues.clear();  // copies are the work-items' own
  return t;
}

/// The modelled NPU: explicit memories, a matrix unit, an engine each for loading, feeding, multiplying and storing.
Target npu(std::string name) {
  Target t;
  t.name = std::move(name);
  t.kind = "npu";
  t.cores = 24;
  t.vectorBytes = 256;
  t.vectorRegisters = 32;
  t.maskedMoves = true;
  t.hertz = 1.8e9;
  t.fmaPerCycle = 1;
  t.slotsPerCycle = 1;
  t.loadsPerCycle = 1;
  t.launchSeconds = 5e-6;
  t.gridSyncSeconds = 2e-6;
  t.queues = {"mte2", "mte1", "cube", "fix"};
  t.levels = {{"reg", 8 << 10, 0, 0},      {"l0a", 64 << 10, 4e11, 0}, {"l0b", 64 << 10, 2e11, 0},
              {"l0c", 128 << 10, 2e11, 0}, {"ub", 192 << 10, 2e11, 0}, {"l1", 512 << 10, 2e11, 0},
              {"main", 0, 0, 1.2e12}};
  return t;
}

constexpr std::pair<std::string_view, Target (*)()> presets[] = {
    {"cpu", [] { return hostTarget(); }},
    {"cpu:avx2", [] { return cpu("cpu:avx2", 32, 16, "x86-64-v3"); }},
    {"cpu:avx2-vnni",
     [] { return withFeatures(cpu("cpu:avx2-vnni", 32, 16, "x86-64-v3"), "+avxvnni"); }},
    {"cpu:avx512", [] { return cpu("cpu:avx512", 64, 32, "x86-64-v4"); }},
    {"cpu:avx512-vnni",
     [] { return withFeatures(cpu("cpu:avx512-vnni", 64, 32, "x86-64-v4"), "+avx512vnni"); }},
    {"cpu:x86-64", [] { return cpu("cpu:x86-64", 16, 16, "x86-64"); }},
    {"cuda", [] { return cuda(gpus[0]); }},
    {"cuda:sm_80", [] { return cuda(gpus[0]); }},
    {"cuda:sm_86", [] { return cuda(gpus[1]); }},
    {"cuda:sm_89", [] { return cuda(gpus[2]); }},
    {"cuda:sm_90", [] { return cuda(gpus[3]); }},
    {"gpu-class", [] { return gpu("gpu-class", 164 << 10); }},
    {"host", [] { return hostTarget(); }},
    {"npu-class", [] { return npu("npu-class"); }},
    {"opencl", [] { return opencl(); }},
    {"test:avx2", [] { return testAvx2(); }},
    {"test:npu", [] { return npu("test:npu"); }},
    {"test:sm_80", [] { return gpu("test:sm_80", 48 << 10); }},
};

/// Takes the value of one key, and tells which keys there are.
struct Setter {
  std::string key, value;
  bool found = false;
  std::string known = {};

  void operator()(const char* name, std::string& v) {
    if (matches(name)) v = value;
  }
  void operator()(const char* name, bool& v) { number(name, v, "true or false"); }
  void operator()(const char* name, int& v) { number(name, v, "an integer"); }
  void operator()(const char* name, int64_t& v) { number(name, v, "an integer"); }
  void operator()(const char* name, double& v) { number(name, v, "a number"); }
  void operator()(const char* name, std::vector<std::string>& v) {
    if (!matches(name)) return;
    v.clear();
    std::stringstream list(value);
    for (std::string one; std::getline(list, one, ' ');) v.push_back(one);
  }

 private:
  bool matches(const char* name) {
    known += (known.empty() ? "" : ", ") + std::string(name);
    if (key != name) return false;
    return found = true;
  }
  template <class T>
  void number(const char* name, T& v, const char* expected) {
    if (!matches(name)) return;
    std::optional<T> parsed;
    try {
      parsed = toml::parse("v = " + value)["v"].value<T>();
    } catch (const std::exception&) {
    }
    if (!parsed) userError("--set: {}: '{}' found, expected {}", key, value, expected);
    v = *parsed;
  }
};

/// The level whose use is the program's affair.
std::string scratchLevel(const Target& t) {
  if (t.hasExplicitMemory()) return t.scratch;
  return t.level("shared") ? "shared" : t.last().name;
}

std::string levelNames(const Target& t) {
  std::string names;
  for (const Level& l : t.levels) names += (names.empty() ? "" : ", ") + l.name;
  return names;
}

}  // namespace

void setNumber(Target& t, const std::string& assignment) {
  const size_t equal = assignment.find('=');
  if (equal == std::string::npos || equal == 0)
    userError("--set: '{}' found, expected NAME=VALUE", assignment);
  std::string key = assignment.substr(0, equal);
  const std::string value = assignment.substr(equal + 1);
  if (key == "scratch_bytes") key = scratchLevel(t) + ".bytes";
  const size_t dot = key.find('.');
  Setter setter{dot == std::string::npos ? key : key.substr(dot + 1), value};
  if (dot == std::string::npos) {
    fields(t, setter);
    if (!setter.found)
      userError("--set: '{}' found, expected scratch_bytes, {}, or LEVEL.NAME of the levels {}",
                key, setter.known, levelNames(t));
    return;
  }
  const auto level = std::find_if(t.levels.begin(), t.levels.end(),
                                  [&](const Level& l) { return l.name == key.substr(0, dot); });
  if (level == t.levels.end())
    userError("--set: level '{}' found, expected one of {}", key.substr(0, dot), levelNames(t));
  levelFields(*level, setter);
  if (!setter.found)
    userError("--set: '{}' found, expected {}.{{{}}}", key, level->name, setter.known);
}

Target withArch(const Target& t, const std::string& arch) {
  if (t.printer != "cuda") userError("--arch: target {} has none", t.name);
  std::string known;
  for (const GpuNumbers& n : gpus) {
    if (n.arch == arch) return cuda(n);
    known += (known.empty() ? "" : ", ") + std::string(n.arch);
  }
  userError("--arch: '{}' found, expected one of {}", arch, known);
}

const Level* Target::level(const std::string& name) const {
  const std::string& space = name == "frag" ? "reg" : name;  // tiles of registers
  for (const Level& l : levels)
    if (l.name == space) return &l;
  return nullptr;
}

const MemoryPath* Target::path(const std::string& from, const std::string& to) const {
  for (const MemoryPath& p : paths)
    if (p.from == from && p.to == to) return &p;
  return nullptr;
}

std::string Target::toText() const {
  Writer writer;
  fields(*this, writer);
  for (const Level& l : levels) {
    writer.out += "[[levels]]\n";
    levelFields(l, writer);
  }
  for (const MemoryPath& p : paths) {
    writer.out += "[[paths]]\n";
    pathFields(p, writer);
  }
  if (!matrix.engine.empty()) {
    writer.out += "[matrix]\n";
    matrixFields(matrix, writer);
  }
  return writer.out;
}

Target findTarget(const std::string& nameOrFile) {
  std::string known;
  for (const auto& [name, make] : presets) {
    if (name == nameOrFile) return make();
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  for (const auto& [name, text] : targetTexts()) {
    if (name == nameOrFile) return targetFrom(toml::parse(text), std::string(name));
    known += ", " + std::string(name);
  }
  if (!std::ifstream(nameOrFile))
    userError("target: found '{}', expected a file or one of {}", nameOrFile, known);
  return readTarget(nameOrFile);
}

}  // namespace tektite
