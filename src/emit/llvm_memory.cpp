#include <algorithm>
#include <cmath>
#include <utility>

#include "emit/llvm_body.h"
#include "emit/prepare.h"
#include "ir/lanes.h"
#include "support/check.h"

namespace tektite::llvm_text {

std::vector<Expr> rowMajor(const std::vector<Expr>& shape) {
  std::vector<Expr> strides(shape.size(), Expr(1));
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

uint64_t bitOf(const std::string& name) {
  return uint64_t{1} << (Hasher().add(std::string_view(name)).finish().lo % 64);
}

const Place& Body::placeOf(const std::string& name) const {
  const auto it = places_.find(name);
  TEKTITE_CHECK(it != places_.end(), "no buffer '{}'", name);
  return it->second;
}

/// Is the element certainly in memory that may be read: another of the same buffer, or elsewhere in the tile's scratch?
bool Body::inRangeFlat(const Place& place, const std::vector<Expr>& index) {
  if (place.own || place.perLane) return false;
  constexpr int64_t kSlackBytes = 1024;
  Expr flat = 0;
  int64_t size = 1, stride = 1;
  for (size_t i = index.size(); i-- > 0;) {
    const auto extent = asInteger(place.shape[i]);
    if (!extent || asInteger(place.strides[i]) != stride) return false;
    stride *= *extent;
    size *= *extent;
    flat = flat + index[i] * place.strides[i];
  }
  const Interval in = facts().bounds(flat);
  const int64_t element = bytes(place.type);
  if (place.scratchAt < 0) return in.low >= 0 && in.high < size;
  if (in.high >= size + kSlackBytes / element || in.low * element < -place.scratchAt) return false;
  scratchPeak_ = std::max(scratchPeak_, place.scratchAt + (in.high + 1) * element);
  return true;
}

bool Body::inRange(const Place& place, const std::vector<Expr>& index) {
  return inRangeFlat(place, index) || provenInside(facts(), place.shape, index);
}

Address Body::address(const Ref& ref) {
  const Place& place = placeOf(ref.buffer);
  TEKTITE_CHECK(ref.index.size() == place.shape.size(), "{} has rank {}, found {} indices",
                ref.buffer, place.shape.size(), ref.index.size());
  Address out{&place, {}};
  Expr flat = 0;
  for (size_t i = 0; i < ref.index.size(); i++) flat = flat + ref.index[i] * place.strides[i];
  if (place.perLane) flat = flat * Expr(place.perLane) + var(laneVariable_);
  Linear rest{{}, 0};
  const Linear sum = linearOf(flat);
  uint64_t multiples = static_cast<uint64_t>(sum.constant);
  bool even = true;
  for (const auto& [term, by] : sum.terms) {
    const Var* v = term.as<Var>();
    if (lanes_ && v && v->name == laneVariable_) {
      out.lane = by;
      continue;
    }
    even &= !varies(term);
    multiples |= static_cast<uint64_t>(by);
    rest.terms.push_back({term, by});
  }
  out.inRange = !mask_ || inRange(place, ref.index);
  if (!even) {
    out.offsets = flat;
    out.lane = 0;
    return out;
  }
  out.constant = sum.constant;
  if (!rest.terms.empty()) out.base = toExpr(rest);
  out.unit = multiples ? static_cast<int64_t>(multiples & -multiples) : 1 << 12;
  return out;
}

std::string Body::pointer(const Address& a, int64_t extra) {
  std::string at = a.place->pointer;
  if (a.base) {
    const Hash key = Hasher()
                         .add(std::string_view("pointer"))
                         .add(std::string_view(at))
                         .add(a.base.hash())
                         .finish();
    if (const Value* known = memo_.find(key)) {
      at = known->text;
    } else {
      const Value offset = emit(a.base);
      at = out_.set("at", "getelementptr {}, ptr {}, i64 {}", memoryType(a.place->type), at,
                    offset.text);
      memo_.add(key, {at, DType::I64}, readsOf(a.base));
    }
  }
  const int64_t offset = (a.constant + extra) * bytes(a.place->type);
  if (!offset) return at;
  const Hash key =
      Hasher().add(std::string_view("offset")).add(std::string_view(at)).add(offset).finish();
  if (const Value* known = memo_.find(key)) return known->text;
  const std::string there = out_.set("at", "getelementptr i8, ptr {}, i64 {}", at, offset);
  memo_.add(key, {there, DType::I64}, 0);
  return there;
}

int64_t Body::alignOf(const Address& a, int64_t extra) const {
  int64_t unit = a.unit;
  if (extra) unit = std::min(unit, extra & -extra);
  return std::max<int64_t>(bytes(a.place->type),
                           std::min(a.place->align, unit * bytes(a.place->type)));
}

std::string Body::someLane() {
  return out_.call("some", "i1", fmt::format("llvm.vector.reduce.or.v{}i1", lanes_), typed(mask_),
                   typeOf(mask_));
}

namespace {

/// How the elements of lanes are read from two vectors of `n`: the first of the span and the last.
struct Pick {
  int64_t low, span;
  int n = 1;
  bool fits;
  const std::vector<int64_t>& distances;

  Pick(const std::vector<int64_t>& all, int lanes) : distances(all) {
    const auto [least, most] = std::ranges::minmax_element(all);
    low = *least;
    span = *most - low + 1;
    while (2 * n <= std::min<int64_t>(span, lanes)) n *= 2;
    fits = span <= 2 * n;
  }
  int64_t from(int half) const { return half ? low + span - n : low; }
  /// 0 ... n - 1: of the first elements, n ... 2 n - 1: of the last.
  int64_t source(int lane) const {
    const int64_t at = distances[lane] - low;
    return at < n ? at : at - (span - n) + n;
  }
  /// The lanes that read each element of one of the two vectors.
  std::vector<std::vector<int>> readers(int half) const {
    std::vector<std::vector<int>> out(n);
    for (int l = 0; l < static_cast<int>(distances.size()); l++)
      if (source(l) / n == half) out[source(l) % n].push_back(l);
    return out;
  }
};

std::string shuffle(int count, const std::function<int64_t(int)>& at) {
  std::string out;
  for (int i = 0; i < count; i++) out += fmt::format("{}i32 {}", i ? ", " : "", at(i));
  return fmt::format("<{} x i32> <{}>", count, out);
}

}  // namespace

Value Body::loadFrom(const Address& a) {
  if (!lanes_ || !a.varies())
    return a.inRange || someOn_ || a.place->own ? loadScalar(a) : loadGuarded(a);
  if (a.lane == 1) return loadVector(a);
  if (!a.offsets && isColumn(a)) return loadColumn(a);
  const auto lanes = steady(a);
  return lanes && Pick(lanes->distances, lanes_).fits ? loadPicked(lanes->first, lanes->distances)
                                                      : gather(a);
}

/// A column of a square block of registers, a row a lane?
bool Body::isColumn(const Address& a) const {
  return a.place->own && !a.base && !a.place->perLane && a.lane >= lanes_ && a.lane % lanes_ == 0 &&
         lanes_ >= 4 && (lanes_ & (lanes_ - 1)) == 0 && a.constant >= 0 && a.constant < a.lane;
}

/// Transposes the block around the column, once for all of its columns: at each of log2(lanes) steps row i and row i + lanes / 2 become
/// two rows of pairs, which moves the highest bit of an element's row number to the lowest of its lane.
Value Body::loadColumn(const Address& a) {
  const DType type = a.place->type;
  const int64_t first = a.constant / lanes_ * lanes_;
  const auto key = [&](int64_t column) {
    return Hasher()
        .add(std::string_view("column"))
        .add(std::string_view(a.place->pointer))
        .add(first + column)
        .add(lanes_)
        .finish();
  };
  if (const Value* known = memo_.find(key(a.constant - first))) return *known;
  const std::string vector = memoryType(type, lanes_);
  std::vector<std::string> rows;
  for (int i = 0; i < lanes_; i++) {
    Address row = a;
    row.constant = first + i * a.lane;
    row.unit = lanes_;
    rows.push_back(
        out_.set(a.place->name, "load {}, ptr {}, align {}", vector, pointer(row), alignOf(row)));
  }
  std::string halves[2];
  for (int i = 0; i < lanes_; i++)
    halves[2 * i / lanes_] +=
        fmt::format("{}i32 {}, i32 {}", 2 * i % lanes_ ? ", " : "", i, i + lanes_);
  for (int step = 1; step < lanes_; step *= 2) {
    std::vector<std::string> next;
    for (int i = 0; i < lanes_; i++)
      next.push_back(out_.set(a.place->name, "shufflevector {0} {1}, {0} {2}, <{3} x i32> <{4}>",
                              vector, rows[i / 2], rows[i / 2 + lanes_ / 2], lanes_,
                              halves[i % 2]));
    rows = std::move(next);
  }
  for (int i = 0; i < lanes_; i++)
    memo_.add(key(i), scalars_.fromMemory(rows[i], type, lanes_), a.place->bit);
  return *memo_.find(key(a.constant - first));
}

Value Body::loadScalar(const Address& a) {
  const DType type = a.place->type;
  return scalars_.fromMemory(out_.set(a.place->name, "load {}, ptr {}, align {}", memoryType(type),
                                      pointer(a), alignOf(a)),
                             type, 0);
}

/// The same for all lanes, where perhaps none is on: read only if one is.
Value Body::loadGuarded(const Address& a) {
  const std::string before = out_.fresh("ask"), read = out_.fresh("read"),
                    done = out_.fresh("known");
  const std::string at = pointer(a), some = someLane();
  out_.jump(before);
  out_.start(before);
  out_.branch(some, read, done);
  out_.start(read);
  const std::string type = memoryType(a.place->type);
  const std::string value =
      out_.set(a.place->name, "load {}, ptr {}, align {}", type, at, alignOf(a));
  out_.jump(done);
  out_.start(done);
  const std::string both = out_.set(a.place->name, "phi {} [ {}, %{} ], [ zeroinitializer, %{} ]",
                                    type, value, read, before);
  return scalars_.fromMemory(both, a.place->type, 0);
}

Value Body::loadVector(const Address& a) {
  const DType type = a.place->type;
  const std::string vector = memoryType(type, lanes_), at = pointer(a);
  if (a.inRange)
    return scalars_.fromMemory(
        out_.set(a.place->name, "load {}, ptr {}, align {}", vector, at, alignOf(a)), type, lanes_);
  const std::string text = out_.call(
      a.place->name, vector, fmt::format("llvm.masked.load.{}.p0", memorySuffix(type, lanes_)),
      fmt::format("ptr {}, i32 {}, {}, {} zeroinitializer", at, alignOf(a), typed(mask_), vector),
      fmt::format("ptr, i32, {}, {}", typeOf(mask_), vector));
  return scalars_.fromMemory(text, type, lanes_);
}

/// select(c, x[..], 0) with a condition for each lane: one load whose other lanes are 0, where the machine has such.
std::optional<Value> Body::loadOrZero(const Apply& choice) {
  const Load* l = choice.args[1].as<Load>();
  const Imm* zero = choice.args[2].as<Imm>();
  if (!target_.maskedMoves || !lanes_ || !l || !zero || zero->integer || zero->real != 0 ||
      std::signbit(zero->real) || !varies(choice.args[0]))
    return std::nullopt;
  Address a = address({l->buffer, l->index});
  if (a.place->own || a.offsets || a.lane != 1) return std::nullopt;
  const Value outer = mask_;
  mask_ = maskAnd(emit(choice.args[0]));
  a.inRange = false;
  const Value out = loadVector(a);
  mask_ = outer;
  return out;
}

/// Lane 0's element, and how far the other lanes' lie from it, where these distances are constants: of strides, and of indices that divide
/// the lane's number (an image that is enlarged).
std::optional<Body::Steady> Body::steady(const Address& a) {
  Steady out{a, {}};
  out.first.lane = 0;
  if (!a.offsets) {
    for (int l = 0; l < lanes_; l++) out.distances.push_back(l * a.lane);
    return out;
  }
  if (!loadsOf(a.offsets).empty()) return std::nullopt;
  auto places = lanePlaces(lanes_, [&](int l) {
    return linearOf(facts().simplify(substitute(a.offsets, {{laneVariable_, Expr(l)}})));
  });
  if (!places) return std::nullopt;
  out.distances = std::move(places->distances);
  out.first.offsets = {};
  out.first.constant = std::exchange(places->first.constant, 0);
  out.first.base = places->first.terms.empty() ? Expr() : toExpr(places->first);
  out.first.unit = 1;
  return out;
}

/// The mask of a vector's elements that lanes which are on read: `readers` of each.
std::string Body::wanted(const std::vector<std::vector<int>>& readers) {
  const int n = static_cast<int>(readers.size());
  size_t rounds = 0;
  for (const auto& lanes : readers) rounds = std::max(rounds, lanes.size());
  std::string on;
  for (size_t r = 0; r < rounds; r++) {
    const std::string some =
        out_.set("on", "shufflevector {}, {} zeroinitializer, {}", typed(mask_), typeOf(mask_),
                 shuffle(n, [&](int i) { return r < readers[i].size() ? readers[i][r] : lanes_; }));
    on = on.empty() ? some : out_.set("on", "or <{} x i1> {}, {}", n, on, some);
  }
  return on;
}

/// Lanes whose elements lie in two vectors' span: the first of them and the last, and a shuffle. Nothing beside them is touched.
Value Body::loadPicked(const Address& a, const std::vector<int64_t>& distances) {
  const Pick pick(distances, lanes_);
  const DType type = a.place->type;
  const int n = pick.n;
  const std::string vector = memoryType(type, n);
  const auto read = [&](int half) {
    const int64_t from = pick.from(half);
    if (a.inRange)
      return out_.set(a.place->name, "load {}, ptr {}, align {}", vector, pointer(a, from),
                      alignOf(a, from));
    return out_.call(
        a.place->name, vector, fmt::format("llvm.masked.load.{}.p0", memorySuffix(type, n)),
        fmt::format("ptr {}, i32 {}, <{} x i1> {}, {} zeroinitializer", pointer(a, from),
                    alignOf(a, from), n, wanted(pick.readers(half)), vector),
        fmt::format("ptr, i32, <{} x i1>, {}", n, vector));
  };
  const std::string first = read(0), last = pick.span > n ? read(1) : "poison";
  return scalars_.fromMemory(
      out_.set(a.place->name, "shufflevector {0} {1}, {0} {2}, {3}", vector, first, last,
               shuffle(lanes_, [&](int l) { return pick.source(l); })),
      type, lanes_);
}

std::string Body::pointers(const Address& a) {
  const std::string element = memoryType(a.place->type);
  if (a.offsets) {
    const Value offsets = scalars_.splat(emit(a.offsets), lanes_);
    return out_.set("at", "getelementptr {}, ptr {}, {}", element, a.place->pointer,
                    typed(offsets));
  }
  return out_.set("at", "getelementptr {}, ptr {}, {}", element, pointer(a),
                  typed(scalars_.laneNumbers(lanes_, DType::I64, a.lane)));
}

Value Body::gather(const Address& a) {
  const DType type = a.place->type;
  const std::string vector = memoryType(type, lanes_), scalar = memoryType(type);
  if (a.inRange) {
    const Value offsets = a.offsets ? emit(a.offsets) : Value{};
    std::string out = "poison";
    for (int i = 0; i < lanes_; i++) {
      const std::string at = a.offsets ? out_.set("at", "getelementptr {}, ptr {}, i64 {}", scalar,
                                                  a.place->pointer, scalars_.lane(offsets, i).text)
                                       : pointer(a, i * a.lane);
      const std::string one =
          out_.set(a.place->name, "load {}, ptr {}, align {}", scalar, at, bytes(type));
      out = out_.set(a.place->name, "insertelement {} {}, {} {}, i64 {}", vector, out, scalar, one,
                     i);
    }
    return scalars_.fromMemory(out, type, lanes_);
  }
  const std::string at = pointers(a);
  const std::string text =
      out_.call(a.place->name, vector,
                fmt::format("llvm.masked.gather.{}.v{}p0", memorySuffix(type, lanes_), lanes_),
                fmt::format("<{} x ptr> {}, i32 {}, {}, {} zeroinitializer", lanes_, at,
                            bytes(type), typed(mask_), vector),
                fmt::format("<{} x ptr>, i32, {}, {}", lanes_, typeOf(mask_), vector));
  return scalars_.fromMemory(text, type, lanes_);
}

}  // namespace tektite::llvm_text
