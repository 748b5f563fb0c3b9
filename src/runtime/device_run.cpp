#include "runtime/device_run.h"

#include <chrono>
#include <map>

#include "runtime/interpret.h"
#include "support/seconds.h"

namespace tektite {

DeviceRun::DeviceRun(std::shared_ptr<const Program> program)
    : program_(std::move(program)), device_(*program_->device) {
  const auto allocate = [&](int64_t bytes) {
    bytes_ += bytes;
    return owned_.emplace_back(device_.alloc(std::max<int64_t>(bytes, 1)));
  };
  void* arena = allocate(program_->arenaBytes);
  void* zeroed = allocate(program_->zeroedBytes);
  std::map<const void*, void*> constants;
  for (const Slot& slot : program_->slots) {
    switch (slot.kind) {
      case Slot::Arena: slots_.push_back({arena, slot.offset, slot.bytes}); break;
      case Slot::Zeroed: slots_.push_back({zeroed, slot.offset, slot.bytes}); break;
      case Slot::Input:
      case Slot::Output: slots_.push_back({allocate(slot.bytes), 0, slot.bytes}); break;
      case Slot::Constant:
      case Slot::Packed: {
        void*& memory = constants[slot.data];
        const bool known = memory;
        if (!known) memory = allocate(slot.bytes);
        slots_.push_back({memory, 0, slot.bytes});
        if (!known && slot.bytes) device_.copyIn(slots_.back(), slot.data);
      }
    }
  }
  copies_.resize(slots_.size());
}

DeviceRun::~DeviceRun() {
  for (void* memory : owned_) device_.release(memory);
}

void DeviceRun::copyIn(const void* const* inputs) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = program_->slots[i];
    if (slot.kind == Slot::Input && slot.bytes) device_.copyIn(slots_[i], inputs[slot.index]);
  }
}

void DeviceRun::copyOut(void* const* outputs) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = program_->slots[i];
    if (slot.kind == Slot::Output && slot.bytes) device_.copyOut(outputs[slot.index], slots_[i]);
  }
}

void* DeviceRun::data(int slot) {
  const Slot& s = program_->slots[slot];
  if (s.kind == Slot::Constant || s.kind == Slot::Packed) return const_cast<void*>(s.data);
  Memory& copy = copies_[slot];
  if (static_cast<int64_t>(copy.size()) < s.bytes) copy = Memory(static_cast<size_t>(s.bytes));
  if (s.bytes) device_.copyOut(copy.data(), slots_[slot]);
  return copy.data();
}

void DeviceRun::onHost(const Step& step) {
  std::vector<void*> buffers;
  for (int slot : step.slots) buffers.push_back(data(slot));
  interpretNode(program_->graph, step.node, buffers.data());
  const size_t operands = program_->graph.nodes[step.node].operands.size();
  for (size_t i = operands; i < step.slots.size(); ++i) {
    const DeviceBuffer& to = slots_[step.slots[i]];
    if (to.bytes) device_.copyIn(to, buffers[i]);
  }
}

void DeviceRun::execute(const Step& step) {
  switch (step.kind) {
    case Step::Kernel: {
      std::vector<DeviceBuffer> buffers;
      for (int slot : step.slots) buffers.push_back(slots_[slot]);
      return device_.launch(program_->kernels[step.kernel].artifact, buffers, {});
    }
    case Step::Copy: {
      const DeviceBuffer& to = slots_[step.slots[1]];
      if (to.bytes) device_.copy(to, slots_[step.slots[0]]);
      return;
    }
    case Step::Body: return onHost(step);
  }
}

void DeviceRun::run(const void* const* inputs, void* const* outputs) {
  copyIn(inputs);
  for (const Step& step : program_->steps) execute(step);
  copyOut(outputs);
}

void DeviceRun::runTimed(const void* const* inputs, void* const* outputs,
                         std::vector<double>& seconds, const std::function<void(int step)>& after) {
  copyIn(inputs);
  seconds.resize(program_->steps.size());
  device_.elapsed();
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    execute(program_->steps[i]);
    const double onDevice = device_.elapsed();
    seconds[i] += program_->steps[i].kind == Step::Kernel ? onDevice : secondsSince(start);
    if (after) after(static_cast<int>(i));
  }
  copyOut(outputs);
}

}  // namespace tektite
