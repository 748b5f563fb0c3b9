#include "runtime/launcher.h"

#include <algorithm>
#include <map>

#include "backends/launches.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr const char* kTypes =
#include "runtime/launcher_types.inc"
    ;
constexpr const char* kModel =
#include "runtime/launcher_model.inc"
    ;

/// Rows of the launcher's tables.
class Tables {
 public:
  Tables(const Program& program, const std::vector<std::string>& modules)
      : program_(program), modules_(modules) {
    for (const Slot& slot : program.slots) addRegion(slot);
    for (const Step& step : program.steps) addStep(step);
  }

  std::string weights;

  std::string text() const {
    std::string out;
    const auto table = [&](const char* type, const char* name, const std::string& rows) {
      out += fmt::format("const std::vector<{}> {} = {{\n{}}};\n", type, name, rows);
    };
    table("const char*", "kModules", moduleRows_);
    table("Entry", "kEntries", entryRows_);
    table("Argument", "kArguments", argumentRows_);
    table("Step", "kSteps", stepRows_);
    table("size_t", "kInputBytes", sizes(Slot::Input, program_.inputs.size()));
    table("size_t", "kOutputBytes", sizes(Slot::Output, program_.outputs.size()));
    return out;
  }

 private:
  void addRegion(const Slot& slot) {
    switch (slot.kind) {
      case Slot::Arena: regions_.push_back({"Arena", slot.offset}); break;
      case Slot::Zeroed: regions_.push_back({"Zeroed", slot.offset}); break;
      case Slot::Input: regions_.push_back({fmt::format("Inputs + {}", slot.index), 0}); break;
      case Slot::Output:
        regions_.push_back(
            {fmt::format("Inputs + {}", static_cast<int>(program_.inputs.size()) + slot.index), 0});
        break;
      case Slot::Constant:
      case Slot::Packed: regions_.push_back({"Weights", weightAt(slot)}); break;
    }
  }
  int64_t weightAt(const Slot& slot) {
    const auto [at, isNew] = weightAt_.emplace(slot.data, 0);
    if (!isNew) return at->second;
    TEKTITE_CHECK(slot.data || !slot.bytes, "a constant of {} bytes without values", slot.bytes);
    weights.resize((weights.size() + kDeviceAlign - 1) / kDeviceAlign * kDeviceAlign);
    at->second = static_cast<int64_t>(weights.size());
    if (slot.bytes)
      weights.append(static_cast<const char*>(slot.data), static_cast<size_t>(slot.bytes));
    return at->second;
  }
  std::string sizes(Slot::Kind kind, size_t count) const {
    std::vector<int64_t> bytes(count);
    for (const Slot& slot : program_.slots)
      if (slot.kind == kind) bytes[static_cast<size_t>(slot.index)] = slot.bytes;
    return fmt::format("    {}\n", fmt::join(bytes, ", "));
  }

  void addArgument(const std::string& region, int64_t value) {
    argumentRows_ += fmt::format("    {{{}, {}}},\n", region, value);
    ++arguments_;
  }
  void addSlot(int slot) {
    const Region& r = regions_[static_cast<size_t>(slot)];
    addArgument(r.name, r.offset);
  }
  int entry(int kernel, const Launch& launch) {
    const std::string& module = modules_[static_cast<size_t>(kernel)];
    const auto [m, newModule] = moduleAt_.emplace(module, static_cast<int>(moduleAt_.size()));
    if (newModule) moduleRows_ += fmt::format("    \"{}\",\n", module);
    const auto [e, newEntry] = entryAt_.emplace(launch.entry, static_cast<int>(entryAt_.size()));
    if (newEntry)
      entryRows_ +=
          fmt::format("    {{{}, \"{}\", {}}},\n", m->second, launch.entry, launch.sharedBytes);
    return e->second;
  }
  void addStep(const Step& step) {
    if (step.kind == Step::Copy) {
      const int first = arguments_;
      addSlot(step.slots[1]);
      addSlot(step.slots[0]);
      stepRows_ += fmt::format("    {{kCopy, 0, 0, {}, 2, {}}},\n", first,
                               program_.slots[static_cast<size_t>(step.slots[1])].bytes);
      return;
    }
    const KernelInfo& kernel = program_.kernels[static_cast<size_t>(step.kernel)];
    runLaunches(kernel.artifact, {}, [&](const Launch& l, const LaunchValues& values) {
      const LaunchShape shape = shapeOf(l, values);
      if (!shape.blocks) return;
      const int first = arguments_;
      for (int slot : step.slots) addSlot(slot);
      for (const std::string& name : l.outer) addArgument("Value", valueOf(var(name), values));
      stepRows_ += fmt::format("    {{{}, {}, {}, {}, {}, 0}},\n", entry(step.kernel, l),
                               shape.blocks, shape.threads, first, arguments_ - first);
    });
  }

  struct Region {
    std::string name;
    int64_t offset;
  };
  const Program& program_;
  const std::vector<std::string>& modules_;
  std::vector<Region> regions_;  ///< of the slots
  std::map<const void*, int64_t> weightAt_;
  std::map<std::string, int> moduleAt_, entryAt_;
  std::string moduleRows_, entryRows_, argumentRows_, stepRows_;
  int arguments_ = 0;
};

std::string comment(const Program& program) {
  std::string out = "// Runs the kernels beside it: g++ -std=c++17 THIS -lcuda\n//\n";
  const auto port = [&](const char* kind, const std::string& name, const TensorType& type) {
    std::string line = fmt::format("// {} {}: {}", kind, name, toText(type));
    std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\\'; }, '_');
    out += line + '\n';
  };
  for (size_t i = 0; i < program.inputs.size(); ++i)
    port("input", program.inputNames[i], program.inputs[i]);
  for (size_t i = 0; i < program.outputs.size(); ++i)
    port("output", program.outputNames[i], program.outputs[i]);
  return out;
}

}  // namespace

std::string whyNoLauncher(const Program& program) {
  for (const Step& step : program.steps) {
    const KernelInfo& kernel = program.kernels[static_cast<size_t>(std::max(step.kernel, 0))];
    if (step.kind == Step::Body || (step.kind == Step::Kernel && kernel.artifact.launches.empty()))
      return fmt::format("the host computes {}", kernel.name);
  }
  return "";
}

Launcher cudaLauncher(const Program& program, const std::vector<std::string>& modules,
                      const std::string& weightsFile) {
  Tables tables(program, modules);
  std::string text = comment(program) + kTypes + tables.text();
  text += fmt::format("constexpr size_t kArenaBytes = {}, kZeroedBytes = {};\n", program.arenaBytes,
                      program.zeroedBytes);
  text += fmt::format("constexpr const char* kWeights = \"{}\";\n", weightsFile);
  return {text + kModel, std::move(tables.weights)};
}

}  // namespace tektite
