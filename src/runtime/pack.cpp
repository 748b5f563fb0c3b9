#include "runtime/pack.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/scalar_eval.h"
#include "support/check.h"
#include "support/overloaded.h"
#include "support/parallel.h"

namespace tektite {
namespace {

constexpr int64_t kBlock = 512;           // elements evaluated at once: a few values of each fit L1
constexpr int64_t kChunk = 128 * kBlock;  // elements that a thread takes at a time

/// Integer expressions over coordinates, evaluated for a block of elements one operation at a time.
class BlockEvaluator {
 public:
  BlockEvaluator(const std::vector<Expr>& roots, const std::vector<int64_t>& extents)
      : extents_(extents), registers_(extents.size()) {
    for (const Expr& root : roots) {
      visit(root, [this](const Expr& e) { compile(e); });
      roots_.push_back(at_.at(root.hash()));
    }
    for (auto& r : registers_) r.resize(kBlock);
    for (const auto& [reg, value] : constants_)
      std::fill(registers_[reg].begin(), registers_[reg].end(), value);
  }

  /// Evaluates `count` elements from the flat index `first` on.
  void run(int64_t first, int64_t count) {
    std::vector<int64_t> coordinates(extents_.size());
    for (size_t axis = extents_.size(); axis-- > 0; first /= extents_[axis])
      coordinates[axis] = first % extents_[axis];
    for (int64_t i = 0; i < count; ++i) {
      for (size_t axis = 0; axis < extents_.size(); ++axis) registers_[axis][i] = coordinates[axis];
      for (size_t axis = extents_.size(); axis-- > 0 && ++coordinates[axis] == extents_[axis];)
        coordinates[axis] = 0;
    }
    for (const Instruction& instruction : instructions_) execute(instruction, count);
  }
  const int64_t* result(size_t root) const { return registers_[roots_[root]].data(); }

 private:
  struct Instruction {
    Op op;
    DType type;
    int to;
    std::vector<int> from;
  };

  int fresh() {
    registers_.emplace_back();
    return static_cast<int>(registers_.size()) - 1;
  }

  void compile(const Expr& e) {
    if (at_.count(e.hash())) return;
    const int reg = std::visit(
        overloaded{[&](const Imm& i) {
                     constants_.emplace_back(fresh(), i.integer);
                     return constants_.back().first;
                   },
                   [&](const Var& v) { return std::stoi(v.name.substr(1)); },
                   [&](const Load&) -> int {
                     TEKTITE_CHECK(false, "a packed constant's index loads: {}", toText(e));
                   },
                   [&](const Cast& c) { return at_.at(c.arg.hash()); },
                   [&](const Apply& a) {
                     Instruction instruction{a.op, a.args.back().type(), fresh(), {}};
                     for (const Expr& arg : a.args) instruction.from.push_back(at_.at(arg.hash()));
                     instructions_.push_back(instruction);
                     return instruction.to;
                   }},
        e->kind);
    at_[e.hash()] = reg;
  }

  template <class F>
  void each(const Instruction& n, int64_t count, F f) {
    const int64_t *a = registers_[n.from[0]].data(), *b = registers_[n.from.back()].data();
    int64_t* to = registers_[n.to].data();
    for (int64_t i = 0; i < count; ++i) to[i] = f(a[i], b[i]);
  }

  void execute(const Instruction& n, int64_t count) {
    switch (n.op) {
      case Op::Add: return each(n, count, [](int64_t a, int64_t b) { return a + b; });
      case Op::Sub: return each(n, count, [](int64_t a, int64_t b) { return a - b; });
      case Op::Mul: return each(n, count, [](int64_t a, int64_t b) { return a * b; });
      case Op::Lt: return each(n, count, [](int64_t a, int64_t b) { return int64_t{a < b}; });
      case Op::Le: return each(n, count, [](int64_t a, int64_t b) { return int64_t{a <= b}; });
      default: break;
    }
    int64_t args[3];
    for (int64_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < n.from.size(); ++k) args[k] = registers_[n.from[k]][i];
      registers_[n.to][i] = evalInteger(n.op, n.type, {args, n.from.size()});
    }
  }

  std::vector<int64_t> extents_;
  std::vector<std::vector<int64_t>> registers_;  // the coordinates first
  std::vector<std::pair<int, int64_t>> constants_;
  std::vector<Instruction> instructions_;
  std::vector<int> roots_;
  std::unordered_map<Hash, int> at_;
};

template <class T>
void collect(const int64_t* address, const int64_t* guard, const void* source, void* to,
             int64_t first, int64_t count) {
  T* out = static_cast<T*>(to) + first;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = T{};  // mapped data may lie at any address
    if (guard[i])
      std::memcpy(&out[i], static_cast<const char*>(source) + address[i] * int64_t{sizeof(T)},
                  sizeof(T));
  }
}

void gatherBytes(int size, const int64_t* address, const int64_t* guard, const void* source,
                 void* to, int64_t first, int64_t count) {
  switch (size) {
    case 1: return collect<uint8_t>(address, guard, source, to, first, count);
    case 2: return collect<uint16_t>(address, guard, source, to, first, count);
    case 4: return collect<uint32_t>(address, guard, source, to, first, count);
    case 8: return collect<uint64_t>(address, guard, source, to, first, count);
    default: TEKTITE_CHECK(false, "elements of {} bytes", size);
  }
}

}  // namespace

Memory packConstant(const PackedConstant& packed, const TensorType& sourceType, const void* source,
                    int threads) {
  const int64_t elements = packed.type.elements();
  const int size = bytes(packed.type.dtype);
  TEKTITE_CHECK(packed.type.dtype == sourceType.dtype, "{} packed as {}", toText(sourceType),
                toText(packed.type));
  Expr address = 0;
  for (int axis = 0; axis < sourceType.rank(); ++axis)
    address = address * sourceType.shape[axis] + packed.index[axis];
  const std::vector<Expr> roots = {address, packed.guard ? packed.guard : boolean(true)};
  Memory memory(static_cast<size_t>(elements * size));
  parallelFor(static_cast<size_t>((elements + kChunk - 1) / kChunk), threads, [&](size_t chunk) {
    BlockEvaluator evaluator(roots, packed.type.extents());
    const int64_t end = std::min<int64_t>(elements, (static_cast<int64_t>(chunk) + 1) * kChunk);
    for (int64_t first = static_cast<int64_t>(chunk) * kChunk; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      evaluator.run(first, count);
      gatherBytes(size, evaluator.result(0), evaluator.result(1), source, memory.data(), first,
                  count);
    }
  });
  return memory;
}

const void* constantData(const Const& constant, const TensorType& type, Memory& made) {
  if (constant.data) return constant.data->data;
  const int64_t elements = type.elements();
  made = Memory(static_cast<size_t>(std::max<int64_t>(elements, 1) * bytes(type.dtype)));
  const Imm* value = constant.splat.as<Imm>();
  for (int64_t i = 0; i < elements; ++i) {
    if (isFloat(type.dtype))
      storeFloat(type.dtype, made.data(), i, value->real);
    else
      storeInteger(type.dtype, made.data(), i, value->integer);
  }
  return made.data();
}

}  // namespace tektite
