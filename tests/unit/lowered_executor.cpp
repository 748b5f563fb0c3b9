#include "lowered_executor.h"

#include <algorithm>

#include "ir/kernel_eval.h"
#include "lower/lower.h"
#include "schedule/layout.h"

namespace tektite {
namespace {

/// Row-major position of an element -> where it lies in the buffer's memory.
int64_t placeOf(int64_t position, const std::vector<int64_t>& shape,
                const std::vector<int64_t>& strides) {
  int64_t place = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    place += position % shape[d] * strides[d];
    position /= shape[d];
  }
  return place;
}

struct Memory {
  DType type;
  int64_t elements;
  std::vector<char> bytes;  // with room to begin at a line
  Memory(DType t, int64_t n)
      : type(t),
        elements(std::max<int64_t>(n, 1)),
        bytes(static_cast<size_t>(elements * tektite::bytes(t)) + 64) {}
  char* data() {
    return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) / 64 * 64);
  }
  void set(int64_t at, double real, int64_t integer) {
    isFloat(type) ? storeFloat(type, data(), at, real) : storeInteger(type, data(), at, integer);
  }
};

Memory laidOut(const TestTensor& t, const PlanBuffer& b) {
  Memory m(t.type.dtype, t.type.elements());
  const auto shape = t.type.extents(), strides = memoryStrides(b);
  for (int64_t i = 0; i < t.type.elements(); i++)
    m.set(placeOf(i, shape, strides), isFloat(m.type) ? t.real[i] : 0,
          isFloat(m.type) ? 0 : t.integer[i]);
  return m;
}

}  // namespace

std::vector<int64_t> packedPositions(const PackedConstant& p, const TensorType& source) {
  const auto shape = p.type.extents(), extents = source.extents();
  std::vector<int64_t> out, d(shape.size(), 0);
  for (int64_t n = 0; n < p.type.elements(); n++) {
    std::unordered_map<std::string, Expr> env;
    for (size_t i = 0; i < d.size(); i++) env.emplace(coordinate(static_cast<int>(i)), Expr(d[i]));
    const bool in = !p.guard || *asInteger(substitute(p.guard, env));
    int64_t offset = 0;
    for (size_t i = 0; i < p.index.size() && in; i++)
      offset = offset * extents[i] + *asInteger(substitute(p.index[i], env));
    out.push_back(in ? offset : -1);
    for (size_t i = d.size(); i-- > 0 && ++d[i] == shape[i];) d[i] = 0;
  }
  return out;
}

std::vector<float> packedFloats(const PackedConstant& p, const std::vector<float>& source,
                                const TensorType& type) {
  std::vector<float> out;
  for (const int64_t at : packedPositions(p, type))
    out.push_back(at < 0 ? 0 : source[static_cast<size_t>(at)]);
  return out;
}

std::vector<TestTensor> runLowered(const GroupPlan& plan, const Graph& body,
                                   const std::map<Value, TestTensor>& leaves,
                                   const std::string& target, CountedBytes* counted) {
  const bool scheduled = target != "naive";
  const LoweredKernel k =
      lowerGroup(plan, findTarget(scheduled ? target : "cpu:avx2"), "k", scheduled);
  std::map<std::string, Memory> memory;
  for (const PlanBuffer& b : plan.buffers) {
    if (b.kind == PlanBuffer::Output)
      memory.emplace(b.name, Memory(b.type.dtype, b.type.elements()));
    if (b.kind == PlanBuffer::Input || b.kind == PlanBuffer::Constant)
      memory.emplace(b.name, laidOut(leaves.at(b.value), b));
  }
  for (const PackedConstant& p : k.packed) {
    const PlanBuffer& from = plan.buffer(p.source);
    const TestTensor& source = leaves.at(from.value);
    Memory m(p.type.dtype, p.type.elements());
    const auto positions = packedPositions(p, from.type);
    for (size_t i = 0; i < positions.size(); i++)
      m.set(static_cast<int64_t>(i),
            positions[i] < 0 || !isFloat(m.type) ? 0 : source.real[positions[i]],
            positions[i] < 0 || isFloat(m.type) ? 0 : source.integer[positions[i]]);
    memory.emplace(p.param, std::move(m));
  }
  std::map<std::string, EvalBuffer> buffers;
  for (size_t i = 0; i < k.kernel().params.size(); i++) {
    Memory& m = memory.at(k.arguments[i]);
    buffers[k.kernel().params[i].buffer.name] = {m.data(), m.elements};
  }
  KernelEvalOptions options;
  CacheModel cache(findTarget(scheduled ? target : "cpu:avx2").last().bytes);
  options.cache = counted ? &cache : nullptr;
  options.order = scheduled && !counted ? KernelEvalOptions::Shuffled : KernelEvalOptions::Forward;
  const EvalCounters counters = KernelEvaluator(k.module, k.kernel()).run(buffers, {}, options);
  if (counted) {
    *counted = {counters.bytesRead, counters.bytesWritten, 0};
    for (const PackedConstant& p : k.packed) {
      const TensorType& source = plan.buffer(p.source).type;
      counted->padding +=
          p.type.elements() * bytes(p.type.dtype) - source.elements() * bytes(source.dtype);
    }
  }

  std::vector<TestTensor> out;
  for (const Value& v : body.outputs)
    for (const PlanBuffer& b : plan.buffers) {
      if (b.kind != PlanBuffer::Output || !(b.value == v)) continue;
      TestTensor t{b.type, {}, {}};
      const auto shape = b.type.extents(), strides = memoryStrides(b);
      Memory& m = memory.at(b.name);
      for (int64_t i = 0; i < b.type.elements(); i++) {
        const int64_t at = placeOf(i, shape, strides);
        if (isFloat(m.type))
          t.real.push_back(loadFloat(m.type, m.data(), at));
        else
          t.integer.push_back(loadInteger(m.type, m.data(), at));
      }
      out.push_back(std::move(t));
      break;
    }
  return out;
}

}  // namespace tektite
