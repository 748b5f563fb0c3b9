#include "backends/cuda/launcher.h"

#include <algorithm>

#include "backends/device.h"
#include "backends/launches.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr const char* kTypes =
#include "backends/cuda/launcher_types.inc"
    ;
constexpr const char* kModel =
#include "backends/cuda/launcher_model.inc"
    ;

std::string comment(const LaunchList& list) {
  std::string out = "// Runs the kernels beside it: g++ -std=c++17 THIS -lcuda\n//\n";
  const auto port = [&](const char* kind, const std::string& name, const TensorType& type) {
    std::string line = fmt::format("// {} {}: {}", kind, name, toText(type));
    std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n' || c == '\\'; }, '_');
    out += line + '\n';
  };
  for (size_t i = 0; i < list.inputs.size(); ++i) port("input", list.inputNames[i], list.inputs[i]);
  for (size_t i = 0; i < list.outputs.size(); ++i)
    port("output", list.outputNames[i], list.outputs[i]);
  return out;
}

}  // namespace

std::string whyNoLauncher(const LaunchList& list, const std::vector<WrittenKernel>& kernels) {
  for (const Step& step : list.steps) {
    if (step.kind == Step::Copy) continue;
    const WrittenKernel& kernel = kernels[static_cast<size_t>(step.kernel)];
    if (step.kind == Step::Body || kernel.artifact->launches.empty())
      return fmt::format("the host computes {}", kernel.name);
  }
  return "";
}

Launcher::Launcher(const LaunchList& list, const std::vector<WrittenKernel>& kernels)
    : list_(list), kernels_(kernels) {
  for (const Slot& slot : list.slots) addRegion(slot);
  for (const Step& step : list.steps) addStep(step);
}

std::string Launcher::text(const std::string& weightsFile) const {
  std::string out = comment(list_) + kTypes;
  const auto table = [&](const char* type, const char* name, const std::string& rows) {
    out += fmt::format("const std::vector<{}> {} = {{\n{}}};\n", type, name, rows);
  };
  table("const char*", "kModules", moduleRows_);
  table("Entry", "kEntries", entryRows_);
  table("Argument", "kArguments", argumentRows_);
  table("Step", "kSteps", stepRows_);
  table("size_t", "kInputBytes", sizes(Slot::Input, list_.inputs.size()));
  table("size_t", "kOutputBytes", sizes(Slot::Output, list_.outputs.size()));
  out += fmt::format("constexpr size_t kArenaBytes = {}, kZeroedBytes = {};\n", list_.arenaBytes,
                     list_.zeroedBytes);
  out += fmt::format("constexpr const char* kWeights = \"{}\";\n", weightsFile);
  return out + kModel;
}

void Launcher::addRegion(const Slot& slot) {
  switch (slot.kind) {
    case Slot::Arena: regions_.push_back({"Arena", slot.offset}); break;
    case Slot::Zeroed: regions_.push_back({"Zeroed", slot.offset}); break;
    case Slot::Input: regions_.push_back({fmt::format("Inputs + {}", slot.index), 0}); break;
    case Slot::Output:
      regions_.push_back(
          {fmt::format("Inputs + {}", static_cast<int>(list_.inputs.size()) + slot.index), 0});
      break;
    case Slot::Constant:
    case Slot::Packed: regions_.push_back({"Weights", weightAt(slot)}); break;
  }
}
int64_t Launcher::weightAt(const Slot& slot) {
  if (!slot.bytes) return 0;
  TEKTITE_CHECK(slot.data, "a constant of {} bytes without values", slot.bytes);
  const auto [at, isNew] = weightAt_.emplace(slot.data, 0);
  if (!isNew) return at->second;
  weights_.resize((weights_.size() + kDeviceAlign - 1) / kDeviceAlign * kDeviceAlign);
  at->second = static_cast<int64_t>(weights_.size());
  weights_.append(static_cast<const char*>(slot.data), static_cast<size_t>(slot.bytes));
  return at->second;
}
std::string Launcher::sizes(Slot::Kind kind, size_t count) const {
  std::vector<int64_t> bytes(count);
  for (const Slot& slot : list_.slots)
    if (slot.kind == kind) bytes[static_cast<size_t>(slot.index)] = slot.bytes;
  return fmt::format("    {}\n", fmt::join(bytes, ", "));
}

void Launcher::addArgument(const std::string& region, int64_t value) {
  argumentRows_ += fmt::format("    {{{}, {}}},\n", region, value);
  ++arguments_;
}
void Launcher::addSlot(int slot) {
  const Region& r = regions_[static_cast<size_t>(slot)];
  addArgument(r.name, r.offset);
}
int Launcher::entry(int kernel, const Launch& launch) {
  const std::string& module = kernels_[static_cast<size_t>(kernel)].file;
  const auto [m, newModule] = moduleAt_.emplace(module, static_cast<int>(moduleAt_.size()));
  if (newModule) moduleRows_ += fmt::format("    \"{}\",\n", module);
  const auto [e, newEntry] = entryAt_.emplace(launch.entry, static_cast<int>(entryAt_.size()));
  if (newEntry)
    entryRows_ +=
        fmt::format("    {{{}, \"{}\", {}}},\n", m->second, launch.entry, launch.sharedBytes);
  return e->second;
}
void Launcher::addStep(const Step& step) {
  if (step.kind == Step::Copy) {
    const int first = arguments_;
    addSlot(step.slots[1]);
    addSlot(step.slots[0]);
    stepRows_ += fmt::format("    {{kCopy, 0, 0, {}, 2, {}}},\n", first,
                             list_.slots[static_cast<size_t>(step.slots[1])].bytes);
    return;
  }
  const WrittenKernel& kernel = kernels_[static_cast<size_t>(step.kernel)];
  runLaunches(*kernel.artifact, {}, [&](const Launch& l, const LaunchValues& values) {
    const LaunchShape shape = shapeOf(l, values);
    if (!shape.blocks) return;
    const int first = arguments_;
    for (int slot : step.slots) addSlot(slot);
    for (const std::string& name : l.outer) addArgument("Value", valueOf(var(name), values));
    stepRows_ += fmt::format("    {{{}, {}, {}, {}, {}, 0}},\n", entry(step.kernel, l),
                             shape.blocks, shape.threads, first, arguments_ - first);
  });
}

}  // namespace tektite
