#include "runtime/compile.h"

#include <chrono>
#include <limits>

#include "ir/bytes.h"
#include "ir/dot.h"
#include "runtime/fallback.h"
#include "runtime/kernels.h"
#include "runtime/pack.h"
#include "support/check.h"
#include "support/memory_plan.h"
#include "support/overloaded.h"
#include "support/parallel.h"
#include "support/seconds.h"

namespace tektite {
namespace {

/// Below this estimate one thread is done before the others have heard of it: a barrier each way (team.h) costs about as much.
constexpr double kSoloSeconds = 1e-6;

enum class Role : uint8_t {
  Data,
  Group,
  Host,
  Unsupported
};  // Host: control flow and routines (runtime/interpret.h)

Role roleOf(const Node& node) {
  return std::visit(
      overloaded{[](const Input&) { return Role::Data; }, [](const Const&) { return Role::Data; },
                 [](const Group&) { return Role::Group; },
                 [](const Map&) { return Role::Unsupported; },
                 [](const Reduce&) { return Role::Unsupported; },
                 [](const Contract&) { return Role::Unsupported; },
                 [](const View&) { return Role::Unsupported; },
                 [](const Gather&) { return Role::Unsupported; },
                 [](const Concat&) { return Role::Unsupported; },
                 [](const Update&) { return Role::Unsupported; },
                 [](const Branch&) { return Role::Host; }, [](const Loop&) { return Role::Host; },
                 [](const Scan&) { return Role::Host; }, [](const Call&) { return Role::Host; }},
      node.kind);
}

/// What runs the target's kernels; null: this process. UserError where the machine has no such device.
std::shared_ptr<Device> deviceOf(const CompileOptions& options) {
  const Backend* backend = backendOf(options.target);
  const Target& target = options.target;
  if (!options.code || !backend || target.kind == "cpu" || target.hasExplicitMemory())
    return nullptr;
  std::shared_ptr<Device> device = backend->open(options.target);
  if (!device) userError("target {}: this machine has no such device", options.target.name);
  return device;
}

/// Makes slots, steps and the memory plan around compiled kernels.
class Assembler {
 public:
  Assembler(Program& program, const CompileOptions& options)
      : program_(program), options_(options) {}

  /// `kernels`: of the groups, in order; none where groups are interpreted.
  void run(std::vector<GroupKernel> kernels) {
    bindPorts();
    size_t next = 0;
    for (size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      const Node& node = program_.graph.nodes[i];
      const Role role = roleOf(node);
      if (role == Role::Data) continue;
      const int number = static_cast<int>(i);
      for (size_t r = 0; r < node.results.size(); ++r) resultSlot({number, static_cast<int>(r)});
      if (role == Role::Host || options_.interpret)
        addBody(number);
      else
        addKernel(number, kernels[next++]);
    }
    addCopies();
    packConstants();
    for (const KernelInfo& kernel : program_.kernels)
      program_.scratchBytes = std::max(program_.scratchBytes, kernel.artifact.needs.scratchBytes);
    placeSlots();
    placeBarriers();
  }

 private:
  int newSlot(Slot slot) {
    program_.slots.push_back(slot);
    return static_cast<int>(program_.slots.size()) - 1;
  }

  int64_t bytesOf(Value v) const { return tektite::bytesOf(program_.graph.type(v)); }

  void bindPorts() {
    const Graph& graph = program_.graph;
    for (Value v : graph.inputs()) {
      program_.slotOf[v] =
          newSlot({Slot::Input, bytesOf(v), 0, static_cast<int>(program_.inputs.size()), nullptr});
      program_.inputs.push_back(graph.type(v));
      program_.inputNames.push_back(graph.node(v).name);
    }
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const Value v = graph.outputs[i];
      const int slot = newSlot({Slot::Output, bytesOf(v), 0, static_cast<int>(i), nullptr});
      outputSlots_.push_back(slot);
      if (roleOf(graph.node(v)) != Role::Data) program_.slotOf.try_emplace(v, slot);
      program_.outputs.push_back(graph.type(v));
      program_.outputNames.push_back(i < graph.outputNames.size() ? graph.outputNames[i]
                                                                  : fmt::format("output_{}", i));
    }
  }

  int resultSlot(Value v) {
    const auto known = program_.slotOf.find(v);
    if (known != program_.slotOf.end()) return known->second;
    return program_.slotOf[v] = newSlot({Slot::Arena, bytesOf(v), 0, 0, nullptr});
  }

  int constantSlot(const Const& constant, const TensorType& type) {
    Memory made;
    const void* data = constantData(constant, type, made);
    if (made.data()) program_.packed.push_back(std::move(made));
    const auto known = constantSlots_.find(data);
    if (known != constantSlots_.end()) return known->second;
    const int64_t size = tektite::bytesOf(type);
    program_.constantBytes += size;
    return constantSlots_[data] = newSlot({Slot::Constant, size, 0, 0, data});
  }

  int operandSlot(Value v) {
    const auto known = program_.slotOf.find(v);
    if (known != program_.slotOf.end()) return known->second;
    const Const* constant = program_.graph.node(v).as<Const>();
    TEKTITE_CHECK(constant, "%{} has no memory", v.node);
    return program_.slotOf[v] = constantSlot(*constant, program_.graph.type(v));
  }

  void addBody(int number) {
    const Node& node = program_.graph.nodes[number];
    Step step{Step::Body, static_cast<int>(program_.kernels.size()), {}, true, true, number};
    for (Value v : node.operands) step.slots.push_back(operandSlot(v));
    for (size_t r = 0; r < node.results.size(); ++r)
      step.slots.push_back(resultSlot({number, static_cast<int>(r)}));
    KernelInfo info;
    info.interpreted = true;
    if (const Group* group = node.as<Group>()) {
      info.name = fmt::format("g{}", program_.kernels.size());
      info.nodes = originsOf(*group->body);
      if (group->plan) info.cost = group->plan->cost;
    } else {
      info.name = fmt::format("host{}", program_.kernels.size());
      info.nodes = {node.origin};
      for (int slot : step.slots) info.cost.bytesRead += program_.slots[slot].bytes;
      for (const TensorType& type : node.results) info.cost.bytesWritten += tektite::bytesOf(type);
      info.cost.bytesRead -= info.cost.bytesWritten;
    }
    program_.kernels.push_back(std::move(info));
    program_.steps.push_back(std::move(step));
  }

  int argumentSlot(int group, const std::string& argument, GroupKernel& kernel) {
    const Node& node = program_.graph.nodes[group];
    const Group& g = *node.as<Group>();
    for (const PackedConstant& packed : kernel.packed) {
      if (packed.param == argument) return packedSlot(g, kernel.plan, packed, kernel.info);
    }
    const PlanBuffer& buffer = kernel.plan.buffer(argument);
    const auto position = [&](const std::vector<Value>& values) {
      const auto at = std::find(values.begin(), values.end(), buffer.value);
      TEKTITE_CHECK(at != values.end(), "{}: buffer {} is no port of the group", kernel.info.name,
                    argument);
      return static_cast<int>(at - values.begin());
    };
    switch (buffer.kind) {
      case PlanBuffer::Input: return operandSlot(node.operands[position(g.body->inputs())]);
      case PlanBuffer::Constant: return constantSlot(constantOf(g, buffer), buffer.type);
      case PlanBuffer::Output: return resultSlot({group, position(g.body->outputs)});
      case PlanBuffer::Scratch: break;
    }
    TEKTITE_CHECK(false, "{}: scratch {} is a parameter", kernel.info.name, argument);
  }

  /// A scan's constants lie in its body.
  static const Const& constantOf(const Group& g, const PlanBuffer& buffer) {
    const Node& node = buffer.constant ? *buffer.constant : g.body->node(buffer.value);
    TEKTITE_CHECK(node.as<Const>(), "{} is no constant", buffer.name);
    return *node.as<Const>();
  }

  int packedSlot(const Group& g, const GroupPlan& plan, const PackedConstant& packed,
                 KernelInfo& info) {
    const PlanBuffer& buffer = plan.buffer(packed.source);
    const TensorType& type = buffer.type;  // axes may be merged
    const Const& constant = constantOf(g, buffer);
    Memory made;
    const void* source = constantData(constant, type, made);
    Hasher key;
    key.add(reinterpret_cast<int64_t>(source)).add(std::string_view(toText(packed.type)));
    for (const Expr& e : packed.index) key.add(e.hash());
    if (packed.guard) key.add(packed.guard.hash());
    const int64_t size = tektite::bytesOf(packed.type);
    info.packedBytes += size;
    const auto known = packedSlots_.find(key.finish());
    if (known != packedSlots_.end() && !made.data()) return known->second;
    if (made.data()) splats_.push_back(std::move(made));
    program_.packedBytes += size;
    const int64_t offset = packing_.add(packed, type, source, constant.data);
    return packedSlots_[key.finish()] = newSlot({Slot::Packed, size, offset, 0, nullptr});
  }

  void packConstants() {
    if (!options_.code && !options_.packs) return;
    program_.packed.push_back(packing_.make(hardwareThreads()));
    for (Slot& slot : program_.slots)
      if (slot.kind == Slot::Packed) slot.data = program_.packed.back().data() + slot.offset;
  }

  void addKernel(int group, GroupKernel& kernel) {
    Step step{Step::Kernel, static_cast<int>(program_.kernels.size()), {}, true, false, group};
    for (size_t i = 0; i < kernel.arguments.size(); ++i) {
      const int slot = argumentSlot(group, kernel.arguments[i], kernel);
      program_.slots[slot].align = std::max(program_.slots[slot].align, kernel.aligns[i]);
      step.slots.push_back(slot);
    }
    const KernelNeeds& needs = kernel.info.artifact.needs;
    for (int64_t size : needs.mainAllocs)
      step.slots.push_back(newSlot({Slot::Arena, size, 0, 0, nullptr}));
    if (needs.counters)
      step.slots.push_back(newSlot({Slot::Zeroed, needs.counters * 4, 0, 0, nullptr}));
    for (const auto& [output, input] : kernel.inPlace) {
      shared_.push_back({static_cast<int>(program_.steps.size()),
                         argumentSlot(group, output, kernel), argumentSlot(group, input, kernel)});
    }
    const Cost& cost = kernel.info.cost;
    const double between = cost.seconds / static_cast<double>(1 + cost.gridSyncs);
    step.solo = options_.threads == 1 || needs.tiles == 1 || between < kSoloSeconds;
    const std::vector<TensorType>& results = program_.graph.nodes[group].results;
    const bool empty = std::all_of(results.begin(), results.end(),
                                   [](const TensorType& t) { return t.elements() == 0; });
    if (!empty) program_.steps.push_back(std::move(step));
    numbers_.push_back(static_cast<int>(program_.kernels.size()));
    if (kernel.info.sameAs >= 0)
      kernel.info.sameAs = numbers_[static_cast<size_t>(kernel.info.sameAs)];
    program_.kernels.push_back(std::move(kernel.info));
  }

  void addCopies() {
    const Graph& graph = program_.graph;
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      const int from = operandSlot(graph.outputs[i]);
      if (from == outputSlots_[i]) continue;
      program_.steps.push_back({Step::Copy, -1, {from, outputSlots_[i]}, true, true, -1});
    }
  }

  /// An output that may be where an input of its kernel was, if nobody reads the input later.
  struct Shared {
    int step, output, input;
  };

  /// Joins the lifetimes of such pairs: the output's becomes empty, and answers whose memory it has.
  std::vector<int> shareMemory(std::vector<Lifetime>& lives) const {
    std::vector<int> owner(lives.size());
    for (size_t i = 0; i < owner.size(); ++i) owner[i] = static_cast<int>(i);
    for (const Shared& pair : shared_) {
      const int input = owner[pair.input];  // earlier steps come first, so it owns itself
      const bool arena = program_.slots[pair.output].kind == Slot::Arena &&
                         program_.slots[input].kind == Slot::Arena;
      if (!arena || !options_.reuseMemory || owner[pair.output] != pair.output ||
          lives[pair.output].first != pair.step)
        continue;
      if (lives[input].last != pair.step || lives[pair.output].bytes != lives[input].bytes)
        continue;
      lives[input].last = lives[pair.output].last;
      lives[pair.output].bytes = 0;
      owner[pair.output] = input;
    }
    return owner;
  }

  void placeSlots() {
    const int steps = static_cast<int>(program_.steps.size());
    std::vector<Lifetime> lives(program_.slots.size());
    std::vector<bool> seen(program_.slots.size());
    for (int s = 0; s < steps; ++s) {
      for (int slot : program_.steps[s].slots) {
        if (program_.slots[slot].kind != Slot::Arena) continue;
        if (!seen[slot]) lives[slot].first = s;
        seen[slot] = true;
        lives[slot].last = options_.reuseMemory ? s : steps;
        lives[slot].bytes = program_.slots[slot].bytes;
      }
    }
    const std::vector<int> owner = shareMemory(lives);
    const int64_t align = program_.device ? kDeviceAlign : kArenaAlign;
    const MemoryPlan plan = planMemory(lives, align);
    for (size_t slot = 0; slot < lives.size(); ++slot) {
      Slot& s = program_.slots[slot];
      if (s.kind == Slot::Arena) s.offset = plan.offsets[owner[slot]];
      if (s.kind != Slot::Zeroed) continue;
      s.offset = program_.zeroedBytes;
      program_.zeroedBytes += (s.bytes + align - 1) / align * align;
    }
    program_.arenaBytes = plan.bytes;
  }

  struct Touch {
    Slot slot;
    bool write, solo;
  };

  static bool overlap(const Slot& a, const Slot& b) {
    if (a.kind != b.kind) return false;
    if (a.kind == Slot::Output) return a.index == b.index;
    return a.kind == Slot::Arena && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  }

  /// The memory of a step; what isn't an operand it may write.
  std::vector<Touch> touchesOf(const Step& step) const {
    std::vector<Touch> touches;
    const Node* node = step.node >= 0 ? &program_.graph.nodes[step.node] : nullptr;
    for (int slot : step.slots) {
      bool write = !node && slot == step.slots.back();
      if (node) {
        write = true;
        for (Value v : node->operands) {
          const auto known = program_.slotOf.find(v);
          if (known != program_.slotOf.end() && known->second == slot) write = false;
        }
      }
      touches.push_back({program_.slots[slot], write, step.solo});
    }
    return touches;
  }

  void placeBarriers() {
    std::vector<Touch> since;
    for (Step& step : program_.steps) {
      const std::vector<Touch> touches = touchesOf(step);
      const auto conflicts = [&](const Touch& now) {
        return std::any_of(since.begin(), since.end(), [&](const Touch& before) {
          return (before.write || now.write) && !(before.solo && now.solo) &&
                 overlap(before.slot, now.slot);
        });
      };
      step.barrier = std::any_of(touches.begin(), touches.end(), conflicts);
      if (step.barrier) since.clear();
      since.insert(since.end(), touches.begin(), touches.end());
    }
  }

  Program& program_;
  const CompileOptions& options_;
  std::vector<int> outputSlots_;
  std::vector<Shared> shared_;
  std::vector<int> numbers_;  // of Program::kernels, by group
  std::map<const void*, int> constantSlots_;
  std::unordered_map<Hash, int> packedSlots_;
  Packing packing_;
  std::vector<Memory> splats_;  // that packing_ reads
};

}  // namespace

std::map<std::string, int64_t> completeDims(const Graph& graph,
                                            const std::map<std::string, int64_t>& given) {
  std::map<std::string, int64_t> values = given;
  for (const auto& [name, range] : graph.dims)
    values.try_emplace(name, std::max<int64_t>(range.low, 1));
  return values;
}

Graph prepareGraph(const Graph& model, const std::map<std::string, int64_t>& dims,
                   const PassOptions& passes) {
  return runPasses(bindDims(model, completeDims(model, dims)), passes);
}

std::shared_ptr<const Program> compile(const Graph& prepared, const CompileOptions& given) {
  const auto start = std::chrono::steady_clock::now();
  CompileOptions options = given;
  options.target = allowedTarget(given.target, given.fusion.numerics);
  auto program = std::make_shared<Program>();
  Fused fused = fuse(prepared, options.target, options.fusion);
  program->graph = std::move(fused.graph);
  program->ledger = std::move(fused.ledger);
  std::vector<int> groups;
  for (size_t i = 0; i < program->graph.nodes.size(); ++i) {
    const Node& node = program->graph.nodes[i];
    const Role role = roleOf(node);
    const bool fixed = std::all_of(node.results.begin(), node.results.end(),
                                   [](const TensorType& t) { return t.isStatic(); });
    TEKTITE_CHECK(role != Role::Unsupported, "%{} is in no group\n{}", i, toText(program->graph));
    if (!fixed) refuse(options, node, i, "a result whose shape depends on data");
    if (role == Role::Host && !node.as<Call>() && !options.interpret)
      program->fallbacks.push_back(fallBack(options, node, i));
    if (role == Role::Group) groups.push_back(static_cast<int>(i));
  }
  program->planSeconds = secondsSince(start);

  const auto codeStart = std::chrono::steady_clock::now();
  std::vector<GroupKernel> kernels;
  if (!options.interpret) {
    program->device = deviceOf(options);
    kernels = makeKernels(program->graph, groups, options, program->code, program->device.get());
  }
  Assembler(*program, options).run(std::move(kernels));
  program->codeSeconds = secondsSince(codeStart);
  return program;
}

}  // namespace tektite
