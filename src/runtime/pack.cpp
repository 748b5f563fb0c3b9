#include "runtime/pack.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "ir/bytes.h"
#include "ir/scalar_eval.h"
#include "support/check.h"
#include "support/overloaded.h"
#include "support/parallel.h"

namespace tektite {
namespace {

constexpr int64_t kPackedAlign = 64;      // bytes: a line, and any vector
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

// ---- indices that are sums of coordinates: rows of elements that lie equally far apart

struct Sum {
  int64_t constant = 0;
  std::vector<int64_t> along;  ///< a coefficient for each axis
  int64_t at(const std::vector<int64_t>& place) const {
    int64_t v = constant;
    for (size_t axis = 0; axis < along.size(); axis++) v += along[axis] * place[axis];
    return v;
  }
};
std::optional<Sum> sumOf(const Expr& e, size_t axes) {
  const Linear linear = linearOf(e);
  Sum out{linear.constant, std::vector<int64_t>(axes, 0)};
  for (const auto& [term, c] : linear.terms) {
    const Var* v = term.as<Var>();
    if (!v) return std::nullopt;
    out.along[static_cast<size_t>(std::stoi(v->name.substr(1)))] += c;
  }
  return out;
}

/// What elements have to be below something to be copied; others are 0.
struct Below {
  Sum sum;
  int64_t limit;
};
std::optional<Below> belowOf(const Expr& guard, size_t axes) {
  if (!guard) return Below{{0, std::vector<int64_t>(axes, 0)}, 1};
  const Apply* a = guard.as<Apply>();
  const auto limit = a && a->op == Op::Lt ? asInteger(a->args[1]) : std::nullopt;
  auto sum = limit ? sumOf(a->args[0], axes) : std::nullopt;
  if (!sum || sum->along.back() < 0) return std::nullopt;
  return Below{std::move(*sum), *limit};
}

/// The rows of a packed constant in order: where the source's first element of each lies, and what its guard's sum is there.
class RowWalk {
 public:
  RowWalk(const std::vector<int64_t>& extents, const Sum& address, const Sum& guard, int64_t row)
      : extents_(extents), address_(address), guard_(guard), place_(extents.size(), 0) {
    for (size_t axis = extents.size() - 1; axis-- > 0; row /= extents[axis])
      place_[axis] = row % extents[axis];
    source = address.at(place_);
    sum = guard.at(place_);
  }
  /// Rows from here on that differ only in the axis beside the last one.
  int64_t together() const {
    return place_.size() < 2 ? 1 : extents_[place_.size() - 2] - place_[place_.size() - 2];
  }
  /// `rows`: at most together().
  void advance(int64_t rows) {
    for (size_t axis = place_.size() - 1; axis-- > 0; rows = 1) {
      move(axis, rows);
      if (place_[axis] < extents_[axis]) return;
      move(axis, -extents_[axis]);
    }
  }

  int64_t source, sum;

 private:
  void move(size_t axis, int64_t by) {
    place_[axis] += by;
    source += by * address_.along[axis];
    sum += by * guard_.along[axis];
  }
  const std::vector<int64_t>& extents_;
  const Sum &address_, &guard_;
  std::vector<int64_t> place_;
};

/// `rows` rows of `width`, of which the source has `n` each: `step` apart, rows `down` apart.
template <class T>
void copyTile(const char* from, int64_t step, int64_t down, T* out, int64_t rows, int64_t width,
              int64_t n) {
  constexpr int64_t size =
      sizeof(T);  // mapped data may lie at any address, so it is moved by memcpy
  if (step == 1) {
    for (int64_t r = 0; r < rows; r++)
      std::memcpy(out + r * width, from + r * down * size, static_cast<size_t>(n * size));
  } else {  // along the source's lines first: each is read once
    for (int64_t i = 0; i < n; i++)
      for (int64_t r = 0; r < rows; r++)
        std::memcpy(&out[r * width + i], from + (i * step + r * down) * size, sizeof(T));
  }
  for (int64_t r = 0; r < rows && n < width; r++)
    std::fill(out + r * width + n, out + (r + 1) * width, T{});
}

constexpr int64_t kTileRows = 16;  // a line of floats, and few enough that L1 holds what is written

/// Work in pieces that may be done in any order.
struct Pieces {
  size_t count = 0;
  std::function<void(size_t)> work;
};
int64_t dividedUp(int64_t all, int64_t each) { return (all + each - 1) / each; }

template <class T>
Pieces copyRows(std::vector<int64_t> extents, Sum address, Below below, const void* source,
                void* to) {
  const size_t last = extents.size() - 1;
  int64_t rows = 1;
  for (size_t axis = 0; axis < last; axis++) rows *= extents[axis];
  const int64_t chunk = std::max<int64_t>(1, kChunk / std::max<int64_t>(extents[last], 1));
  const auto work = [=](size_t part) {
    const int64_t width = extents[last], step = address.along[last], up = below.sum.along[last];
    const int64_t down = last ? address.along[last - 1] : 0;
    const bool tiled = last && below.sum.along[last - 1] == 0;
    const int64_t first = static_cast<int64_t>(part) * chunk, end = std::min(rows, first + chunk);
    RowWalk walk(extents, address, below.sum, first);
    for (int64_t row = first, count = 1; row < end; row += count) {
      count = tiled ? std::min({kTileRows, walk.together(), end - row}) : 1;
      const int64_t room = below.limit - walk.sum;
      const int64_t n = room <= 0 ? 0 : up == 0 ? width : std::min(width, (room + up - 1) / up);
      copyTile(static_cast<const char*>(source) + walk.source * int64_t{sizeof(T)}, step, down,
               static_cast<T*>(to) + row * width, count, width, n);
      walk.advance(count);
    }
  };
  return {static_cast<size_t>(dividedUp(rows, chunk)), work};
}

/// None where the constant isn't of this kind.
std::optional<Pieces> byRows(const PackedConstant& packed, const Expr& address, const void* source,
                             void* to) {
  const std::vector<int64_t> extents = packed.type.extents();
  if (extents.empty()) return std::nullopt;
  auto sum = sumOf(address, extents.size());
  auto below = belowOf(packed.guard, extents.size());
  if (!sum || !below) return std::nullopt;
  switch (bytes(packed.type.dtype)) {
    case 1: return copyRows<uint8_t>(extents, *sum, *below, source, to);
    case 2: return copyRows<uint16_t>(extents, *sum, *below, source, to);
    case 4: return copyRows<uint32_t>(extents, *sum, *below, source, to);
    case 8: return copyRows<uint64_t>(extents, *sum, *below, source, to);
    default: return std::nullopt;
  }
}

Pieces piecesOf(const PackedConstant& packed, const TensorType& sourceType, const void* source,
                void* to) {
  const int64_t elements = packed.type.elements();
  const int size = bytes(packed.type.dtype);
  TEKTITE_CHECK(packed.type.dtype == sourceType.dtype, "{} packed as {}", toText(sourceType),
                toText(packed.type));
  Expr address = 0;
  for (int axis = 0; axis < sourceType.rank(); ++axis)
    address = address * sourceType.shape[axis] + packed.index[axis];
  if (const auto pieces = byRows(packed, address, source, to)) return *pieces;
  const std::vector<Expr> roots = {address, packed.guard ? packed.guard : boolean(true)};
  const auto work = [=, extents = packed.type.extents()](size_t chunk) {
    BlockEvaluator evaluator(roots, extents);
    const int64_t end = std::min<int64_t>(elements, (static_cast<int64_t>(chunk) + 1) * kChunk);
    for (int64_t first = static_cast<int64_t>(chunk) * kChunk; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      evaluator.run(first, count);
      gatherBytes(size, evaluator.result(0), evaluator.result(1), source, to, first, count);
    }
  };
  return {static_cast<size_t>(dividedUp(elements, kChunk)), work};
}

}  // namespace

int64_t Packing::add(const PackedConstant& packed, const TensorType& sourceType, const void* source,
                     std::shared_ptr<const ConstData> origin) {
  const int64_t offset = bytes_;
  jobs_.push_back({packed, sourceType, source, std::move(origin), offset});
  bytes_ += dividedUp(bytesOf(packed.type), kPackedAlign) * kPackedAlign;
  return offset;
}

Memory Packing::make(int threads) {
  Memory memory(static_cast<size_t>(bytes_));
  std::vector<Pieces> all;
  std::vector<size_t> ends;  // of each job, in pieces
  for (const Job& job : jobs_) {
    all.push_back(piecesOf(job.packed, job.sourceType, job.source, memory.data() + job.offset));
    ends.push_back((ends.empty() ? 0 : ends.back()) + all.back().count);
  }
  std::vector<std::atomic<size_t>> done(jobs_.size());
  parallelFor(ends.empty() ? 0 : ends.back(), threads, [&](size_t piece) {
    const auto job =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), piece) - ends.begin());
    all[job].work(piece - (ends[job] - all[job].count));
    if (++done[job] == all[job].count && jobs_[job].origin) jobs_[job].origin->forget();
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
