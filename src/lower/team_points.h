#pragma once
#include <functional>

#include "lower/nest.h"

namespace tektite {

inline const char* const kThread = "t";  ///< the variable of thread loops
inline const char* const kWarp = "w";    ///< of the loops over warps around them

/// What all nests of a stage that a team runs have in common: numbers of points become coordinates, and a stage's expressions the kernel's.
class TeamPoints {
 public:
  TeamPoints(const Stage&, int threads, const KernelBuffers&, const Ranges& tiles);

 protected:
  using Fill = std::function<void(Block&)>;
  using Results = std::unordered_map<std::string, Expr>;

  /// Elements along an axis in one execution, at most.
  int64_t most(int axis) const;
  int64_t pointsOf(const std::vector<int>& axes) const;
  /// The variable of the axis' loop; `i4` is a type in the kernel language.
  std::string loopName(int axis) const;
  /// Numbers below the axes' points become coordinates, the last axis fastest, `vector` of its elements (variable "l") a point. What
  /// isn't always so is a condition. Facts hold of the number already.
  void decode(const Expr& number, const std::vector<int>& axes, int vector,
              std::vector<Expr>& conditions);
  /// A loop of the axis, over coordinates.
  void axisLoop(Block& out, int axis, const Fill& inside);
  void serial(Block& out, const std::string& v, const Expr& extent, int64_t atMost,
              const Fill& inside);
  /// The statements in rounds of so many numbers; `lane` is the number in the first.
  void rounds(Block& out, int64_t total, int64_t perRound, const std::string& v, const Expr& lane,
              const std::function<void(Block&, const Expr& number)>& inside);
  static void addIf(Block& out, const std::vector<Expr>& conditions, Block body);
  static void append(Block& out, Block more);
  Stmt team(Block body) const;
  void warpsInRange();
  /// While it lives, statements are made for the lanes of warps: `kThread` counts those, `kWarp` the warps.
  class InWarps {
   public:
    explicit InWarps(TeamPoints&);
    ~InWarps();
    InWarps(const InWarps&) = delete;
    InWarps& operator=(const InWarps&) = delete;

   private:
    TeamPoints& points_;
    Expr before_;
    Interval range_;
  };
  static Stmt loop(std::string v, Expr extent, LoopMode mode, Block body);

  void add(Block& out, const StageStore&, const Results& = {}) const;
  Expr translate(const Expr&, const Results& = {}) const;
  std::vector<Expr> simplified(std::vector<Expr>) const;

  const Stage& stage_;
  const int threads_;
  const int warp_ = 32;
  Expr thread_;  // number of the thread in its team
  const KernelBuffers& buffers_;
  Ranges ranges_;
  std::vector<Expr> low_, extent_;            // of each axis in one execution
  std::unordered_map<std::string, Expr> at_;  // axis -> coordinate
  std::vector<Expr> facts_;                   // what holds where statements are made

 private:
  void condition(const Expr&, std::vector<Expr> facts, std::vector<Expr>& out) const;
};

}  // namespace tektite
