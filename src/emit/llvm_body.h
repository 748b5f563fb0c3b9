#pragma once
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "emit/llvm_memo.h"
#include "emit/llvm_scalar.h"
#include "emit/llvm_text.h"
#include "ir/dot.h"
#include "ir/facts.h"
#include "ir/kernel.h"

namespace tektite::llvm_text {

/// Where a buffer lies.
struct Place {
  std::string name;
  DType type = DType::F32;
  std::vector<Expr> shape, strides;
  std::string pointer;
  int perLane = 0;    ///< allocated in a vector loop of that many lanes: a hidden last axis
  bool own = false;   ///< registers: lanes that are off may be touched
  int64_t align = 1;  ///< bytes
  int64_t scratchAt =
      -1;  ///< bytes from the scratch memory's start: what lies around it may be read, too
  uint64_t bit = 0;  ///< for Memo: the same for buffers of one alias class
};
std::vector<Expr> rowMajor(const std::vector<Expr>& shape);
uint64_t bitOf(const std::string& name);

/// An element, or one a lane: `base + constant + lane * l` elements on, or `offsets` where that is not its form.
struct Address {
  const Place* place;
  Expr base;  ///< null: 0; the same for all lanes
  int64_t constant = 0, lane = 0;
  Expr offsets;          ///< null where the lanes have a constant stride
  int64_t unit = 1;      ///< elements: base and constant are multiples of it (a power of two)
  bool inRange = false;  ///< proven for all lanes, on or off
  bool varies() const { return offsets || lane; }
};

/// What a `sync last` in a grid needs.
struct LastTile {
  Expr extent;      ///< of the innermost grid loop
  Expr counter;     ///< which counter
  std::string end;  ///< label where the other tiles go
};

/// The statements of a tile (or of the code around the grids) as one LLVM function's instructions.
class Body {
 public:
  Body(FunctionText& out, const KernelModule& module, const Target& target, FastMath mode)
      : out_(out), module_(module), target_(target), mode_(mode), scalars_(out, target, mode) {}

  void bind(const std::string& variable, const Value& value, Interval range);
  void assume(const Expr& condition) {
    assumed_.push_back(condition);
    facts_.reset();
  }
  void constant(const std::string& variable, int64_t value) { constants_[variable] = Expr(value); }
  void add(Place place) { places_[place.name] = std::move(place); }
  void setLast(LastTile last) { last_ = std::move(last); }
  Value emit(const Expr&);  ///< in a register; of lanes only where it differs between them
  Expr now(const Expr& e) const { return constants_.empty() ? e : substitute(e, constants_); }
  int64_t highest(const Expr& e) { return facts().bounds(now(e)).high; }
  void block(const Block&);
  /// `body` for each value of the variable below `extent`.
  void loop(const std::string& variable, const Expr& extent, uint64_t written,
            const std::function<void()>& body);
  void branch(const Expr& condition, const std::function<void()>& body);
  void fence();  ///< makes streamed stores visible
  int64_t scratchPeak() const { return scratchPeak_; }
  bool streamed() const { return streamed_; }

 private:
  // statements (llvm_body.cpp)
  void statement(const Stmt&);
  void forLoop(const For&);
  void vectorLoop(const For&, int lanes);
  void ifElse(const If&);
  void masked(const Expr& condition, const If&);
  bool needsSomeLane(const Block&);
  void allocate(const Stmt&, const Buffer&);
  void copy(const Copy&);
  void prefetch(const Copy&, size_t axis);
  void arrive();
  // instructions (llvm_intrin.cpp)
  void intrin(const Intrin&);
  void dot(const Dot&, const std::vector<Ref>&);
  void meaning(const IntrinDef&, const std::vector<Ref>&);
  std::string tileOf(const Ref&, const std::string& type, const std::string& use,
                     const std::function<std::string(const std::string&)>& prepared);
  // stores (llvm_store.cpp)
  void store(const Store&);
  std::vector<Value> combined(const Store&, const std::vector<Address>&, std::vector<Value>);
  std::vector<Value> reduced(const Combine&, const std::vector<Address>&, std::vector<Value>);
  std::vector<Value> join(const Combine&, const std::vector<Value>&, const std::vector<Value>&);
  Combine combineOf(const std::string& name, DType);
  void storeTo(const Address&, const Value&, bool stream);
  void storeLastLane(const Address& a, const Value& value);
  void storeLanes(const Address&, const Value&);
  void storeOneByOne(const Store&, const std::vector<Ref>&, const std::vector<Value>&);
  // expressions (llvm_expr.cpp)
  Expr ready(const Expr&);  ///< to be emitted: constants in place, functions expanded
  Value compute(const Expr&);
  Value applyOp(const Expr&, const Apply&);
  Value castTo(const Expr&, const Cast&);
  Value choose(const Apply&);
  Value chooseBranch(const Expr& condition, const Expr& yes, const Expr& no);
  std::optional<Value> compareLanes(Op, const Expr&, const Expr&);
  bool isSafe(const Expr&);  ///< touches only what is proven to be in range
  bool varies(const Expr&);
  uint64_t readsOf(const Expr&);
  Value maskAnd(const Value&);
  // memory (llvm_memory.cpp)
  const Place& placeOf(const std::string& name) const;
  bool inRange(const Place&, const std::vector<Expr>& index);
  bool inRangeFlat(const Place&, const std::vector<Expr>& index);
  Address address(const Ref&);
  std::string pointer(const Address&, int64_t extra = 0);
  Value loadFrom(const Address&);
  Value loadScalar(const Address&);
  Value loadGuarded(const Address&);
  Value loadVector(const Address&);
  std::optional<Value> loadOrZero(const Apply& choice);
  struct Steady {
    Address first;  ///< lane 0's
    std::vector<int64_t> distances;
  };
  std::optional<Steady> steady(const Address&);
  std::string wanted(const std::vector<std::vector<int>>& readers);
  Value loadPicked(const Address&, const std::vector<int64_t>& distances);
  bool isColumn(const Address&) const;
  Value loadColumn(const Address&);
  Value gather(const Address&);
  std::string pointers(const Address&);
  int64_t alignOf(const Address&, int64_t extra = 0) const;
  std::string someLane();

  void forgetAssumption() {
    assumed_.pop_back();
    facts_.reset();
  }
  Facts& facts() {
    if (!facts_) facts_.emplace(ranges_, assumed_);
    return *facts_;
  }

  FunctionText& out_;
  const KernelModule& module_;
  const Target& target_;
  const FastMath mode_;
  std::unordered_set<Hash> exact_;  ///< applications of functions' expansions
  Scalars scalars_;
  Memo memo_;
  std::unordered_map<std::string, Value> variables_;
  std::unordered_map<std::string, Expr> constants_;  ///< variables of unrolled loops
  std::map<std::string, Place> places_;
  Ranges ranges_;
  std::vector<Expr> assumed_;
  std::optional<Facts> facts_;
  std::unordered_map<Hash, bool> varies_;
  std::unordered_map<Hash, uint64_t> reads_;
  std::unordered_map<const Stmt*, std::string> allocated_;
  std::unordered_map<std::string, std::optional<Dot>> dots_;  ///< by the instruction's name
  int lanes_ = 0;  ///< of the vector loop around; 0: none
  std::string laneVariable_;
  Value mask_;          ///< lanes that are on; none: all
  bool someOn_ = true;  ///< at least one lane is
  std::optional<LastTile> last_;
  int64_t scratchTop_ = 0, scratchPeak_ = 0;  ///< bytes; what is read beside a buffer counts
  bool streamed_ = false;
};

/// Bits of the buffers that a block stores to.
uint64_t writtenBy(const Block&, const std::function<uint64_t(const std::string&)>& bit);

}  // namespace tektite::llvm_text
