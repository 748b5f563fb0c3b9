#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>

#include "runtime/device_run.h"
#include "runtime/interpret.h"
#include "runtime/program.h"
#include "runtime/simulated.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kAlign = 64;  // bytes, of all memory here
constexpr int64_t kScratchPad =
    4096;  // between the scratch of threads: no shared line, no shared page

int64_t alignedTo(int64_t bytes, int64_t align) { return (bytes + align - 1) / align * align; }
bool isAligned(const void* p, int64_t align) {
  return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(align) == 0;
}

}  // namespace

struct Session::State {
  /// Steps that a team runs. All there are, made once: a thread that is late may still look at the one that was run before.
  struct Part {
    Session* session;
    size_t first, end;
    bool solo;  // work of one thread
  };
  Team* team = nullptr;
  std::vector<Part> parts;          // each step, then the whole
  std::optional<DeviceRun> device;  // that runs it all; then nothing below is used
  Memory arena, zeroed, scratch;
  int64_t scratchStride = 0;
  std::vector<void*> slots;          // where each slot lies in this run
  std::vector<void*> pointers;       // every step's buffers, one after the other
  std::vector<size_t> firstPointer;  // of each step
  struct Patch {
    size_t pointer;
    int slot;
  };
  std::vector<Patch> patches;  // pointers to buffers of the caller
  std::vector<Memory> staged;  // by slot: for buffers of the caller that aren't aligned
  std::vector<std::pair<void*, int>> unstage;
  std::exception_ptr failed;  // of a body, which only thread 0 runs: the others are waiting for it
};

Session::Session(std::shared_ptr<const Program> program, Team* team)
    : program_(std::move(program)), state_(new State) {
  State& s = *state_;
  s.team = team;
  if (program_->device) {
    s.device.emplace(program_);
    return;
  }
  const int threads = team ? team->threads() : 1;
  s.arena = Memory(static_cast<size_t>(program_->arenaBytes));
  s.zeroed = Memory(static_cast<size_t>(program_->zeroedBytes));
  std::memset(s.zeroed.data(), 0, s.zeroed.size());
  s.scratchStride =
      alignedTo(program_->scratchBytes, kAlign) + (program_->scratchBytes ? kScratchPad : 0);
  s.scratch = Memory(static_cast<size_t>(s.scratchStride * threads));
  s.slots.resize(program_->slots.size());
  s.staged.resize(program_->slots.size());
  for (size_t i = 0; i < program_->slots.size(); ++i) {
    const Slot& slot = program_->slots[i];
    switch (slot.kind) {
      case Slot::Arena: s.slots[i] = s.arena.data() + slot.offset; break;
      case Slot::Zeroed: s.slots[i] = s.zeroed.data() + slot.offset; break;
      case Slot::Constant:
      case Slot::Packed: s.slots[i] = const_cast<void*>(slot.data); break;
      case Slot::Input:
      case Slot::Output: break;
    }
  }
  for (const Step& step : program_->steps) {
    s.firstPointer.push_back(s.pointers.size());
    for (int slot : step.slots) {
      const Slot::Kind kind = program_->slots[slot].kind;
      if (kind == Slot::Input || kind == Slot::Output)
        s.patches.push_back({s.pointers.size(), slot});
      s.pointers.push_back(s.slots[slot]);
    }
  }
  const std::vector<Step>& steps = program_->steps;
  const auto solo = [](const Step& step) { return step.solo; };
  for (size_t i = 0; i < steps.size(); ++i) s.parts.push_back({this, i, i + 1, solo(steps[i])});
  s.parts.push_back({this, 0, steps.size(), std::ranges::all_of(steps, solo)});
}

Session::~Session() {
  if (state_->team) state_->team->settle();
}

void* Session::data(int slot) const {
  return state_->device ? state_->device->data(slot) : state_->slots[slot];
}

int64_t Session::bytes() const {
  if (state_->device) return state_->device->bytes();
  return static_cast<int64_t>(state_->arena.size() + state_->zeroed.size() +
                              state_->scratch.size());
}

/// Puts the caller's buffers into the pointer table; copies of them where they aren't aligned.
void Session::bind(const void* const* inputs, void* const* outputs) {
  State& s = *state_;
  s.unstage.clear();
  for (size_t i = 0; i < program_->slots.size(); ++i) {
    const Slot& slot = program_->slots[i];
    if (slot.kind != Slot::Input && slot.kind != Slot::Output) continue;
    const bool input = slot.kind == Slot::Input;
    void* buffer = input ? const_cast<void*>(inputs[slot.index]) : outputs[slot.index];
    if (!isAligned(buffer, slot.align)) {
      if (!s.staged[i].data()) s.staged[i] = Memory(static_cast<size_t>(slot.bytes));
      if (input)
        std::memcpy(s.staged[i].data(), buffer, static_cast<size_t>(slot.bytes));
      else
        s.unstage.emplace_back(buffer, static_cast<int>(i));
      buffer = s.staged[i].data();
    }
    s.slots[i] = buffer;
  }
  for (const State::Patch& patch : s.patches) s.pointers[patch.pointer] = s.slots[patch.slot];
}

void Session::execute(int number, Hand& hand) {
  State& s = *state_;
  const Step& step = program_->steps[number];
  void* const* buffers = s.pointers.data() + s.firstPointer[number];
  switch (step.kind) {
    case Step::Kernel: {
      const KernelInfo& kernel = program_->kernels[step.kernel];
      if (!kernel.function) {
        std::vector<int64_t> sizes;
        for (int slot : step.slots) sizes.push_back(program_->slots[slot].bytes);
        return interpretKernel(kernel.text, buffers, sizes);
      }
      kernel.function(buffers, nullptr, s.scratch.data() + s.scratchStride * hand.thread(), &hand);
      return;
    }
    case Step::Copy:
      std::memcpy(buffers[1], buffers[0],
                  static_cast<size_t>(program_->slots[step.slots[1]].bytes));
      return;
    case Step::Body:
      try {
        if (!s.failed) interpretNode(program_->graph, step.node, buffers);
      } catch (...) {
        s.failed = std::current_exception();
      }
      return;
  }
}

void Session::runSteps(size_t first, size_t end, Hand& hand) {
  for (size_t i = first; i < end; ++i) {
    const Step& step = program_->steps[i];
    if (step.barrier) hand.barrier(&hand);
    if (step.solo)
      hand.once([&] {
        Hand alone;
        execute(static_cast<int>(i), alone);
      });
    else
      execute(static_cast<int>(i), hand);
  }
}

void Session::runShared(size_t number) {
  State::Part& part = state_->parts[number];
  Hand alone;
  if (!state_->team || part.solo) return runSteps(part.first, part.end, alone);
  state_->team->share(
      [](void* context, Hand& hand) {
        const State::Part& p = *static_cast<State::Part*>(context);
        p.session->runSteps(p.first, p.end, hand);
      },
      &part);
}

void Session::run(const void* const* inputs, void* const* outputs) {
  if (state_->device) return state_->device->run(inputs, outputs);
  bind(inputs, outputs);
  state_->failed = nullptr;
  runShared(program_->steps.size());
  if (state_->failed) std::rethrow_exception(state_->failed);
  for (const auto& [buffer, slot] : state_->unstage)
    std::memcpy(buffer, state_->slots[slot], state_->staged[slot].size());
}

void Session::runTimed(const void* const* inputs, void* const* outputs,
                       std::vector<double>& seconds, const std::function<void(int step)>& after) {
  if (state_->device) return state_->device->runTimed(inputs, outputs, seconds, after);
  bind(inputs, outputs);
  state_->failed = nullptr;
  seconds.resize(program_->steps.size());
  for (size_t i = 0; i < program_->steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    runShared(i);
    seconds[i] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (state_->failed) std::rethrow_exception(state_->failed);
    if (after) after(static_cast<int>(i));
  }
  for (const auto& [buffer, slot] : state_->unstage)
    std::memcpy(buffer, state_->slots[slot], state_->staged[slot].size());
}

}  // namespace tektite
