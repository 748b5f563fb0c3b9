#include "runtime/kernels.h"

#include <llvm/Config/llvm-config.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "backends/cpu/compiler.h"
#include "emit/grids.h"
#include "ir/bytes.h"
#include "ir/kernel_verify.h"
#include "lower/dma.h"
#include "lower/scan.h"
#include "runtime/cache.h"
#include "runtime/simulated.h"
#include "support/check.h"
#include "support/parallel.h"
#include "support/seconds.h"
#include "support/version.h"

namespace tektite {
namespace {

constexpr size_t kNameLength = 40;

/// The last parts of a path-like name, as an identifier: /encoder/layer.0/attn/MatMul -> layer_0_attn_matmul.
std::string identifier(const std::string& origin) {
  std::string name;
  for (char c : origin) {
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  if (name.size() <= kNameLength) return name;
  const size_t cut = name.find('_', name.size() - kNameLength);
  return cut == std::string::npos ? name.substr(name.size() - kNameLength) : name.substr(cut + 1);
}

/// The node that a reader would name the kernel after: the first with a contraction, else the last.
std::string mainOrigin(const Graph& body) {
  std::string last;
  for (const Node& node : body.nodes) {
    if (node.origin.empty()) continue;
    if (node.as<Contract>()) return node.origin;
    last = node.origin;
  }
  return last;
}

/// Text without the lines that are comments: what decides whether two are equal.
std::string withoutComments(const std::string& text, char sign) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const size_t first = text.find_first_not_of(' ', at);
    if (first >= end || text[first] != sign) out.append(text, at, end - at + 1);
    at = end + 1;
  }
  return out;
}

Hash hashOf(std::string_view text) { return Hasher().add(text).finish(); }

class Progress {
 public:
  Progress(const CompileOptions& options, std::string_view stage, size_t total)
      : options_(options), stage_(stage), total_(total) {}
  void step() {
    if (!options_.progress) return;
    std::lock_guard lock(guard_);
    options_.progress(stage_, ++done_, total_);
  }

 private:
  const CompileOptions& options_;
  std::string_view stage_;
  size_t total_, done_ = 0;
  std::mutex guard_;
};

/// The pairs that may come true: the input is made by another kernel. Their parameters then promise nothing of each other.
std::vector<std::pair<std::string, std::string>> inPlacePairs(const Graph& graph, const Node& node,
                                                              const GroupPlan& plan,
                                                              LoweredKernel& lowered) {
  const std::vector<Value> inputs = node.as<Group>()->body->inputs();
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [output, input] : lowered.inPlace) {
    const auto at = std::find(inputs.begin(), inputs.end(), plan.buffer(input).value);
    if (at == inputs.end() || !graph.node(node.operands[at - inputs.begin()]).as<Group>()) continue;
    pairs.emplace_back(output, input);
    for (size_t i = 0; i < lowered.arguments.size(); ++i) {
      if (lowered.arguments[i] == output || lowered.arguments[i] == input)
        lowered.module.kernels[0].params[i].buffer.alias = "inplace";
    }
  }
  return pairs;
}

LoweredKernel lowerGroup(const GroupPlan& plan, const Target& target, Numerics numerics,
                         GroupKernel& kernel) {
  if (target.hasExplicitMemory()) {
    kernel.plan = plan;
    return lowerExplicit(plan, target, kernel.info.name);
  }
  kernel.plan = prepare(plan, target);
  const Schedule schedule = chooseSchedule(kernel.plan, target, 0, numerics);
  kernel.info.schedule = toText(kernel.plan, schedule);
  if (schedule.team.threads)
    kernel.info.team = factsOf(kernel.plan, schedule.team, kernel.plan.cost.registers);
  return lower(kernel.plan, schedule, target, kernel.info.name);
}

LoweredKernel lowerRecurrence(const GroupPlan& plan, const Target& target, GroupKernel& kernel) {
  LoweredScan scan = lowerScan(plan, target, kernel.info.name);
  kernel.plan = std::move(scan.plan);
  for (const auto& [prepared, schedule] : scan.parts)
    kernel.info.schedule += toText(prepared, schedule);
  return std::move(scan.kernel);
}

/// Machines that kernels are planned for and nobody here prints for.
bool isModelled(const Target& t) { return t.hasExplicitMemory() || t.printer.empty(); }

/// Where the values of a kernel come from: its code, or for a modelled machine the kernel interpreter, unless that takes too long.
enum class Values { Code, Interpreted, Compiled };
Values valuesFrom(const CompileOptions& options, const Cost& cost) {
  if (!isModelled(options.target)) return Values::Code;
  return options.code && isLongToInterpret(cost) ? Values::Compiled : Values::Interpreted;
}
Target codeTarget(const CompileOptions& options) {
  return isModelled(options.target) ? hostTarget() : options.target;
}

/// The same group, planned for this machine's CPU.
LoweredKernel valuesOf(const Group& group, const CompileOptions& options, GroupKernel& kernel) {
  Orders orders;
  for (const PlanBuffer& b : group.plan->buffers)
    if (!b.order.empty() && b.kind != PlanBuffer::Scratch) orders[b.value] = b.order;
  const Target host = hostTarget();
  const PlanResult r = planGroup(*group.body, host, options.fusion, orders);
  TEKTITE_CHECK(r.plan, "a group has no plan for the CPU: {}", toText(r.refusal));
  const std::string schedule = kernel.info.schedule;
  LoweredKernel lowered = r.plan->scan ? lowerRecurrence(*r.plan, host, kernel)
                                       : lowerGroup(*r.plan, host, options.fusion.numerics, kernel);
  kernel.info.schedule = schedule;
  return lowered;
}

/// What a group's kernel has to itself.
KernelInfo describe(const Group& group, size_t number) {
  TEKTITE_CHECK(group.plan, "group {} has no plan", number);
  KernelInfo info;
  info.nodes = originsOf(*group.body);
  const std::string origin = identifier(mainOrigin(*group.body));
  info.name = fmt::format("k{}{}{}", number, origin.empty() ? "" : "_", origin);
  info.cost = group.plan->cost;
  info.plan = toText(*group.plan);
  return info;
}

/// Groups of equal keys have the same kernel: equal plans, and the same operands that other kernels make (inPlacePairs).
Hash keyOf(const Graph& graph, const Node& node) {
  Hasher key;
  key.add(hashOf(*node.as<Group>()->plan));
  for (Value v : node.operands) key.add(int{graph.node(v).as<Group>() != nullptr});
  return key.finish();
}

void lowerKernel(const Graph& graph, const Node& node, const CompileOptions& options,
                 GroupKernel& kernel, KernelModule& module) {
  const Group& group = *node.as<Group>();
  LoweredKernel lowered =
      group.plan->scan ? lowerRecurrence(*group.plan, options.target, kernel)
                       : lowerGroup(*group.plan, options.target, options.fusion.numerics, kernel);
  if (options.target.hasExplicitMemory()) verifyKernels(lowered.module, {&options.target, false});
  if (!group.plan->scan)
    for (const PackedConstant& p : lowered.packed)  // panels are whole
      kernel.info.cost.bytesRead += bytesOf(p.type) - bytesOf(group.plan->buffer(p.source).type);
  if (valuesFrom(options, kernel.info.cost) == Values::Compiled) {
    kernel.info.text = toText(lowered.module);
    lowered = valuesOf(group, options, kernel);
  }
  kernel.inPlace = inPlacePairs(graph, node, kernel.plan, lowered);
  for (const Param& param : lowered.kernel().params)
    kernel.aligns.push_back(std::max<int64_t>(param.buffer.align, bytes(param.buffer.type)));
  kernel.arguments = std::move(lowered.arguments);
  kernel.packed = std::move(lowered.packed);
  if (kernel.info.text.empty()) kernel.info.text = toText(lowered.module);
  // The symbol is the hash of what the kernel says, so that code on disk serves every model that has this kernel.
  module = std::move(lowered.module);
  module.kernels[0].name = "kernel";
  module.kernels[0].name = "tk_" + hashOf(withoutComments(toText(module), '#')).hex();
}

/// The kernel of another group of the same key.
void share(GroupKernel& kernel, const GroupKernel& same, const GroupPlan& plan) {
  KernelInfo own = std::move(kernel.info);
  kernel = same;
  own.cost.bytesRead += same.info.cost.bytesRead - plan.cost.bytesRead;  // whole panels
  own.schedule = same.info.schedule;
  own.text = same.info.text;
  own.team = same.info.team;
  kernel.info = std::move(own);
}

/// The kernel's text, and what it needs.
Artifact print(const Backend* backend, const KernelModule& module, const KernelInfo& info,
               const CompileOptions& options, const Target& target) {
  const Kernel& kernel = module.kernels[0];
  if (!backend)  // one call of the interpreter runs all of it
    return {kernel.name, "", options.code ? KernelNeeds{.tiles = 1} : needsOf(kernel)};
  const Supports supports = backend->supports(module, kernel, target);
  if (!supports.yes)
    userError("kernel {}: target {} lacks {}", info.name, options.target.name, supports.why);
  return backend->emit(module, kernel, target, options.fusion.numerics);
}

// ---- code on disk: what the kernel needs, then its object

std::vector<char> packed(const KernelNeeds& needs, const std::vector<char>& code) {
  std::vector<int64_t> head{needs.scratchBytes, needs.counters, needs.tiles,
                            static_cast<int64_t>(needs.mainAllocs.size())};
  head.insert(head.end(), needs.mainAllocs.begin(), needs.mainAllocs.end());
  const auto* bytes = reinterpret_cast<const char*>(head.data());
  std::vector<char> all(bytes, bytes + head.size() * sizeof(int64_t));
  all.insert(all.end(), code.begin(), code.end());
  return all;
}

/// Takes them apart; `entry` is one of packed().
KernelNeeds unpack(std::vector<char>& entry) {
  size_t at = 0;
  const auto next = [&] {
    int64_t n;
    TEKTITE_CHECK(at + sizeof n <= entry.size(), "an entry of {} bytes", entry.size());
    std::memcpy(&n, entry.data() + at, sizeof n);
    at += sizeof n;
    return n;
  };
  KernelNeeds needs{.scratchBytes = next(), .counters = next(), .tiles = next()};
  needs.mainAllocs.resize(static_cast<size_t>(next()));
  for (int64_t& size : needs.mainAllocs) size = next();
  entry.erase(entry.begin(), entry.begin() + static_cast<std::ptrdiff_t>(at));
  return needs;
}

/// The kernel's artifact and its object code, from the cache or the compiler.
std::vector<char> codeOf(const Backend* backend, const KernelModule& module, KernelInfo& info,
                         const CompileOptions& options, const CodeCache& cache) {
  const auto start = std::chrono::steady_clock::now();
  const std::string& symbol = module.kernels[0].name;  // a hash of what it says
  const Hash key = Hasher()
                       .add(std::string_view(symbol))
                       .add(std::string_view(codeTarget(options).toText()))
                       .add(static_cast<int>(options.fusion.numerics))
                       .add(sourceVersion())
                       .add(std::string_view(LLVM_VERSION_STRING))
                       .finish();
  std::optional<std::vector<char>> code = cache.find(key);
  info.cached = code.has_value();
  if (code) {
    const KernelNeeds needs = unpack(*code);
    info.artifact = {symbol, "", needs};
    if (options.sources) info.artifact = print(backend, module, info, options, codeTarget(options));
  } else {
    info.artifact = print(backend, module, info, options, codeTarget(options));
    code = compileObject(info.artifact.text, codeTarget(options));
    cache.store(key, packed(info.artifact.needs, *code));
  }
  info.compileSeconds = secondsSince(start);
  return std::move(*code);
}

}  // namespace

std::vector<std::string> originsOf(const Graph& body) {
  std::vector<std::string> origins;
  for (const Node& node : body.nodes) {
    const bool computes = !node.as<Input>() && !node.as<Const>();
    if (computes && !node.origin.empty() &&
        std::find(origins.begin(), origins.end(), node.origin) == origins.end()) {
      origins.push_back(node.origin);
    }
  }
  return origins;
}

std::vector<GroupKernel> makeKernels(const Graph& graph, const std::vector<int>& groups,
                                     const CompileOptions& options,
                                     std::shared_ptr<const void>& code, Device* device) {
  const int threads = hardwareThreads();
  std::vector<GroupKernel> kernels(groups.size());
  std::vector<KernelModule> modules(groups.size());
  std::unordered_map<Hash, size_t> lowered;
  std::vector<size_t> apart, sameAs(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    const Node& node = graph.nodes[groups[i]];
    kernels[i].info = describe(*node.as<Group>(), i);
    sameAs[i] = lowered.emplace(keyOf(graph, node), i).first->second;
    if (sameAs[i] == i) apart.push_back(i);
  }
  Progress lowering(options, "lowering", apart.size());
  parallelFor(apart.size(), threads, [&](size_t i) {
    lowerKernel(graph, graph.nodes[groups[apart[i]]], options, kernels[apart[i]],
                modules[apart[i]]);
    lowering.step();
  });
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t same = sameAs[i];
    if (same != i) share(kernels[i], kernels[same], *graph.nodes[groups[same]].as<Group>()->plan);
  }

  std::unordered_map<std::string, size_t> first;
  std::vector<size_t> distinct;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const auto [at, isNew] = first.emplace(modules[sameAs[i]].kernels[0].name, i);
    if (isNew)
      distinct.push_back(i);
    else
      kernels[i].info.sameAs = static_cast<int>(at->second);
  }

  const Backend* backend = backendOf(codeTarget(options));
  const bool object = options.code && !device;
  const CodeCache cache(object ? options.cacheFolder : "");
  std::vector<std::vector<char>> objects(kernels.size());
  Progress compiling(options, "compiling", distinct.size());
  parallelFor(distinct.size(), threads, [&](size_t i) {
    KernelInfo& info = kernels[distinct[i]].info;
    const KernelModule& module = modules[distinct[i]];
    const bool text = valuesFrom(options, info.cost) == Values::Interpreted;
    if (object && !text)
      objects[distinct[i]] = codeOf(backend, module, info, options, cache);
    else
      info.artifact = print(text ? backendOf(options.target) : backend, module, info, options,
                            text ? options.target : codeTarget(options));
    compiling.step();
  });

  if (backend && options.resources) {
    std::vector<Artifact*> artifacts;
    for (size_t i : distinct) artifacts.push_back(&kernels[i].info.artifact);
    backend->findResources(artifacts, options.target);
  }
  if (device) {
    std::vector<const Artifact*> artifacts;
    for (size_t i : distinct) artifacts.push_back(&kernels[i].info.artifact);
    device->load(artifacts);
  }
  std::shared_ptr<LoadedCode> loaded = newLoadedCode();
  for (size_t i : distinct) {
    if (!objects[i].empty()) loaded->add(objects[i]);
  }
  for (GroupKernel& kernel : kernels) {
    if (kernel.info.sameAs >= 0) kernel.info.artifact = kernels[kernel.info.sameAs].info.artifact;
    if (!object || valuesFrom(options, kernel.info.cost) == Values::Interpreted) continue;
    kernel.info.function =
        reinterpret_cast<KernelFunction>(loaded->find(kernel.info.artifact.symbol));
    TEKTITE_CHECK(kernel.info.function, "no symbol {} in the code of {}",
                  kernel.info.artifact.symbol, kernel.info.name);
  }
  code = std::move(loaded);
  return kernels;
}

}  // namespace tektite
