#pragma once
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "emit/c_language.h"
#include "ir/facts.h"
#include "ir/kernel.h"
#include "ir/target.h"

namespace tektite::c_text {

/// A value as text. `binds`: how tightly its outermost sign binds (0: needs parentheses everywhere). `narrow`: an i64 that is an int here.
struct Value {
  std::string text;
  int binds = kAtom;
  DType type = DType::I64;
  bool narrow = false;
  static constexpr int kAtom = 4, kProduct = 3, kSum = 2;
  /// In parentheses unless it binds at least so tightly.
  std::string at(int least) const { return binds >= least ? text : "(" + text + ")"; }
};

/// Where a buffer lies: `name[...]`, or the variable `name` where it has no elements to choose from.
struct Place {
  std::string name;
  DType type = DType::F32;
  std::vector<Expr> shape, strides;
  std::vector<bool> owned =
      {};                    ///< dimensions that each thread has one of: their indices are dropped
  bool inRegisters = false;  ///< holds values as registers do
  bool isScalar = false;
  int64_t align = 1;    ///< bytes
  int lanes = 0;        ///< of the vector loop that it was allocated in: each lane has its own
  bool isMain = false;  ///< main memory
};

/// The statements of a tile, or of one thread of its team, as C.
class Body {
 public:
  Body(const Language& language, const KernelModule& module, const Target& target, int indent)
      : language_(language), module_(module), target_(target), indent_(indent) {}

  void bind(const std::string& variable, const Value& value, Interval range);
  void constant(const std::string& variable, int64_t value) { constants_[variable] = Expr(value); }
  void add(const std::string& buffer, Place place);
  void reserve(const Kernel&);  ///< its names are no others'
  /// A team of `threads` runs the tile; 0: one work-item does.
  void setTeam(int threads, const Block& tile);
  /// What `sync last` waits for: the counter's number and how many arrive.
  void setLast(Expr counter, Expr arrivals);
  void finish();  ///< of the tile
  void block(const Block&);
  void line(const std::string& text);
  void open(const std::string& head);  ///< "head {"
  void close();
  Value emit(const Expr&);
  std::string index(const Expr&);  ///< an i64 as text, the shortest way
  Expr now(const Expr& e) const { return constants_.empty() ? e : substitute(e, constants_); }
  Interval range(const Expr& e) { return facts().bounds(now(e)); }
  void begin(
      const std::vector<Expr>& roots);  ///< of a statement: what it uses more than once gets a name

  const std::string& text() const { return out_; }
  const std::vector<std::string>& helpers() const { return helpers_; }
  std::string sharedDeclarations() const;
  int64_t sharedBytes() const { return sharedPeak_; }
  bool sharesDynamically() const;  ///< more than a team can declare
  void helper(const std::string& name) { addHelper(language_, name, helpers_); }

 private:
  // statements (c_body.cpp)
  void statement(const Stmt&);
  void forLoop(const For&);
  void loop(const For&, const Expr& extent);
  bool storesToMain(const Block&) const;
  void masked(const Expr& condition, const Block&);
  bool varies(const Expr&) const;
  Expr atLane(const Expr&, int lane) const;
  void inLane(int lane, const std::vector<Expr>& values, const std::function<void()>& body);
  void teamLoop(const For&);
  void vectorLoop(const For&, int lanes);
  void ifElse(const If&);
  /// ofThread: no compiler is to see that all threads agree.
  void branch(const Expr& condition, const std::function<void()>& body, bool ofThread = false);
  void seeFragments(const Intrin&,
                    const std::function<void(const std::string&, const std::vector<Expr>&)>& see);
  void sync(const Sync&);
  void arrive();
  // memory (c_memory.cpp)
  void allocate(const Buffer&);
  void allocateFragment(const Buffer&);
  void copy(const Copy&);
  bool copyAsync(const Copy&);
  void intrinsic(const Intrin&);
  std::string operand(const IntrinArg&, bool isFragment);
  // stores (c_store.cpp)
  void store(const Store&);
  void storeOnce(const Store&, const std::vector<Ref>& targets, const std::vector<Expr>& values);
  void storeLanes(const Store&);
  bool storeVector(const Store&);
  std::vector<Expr> joined(const Store&, const std::vector<Ref>& targets,
                           const std::vector<Expr>& values);
  bool crosses(const std::vector<Ref>& targets, const std::vector<Expr>& values) const;
  std::string element(const Ref&);
  std::string toMemory(const Place&, const Value&);
  void loadVectors(const std::vector<Expr>& values);
  std::optional<Expr> vectorAddress(const Place&, const std::vector<Expr>& index);
  std::string vectorType(const Place&) const;
  // expressions (c_expr.cpp)
  Value compute(const Expr&);
  Value named(const Expr&, const Value&);
  Value loadFrom(const Expr&, const Load&);
  Value fromMemory(DType, const std::string& text);
  Value number(const Expr&, const Imm&) const;
  Value choose(const Expr&, const Apply&);
  Value cast(DType to, const Value&, const Expr& from);
  Value applyOp(const Expr&, const Apply&);
  Value realOp(const Expr&, const Apply&);
  Value integerOp(const Expr&, const Apply&);
  Value boolOp(const Apply&);
  Value rounded(DType, std::string text, int binds);
  Value division(const Expr&, const Apply&);
  Value binary(const Expr&, const Apply&, std::string_view sign, int binds);
  std::string atom(const Expr&);  ///< of something that is written more than once
  bool isSafe(const Expr&);
  bool isSmall(const Expr&) const;
  bool inRange(const Place&, const std::vector<Expr>& index);
  Expr flat(const Place&, const std::vector<Expr>& index);
  bool fits(const Expr&, const Apply&);
  uint64_t readsOf(const Expr&);
  const Place& placeOf(const std::string& name) const;
  const Value* known(const Expr&) const;
  void forget(uint64_t written);
  uint64_t bitsWritten(const Block&) const;
  std::string fresh(std::string_view hint);
  std::string valueType(const Expr&, const Value&) const;

  Facts& facts() {
    if (!facts_) facts_.emplace(ranges_, assumed_);
    return *facts_;
  }
  void assume(const Expr& fact) {
    assumed_.push_back(fact);
    facts_.reset();
  }
  void unassume() {
    assumed_.pop_back();
    facts_.reset();
  }

  const Language& language_;
  const KernelModule& module_;
  const Target& target_;
  int indent_;
  std::string out_;
  struct Shared {
    std::string name;
    DType type;
    int64_t count, at;
  };
  std::vector<Shared> shared_;
  int64_t sharedTop_ = 0, sharedPeak_ = 0;  ///< bytes; those of blocks in sequence are the same
  bool usesLast_ = false;
  std::vector<std::string> helpers_;
  std::map<std::string, Place> places_;
  std::unordered_map<std::string, Value> variables_;
  std::unordered_map<std::string, Expr> constants_;  ///< variables with one value
  Ranges ranges_;
  std::vector<Expr> assumed_;
  std::optional<Facts> facts_;
  struct Known {
    Value value;
    uint64_t reads;
  };
  std::vector<std::unordered_map<Hash, Known>> memo_ = {{}};
  std::unordered_map<Hash, int> uses_;  ///< of what the statement computes
  std::unordered_map<Hash, uint64_t> reads_;
  int inline_ = 0;  ///< nothing gets a name: it may not be computed here
  int count_ = 0;
  std::set<std::string> taken_;     ///< by what the team shares
  std::set<std::string> reserved_;  ///< names of the kernel
  // the team
  int threads_ = 0;
  std::vector<std::string> ofThread_;  ///< variables of the team's loops around
  bool inWarp_ = false;
  struct Fragment {
    std::string type;
    int count = 0, rank = 0;  ///< what a thread holds of a tile; the tile's dimensions
  };
  std::map<std::string, Fragment> fragments_;
  std::map<std::string, std::vector<bool>> owned_;  ///< of each buffer in registers, Place::owned
  // the vector loop
  int lanes_ = 0;
  std::string lane_;
  std::vector<std::string> masks_;  ///< one a lane; none: all are on
  Expr counter_, arrivals_;
  int opened_ = 0;  ///< braces that the end of a tile closes
};

std::vector<Expr> rowMajor(const std::vector<Expr>& shape);
/// A name that is none of C's.
std::string identifier(const std::string& name);
uint64_t bitOf(const std::string& buffer);

}  // namespace tektite::c_text
