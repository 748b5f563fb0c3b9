#include "ir/kernel_eval.h"

#include "ir/kernel_runner.h"

namespace tektite {

using namespace code;

struct KernelEvaluator::Impl {
  Code code;
  const Kernel& kernel;
  std::string place;
};

KernelEvaluator::KernelEvaluator(const KernelModule& module, const Kernel& kernel)
    : impl_(new Impl{compile(module, kernel), kernel, "kernel " + kernel.name}) {}
KernelEvaluator::~KernelEvaluator() = default;
KernelEvaluator::KernelEvaluator(KernelEvaluator&&) noexcept = default;

namespace {

/// The parameters' memory: one storage an alias class.
class Parameters {
 public:
  Parameters(Machine& m, const std::map<std::string, EvalBuffer>& buffers)
      : m_(m), buffers_(buffers) {
    for (int slot : m.code.params) bind(slot);
    for (auto& [name, c] : classes_) load(c);
  }
  /// Every element of every `out` is written.
  void checkWritten() const {
    for (int slot : m_.code.params) {
      const View& v = m_.views[slot];
      if (!v.needsWrite) continue;
      eachElement(v, [&](int64_t at) {
        if (v.memory->shadow[at].writer == 0)
          m_.fault(12, fmt::format("{} is never written", m_.element(v, at)));
      });
    }
  }
  void storeBack() const {
    for (const auto& [name, c] : classes_)
      for (size_t i = 0; i < c.memory->values.size(); i++) {
        if (!c.memory->shadow[i].writer) continue;
        const int64_t at = static_cast<int64_t>(i);
        if (isFloat(c.memory->type))
          storeFloat(c.memory->type, c.data, at, c.memory->values[i].f);
        else
          storeInteger(c.memory->type, c.data, at, c.memory->values[i].i);
      }
  }

 private:
  struct Class {
    std::unique_ptr<Storage> memory = std::make_unique<Storage>();
    void* data = nullptr;
    int64_t size = 0;
  };
  void bind(int slot) {
    const CodeBuffer& b = m_.code.buffers[slot];
    const auto given = buffers_.find(b.name);
    if (given == buffers_.end()) m_.fault(1, fmt::format("no memory was given for '{}'", b.name));
    View& v = m_.views[slot];
    describe(m_, b, v);
    Class& c = classes_[b.alias.empty() ? " " + b.name : b.alias];
    const int64_t size = span(v);
    if (given->second.elements >= 0 && size > given->second.elements)
      m_.fault(4, fmt::format("'{}' needs {} elements, {} were given", b.name, size,
                              given->second.elements));
    if (c.size && (c.memory->type != b.type || c.data != given->second.data))
      m_.fault(13, fmt::format("'{}' is not the memory, or not of the dtype, of its alias class",
                               b.name));
    c.data = given->second.data;
    c.size = std::max(c.size, size);
    c.memory->type = b.type;
    c.memory->main = true;
    c.memory->rounds = isFloat(b.type);
    c.memory->address = reinterpret_cast<uint64_t>(c.data);
    c.memory->initial |= b.mode != Param::Out;
    v.memory = c.memory.get();
    v.needsWrite = b.mode == Param::Out;
  }
  static void load(Class& c) {
    Storage& s = *c.memory;
    s.values.resize(c.size);
    s.shadow.resize(c.size);
    s.birth = 1;
    for (int64_t i = 0; i < c.size && s.initial; i++) {
      if (isFloat(s.type))
        s.values[i].f = loadFloat(s.type, c.data, i);
      else
        s.values[i].i = loadInteger(s.type, c.data, i);
    }
  }

  Machine& m_;
  const std::map<std::string, EvalBuffer>& buffers_;
  std::map<std::string, Class> classes_;
};

}  // namespace

EvalCounters KernelEvaluator::run(const std::map<std::string, EvalBuffer>& buffers,
                                  const std::map<std::string, int64_t>& dims,
                                  const KernelEvalOptions& options) const {
  Machine machine(impl_->code, options, impl_->place);
  for (size_t k = 0; k < impl_->kernel.dims.size(); k++) {
    const Dim& d = impl_->kernel.dims[k];
    const auto given = dims.find(d.name);
    if (given == dims.end()) machine.fault(1, fmt::format("no value was given for dim {}", d.name));
    if (given->second < d.low || given->second > d.high)
      machine.fault(4,
                    fmt::format("{} is {}, outside {}..{}", d.name, given->second, d.low, d.high));
    machine.variables[impl_->code.dims[k]].i = given->second;
  }
  Parameters parameters(machine, buffers);
  CacheModel* cache = options.cache;
  if (cache && !options.warm) cache->clear();
  const int64_t read = cache ? cache->bytesRead() : 0, written = cache ? cache->bytesWritten() : 0;
  Runner(machine).kernel(impl_->code.body);
  machine.statement = nullptr;
  machine.live.clear();
  if (options.checks) parameters.checkWritten();
  parameters.storeBack();
  if (cache) {
    if (!options.warm) cache->clear();
    machine.counters.bytesRead = cache->bytesRead() - read;
    machine.counters.bytesWritten = cache->bytesWritten() - written;
  }
  return machine.counters;
}

}  // namespace tektite
