#include <algorithm>
#include <utility>

#include "lower/team.h"
#include "lower/team_points.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLongSum = 512;  // additions into one register; more are cut into pieces
constexpr int64_t kPiece = 128;    // of about so many
constexpr int kJoined = 8;         // partial results that a step of the joining tree makes one
const char* const kRound = "round";

class TeamNest : TeamPoints {
 public:
  TeamNest(const Stage& stage, const TeamStage& schedule, int threads, const KernelBuffers& buffers,
           const Ranges& tiles)
      : TeamPoints(stage, threads, buffers, tiles), schedule_(schedule) {
    ranges_["l"] = {0, schedule.vector - 1};
  }

  Block run() {
    Block out;
    for (size_t i = 0; i < extent_.size(); i++)
      if (isConstant(extent_[i], 0) && !stage_.axes[i].reduce) return out;
    if (schedule_.shuffles)
      joinedByWarps(out);
    else if (schedule_.group > 1)
      joined(out);
    else
      alone(out);
    return out;
  }

 private:
  // ---- points that are one thread's

  void alone(Block& out) {
    Block body;
    const int64_t total = pointsOf(schedule_.dealt) / schedule_.vector;
    rounds(body, total, threads_, kRound, thread_, [&](Block& round, const Expr& flat) {
      std::vector<Expr> conditions;
      decode(flat, schedule_.dealt, schedule_.vector, conditions);
      Block point;
      serialAxes(0, point);
      addIf(round, conditions, std::move(point));
    });
    if (!body.empty()) out.push_back(team(std::move(body)));
  }
  void serialAxes(size_t k, Block& out) {
    if (k == schedule_.serial.size()) return leaf(out);
    axisLoop(out, schedule_.serial[k], [&](Block& inner) { serialAxes(k + 1, inner); });
  }
  void leaf(Block& out) {
    if (stage_.accumulators.empty()) {
      Block body;
      for (const StageStore& s : stage_.inner) add(body, s, {});
      for (const StageStore& s : stage_.outer) add(body, s, {});
      return lanes(out, std::move(body));
    }
    Block scope;
    allocate(scope, "");
    initialise(scope, "");
    const Pieces pieces = piecesOf(schedule_.reduce);
    reduceLoops(0, pieces, scope);
    Block body;
    for (const StageStore& s : stage_.outer) add(body, s, resultsInRegisters());
    lanes(scope, std::move(body));
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }
  void lanes(Block& out, Block body) const {
    if (body.empty()) return;
    if (schedule_.vector == 1)
      append(out, std::move(body));
    else
      out.push_back(loop("l", schedule_.vector, LoopMode::Vector, std::move(body)));
  }

  // ---- accumulators in registers

  Ref cell(const std::string& name) const {
    Ref r{name, {}};
    if (schedule_.vector > 1) r.index.push_back(var("l"));
    return r;
  }
  void allocate(Block& out, const std::string& prefix) const {
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++) {
        Buffer b{prefix + a.names[c], a.combine.types[c], {}, {}, "reg", 0, ""};
        if (schedule_.vector > 1) b.shape.emplace_back(schedule_.vector);
        out.push_back({Alloc{std::move(b)}, ""});
      }
  }
  void initialise(Block& out, const std::string& prefix) const {
    Block body;
    for (const Accumulator& a : stage_.accumulators) {
      Store s;
      for (const std::string& n : a.names) s.targets.push_back(cell(prefix + n));
      s.values = a.combine.identity;
      body.push_back({std::move(s), ""});
    }
    lanes(out, std::move(body));
  }
  Results resultsInRegisters() const {
    Results out;
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++) {
        const Ref r = cell(a.names[c]);
        out.emplace(a.names[c], load(r.buffer, a.combine.types[c], r.index));
      }
    return out;
  }
  void join(Block& out, const std::string& to, const std::string& from) const {
    Block body;
    for (const Accumulator& a : stage_.accumulators) {
      Store s;
      for (size_t c = 0; c < a.names.size(); c++) {
        s.targets.push_back(cell(to + a.names[c]));
        const Ref r = cell(from + a.names[c]);
        s.values.push_back(load(r.buffer, a.combine.types[c], r.index));
      }
      s.combine = a.combine.name;
      body.push_back({std::move(s), ""});
    }
    lanes(out, std::move(body));
  }

  // ---- long sums, in pieces that are added up

  struct Pieces {
    size_t at = 0;   ///< the loop that is cut
    int64_t of = 0;  ///< its steps a piece; 0: sums are not cut
  };
  bool onlySums() const {
    return !stage_.contraction && std::ranges::all_of(stage_.accumulators, [](const auto& a) {
      return a.combine.name == "sum" && isFloat(a.combine.types[0]);
    });
  }
  Pieces piecesOf(const std::vector<int>& axes) const {
    Pieces out;
    int64_t longest = 0;
    for (size_t k = 0; k < axes.size(); k++)
      if (most(axes[k]) > longest) longest = most(axes[k]), out.at = k;
    out.of = stepsOfPiece(pointsOf(axes), longest);
    return out;
  }
  int64_t stepsOfPiece(int64_t all, int64_t longest) const {
    if (!onlySums() || all < kLongSum || longest < 2) return 0;
    const int64_t of = std::max<int64_t>(1, kPiece * longest / all);
    return of < longest ? of : 0;
  }
  /// A loop, in pieces of `of` steps with registers of their own.
  void inPieces(Block& out, const std::string& v, const Expr& extent, int64_t atMost, int64_t of,
                const std::function<void(Block&, const Expr&)>& inside) {
    if (of == 0) return serial(out, v, extent, atMost, [&](Block& body) { inside(body, var(v)); });
    const std::string p = v + "_piece";
    const Expr count = simplify(floorDiv(extent + Expr(of - 1), of), ranges_);
    serial(out, p, count, (atMost + of - 1) / of, [&](Block& outer) {
      Block scope;
      const std::string before = std::exchange(piece_, "piece_");
      allocate(scope, piece_);
      initialise(scope, piece_);
      const Expr rest = simplify(min(of, extent - var(p) * Expr(of)), ranges_);
      serial(scope, v, rest, of, [&](Block& body) { inside(body, var(p) * Expr(of) + var(v)); });
      piece_ = before;
      join(scope, "", "piece_");
      outer.push_back({BlockStmt{std::move(scope)}, ""});
    });
  }
  void reduceLoops(size_t k, const Pieces& pieces, Block& out) {
    if (k == schedule_.reduce.size()) return lanes(out, pointBody());
    const int axis = schedule_.reduce[k];
    inPieces(out, loopName(axis), extent_[axis], most(axis), pieces.at == k ? pieces.of : 0,
             [&](Block& body, const Expr& at) {
               at_[stage_.axes[axis].var] = low_[axis] + at;
               reduceLoops(k + 1, pieces, body);
             });
  }

  /// Stores at the point, then the accumulators. A stored value that an accumulator reads again is computed once.
  Block pointBody() {
    Block body;
    std::vector<std::pair<Expr, Expr>> known;
    for (const StageStore& s : stage_.inner) {
      StageStore now = s;
      now.value = reuse(s.value, known);
      if (s.combine.empty() && !s.guard && slotsOf(s.value) >= 1) {
        const std::string name = fmt::format("w{}", known.size());
        body.push_back({Alloc{{name, s.value.type(), {}, {}, "reg", 0, ""}}, ""});
        body.push_back({Store{{{name, {}}}, "", {translate(now.value)}}, ""});
        known.emplace_back(s.value, load(name, s.value.type(), {}));
        now.value = known.back().second;
      }
      add(body, now, {});
    }
    for (const Accumulator& a : stage_.accumulators) {
      Store s;
      for (size_t c = 0; c < a.names.size(); c++) {
        s.targets.push_back(cell(piece_ + a.names[c]));
        s.values.push_back(translate(reuse(a.values[c], known)));
      }
      s.combine = a.combine.name;
      body.push_back({std::move(s), ""});
    }
    return body;
  }
  // ---- points whose reduction several threads share

  std::string partName(const std::string& n) const { return "join_" + n; }
  Stmt partsOf(const std::string& n, DType type, int groups, int parts) const {
    return {Alloc{{partName(n), type, {Expr(groups), Expr(parts)}, {}, "shared", 0, ""}}, ""};
  }
  Ref part(const std::string& n, const Expr& lane) const {
    return {partName(n), {simplify(floorDiv(thread_, groupSize()), ranges_), lane}};
  }
  Expr groupSize() const { return Expr(schedule_.group); }
  Expr laneOf() const { return simplify(floorMod(thread_, groupSize()), ranges_); }

  void joined(Block& out) {
    Block scope;
    const int groups = threads_ / schedule_.group;
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++)
        scope.push_back(partsOf(a.names[c], a.combine.types[c], groups, schedule_.group));
    const Expr slot = simplify(floorDiv(thread_, groupSize()), ranges_);
    rounds(scope, pointsOf(schedule_.dealt), groups, kRound, slot,
           [&](Block& round, const Expr& flat) {
             std::vector<Expr> conditions;
             decode(flat, schedule_.dealt, 1, conditions);
             partial(round, conditions);
             tree(round);
             Block body;
             for (const StageStore& s : stage_.outer) add(body, s, joinedResults());
             conditions.insert(conditions.begin(), eq(laneOf(), 0));
             Block stores;
             addIf(stores, conditions, std::move(body));
             if (!stores.empty()) round.push_back(team(std::move(stores)));
           });
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }
  /// Each thread's share of the reduction.
  Block share(const std::vector<Expr>& conditions) {
    Block body, sums;
    allocate(body, "");
    initialise(body, "");
    sharedLoops(0, sums);
    addIf(body, conditions, std::move(sums));
    return body;
  }
  /// The same, put into shared memory.
  void partial(Block& round, const std::vector<Expr>& conditions) {
    Block body = share(conditions);
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++)
        body.push_back(
            {Store{{part(a.names[c], laneOf())}, "", {load(a.names[c], a.combine.types[c], {})}},
             ""});
    round.push_back(team(std::move(body)));
  }
  /// Each thread walks the first reduce axes, and its share of the last ones, which are dealt as one.
  void sharedLoops(size_t k, Block& out) {
    const std::vector<int>& axes = schedule_.reduce;
    const size_t walked = axes.size() - static_cast<size_t>(schedule_.together);
    const std::vector<int> dealt(axes.begin() + static_cast<int64_t>(walked), axes.end());
    const int64_t steps = (pointsOf(dealt) + schedule_.group - 1) / schedule_.group;
    if (k < walked) {
      axisLoop(out, axes[k], [&](Block& inner) { sharedLoops(k + 1, inner); });
      return;
    }
    inPieces(out, "j", steps, steps, stepsOfPiece(steps, steps), [&](Block& inner, const Expr& j) {
      std::vector<Expr> in;
      decode(simplify(j * groupSize() + laneOf(), ranges_), dealt, 1, in);
      addIf(inner, in, pointBody());
    });
  }
  void tree(Block& round) const {
    for (int left = schedule_.group; left > 1;) {
      const int ways = std::min(left, kJoined), to = left / ways;
      Block body;
      for (int w = 1; w < ways; w++)
        for (const Accumulator& a : stage_.accumulators) {
          Store s;
          for (size_t c = 0; c < a.names.size(); c++) {
            const Ref from = part(a.names[c], laneOf() + Expr(w * to));
            s.targets.push_back(part(a.names[c], laneOf()));
            s.values.push_back(load(from.buffer, a.combine.types[c], from.index));
          }
          s.combine = a.combine.name;
          body.push_back({std::move(s), ""});
        }
      Block some;
      some.push_back({If{lt(laneOf(), to), std::move(body)}, ""});
      round.push_back(team(std::move(some)));
      left = to;
    }
  }
  Results joinedResults() const {
    Results out;
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++) {
        const Ref r = part(a.names[c], 0);
        out.emplace(a.names[c], load(r.buffer, a.combine.types[c], r.index));
      }
    return out;
  }

  // ---- the same by instructions: lanes join in registers, warps of a group in shared memory

  static Ref ofLane(const std::string& name) {
    return {"lane_" + name, {var(kWarp), var(kThread)}};
  }
  static Stmt call(const std::string& instruction, Ref tile) {
    return {Intrin{instruction, {IntrinArg{std::move(tile)}}, ""}, ""};
  }
  Stmt warps(Block body) const {
    return loop(kWarp, threads_ / warp_, LoopMode::Warp, std::move(body));
  }
  Stmt lanesOfWarp(Block body) const {
    return loop(kThread, warp_, LoopMode::Thread, std::move(body));
  }

  void joinedByWarps(Block& out) {
    const InWarps inWarps(*this);
    Block scope;
    const int groups = threads_ / schedule_.group, warpsOfGroup = schedule_.group / warp_;
    for (const Accumulator& a : stage_.accumulators) {
      scope.push_back({Alloc{{"lane_" + a.names[0],
                              DType::F32,
                              {Expr(threads_ / warp_), Expr(warp_)},
                              {},
                              "reg",
                              0,
                              ""}},
                       ""});
      if (warpsOfGroup > 1) scope.push_back(partsOf(a.names[0], DType::F32, groups, warpsOfGroup));
    }
    const Expr slot = simplify(floorDiv(thread_, groupSize()), ranges_);
    rounds(scope, pointsOf(schedule_.dealt), groups, kRound, slot,
           [&](Block& round, const Expr& flat) {
             std::vector<Expr> conditions;
             decode(flat, schedule_.dealt, 1, conditions);
             Block nest, body = share(conditions);
             for (const Accumulator& a : stage_.accumulators)
               body.push_back(
                   {Store{{ofLane(a.names[0])}, "", {load(a.names[0], DType::F32, {})}}, ""});
             nest.push_back(lanesOfWarp(std::move(body)));
             for (const Accumulator& a : stage_.accumulators)
               nest.push_back(
                   call("warp." + a.combine.name, {"lane_" + a.names[0], {var(kWarp), Expr(0)}}));
             Block stores = warpsOfGroup > 1 ? throughShared(nest, warpsOfGroup) : Block();
             Results results;
             for (const Accumulator& a : stage_.accumulators) {
               const Ref lane = ofLane(a.names[0]);
               results.emplace(a.names[0], warpsOfGroup > 1
                                               ? load(a.names[0], DType::F32, {})
                                               : load(lane.buffer, DType::F32, lane.index));
             }
             for (const StageStore& s : stage_.outer) add(stores, s, results);
             conditions.insert(conditions.begin(), simplify(eq(laneOf(), 0), ranges_));
             Block only;
             addIf(only, conditions, std::move(stores));
             if (warpsOfGroup > 1) {
               round.push_back(warps(std::move(nest)));
               nest.clear();
             }
             if (!only.empty()) nest.push_back(lanesOfWarp(std::move(only)));
             if (!nest.empty()) round.push_back(warps(std::move(nest)));
           });
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }
  /// What each warp found goes to shared memory; answers how a thread joins that of its group, in order.
  Block throughShared(Block& nest, int warpsOfGroup) const {
    Block body, join;
    const Expr group = simplify(floorDiv(thread_, groupSize()), ranges_);
    const Expr place = simplify(floorMod(var(kWarp), Expr(warpsOfGroup)), ranges_);
    for (const Accumulator& a : stage_.accumulators) {
      const std::string part = partName(a.names[0]);
      const Ref lane = ofLane(a.names[0]);
      body.push_back(
          {Store{{{part, {group, place}}}, "", {load(lane.buffer, DType::F32, lane.index)}}, ""});
      join.push_back({Alloc{{a.names[0], DType::F32, {}, {}, "reg", 0, ""}}, ""});
      for (int i = 0; i < warpsOfGroup; i++)
        join.push_back({Store{{{a.names[0], {}}},
                              i ? a.combine.name : "",
                              {load(part, DType::F32, {group, Expr(i)})}},
                        ""});
    }
    Block first;
    addIf(first, {eq(var(kThread), 0)}, std::move(body));
    nest.push_back(lanesOfWarp(std::move(first)));
    return join;
  }

  const TeamStage& schedule_;
  std::string piece_;  // prefix of the registers that are added to
};

}  // namespace

Block lowerTeamStage(const Stage& stage, const TeamStage& schedule, int threads,
                     const KernelBuffers& buffers, const Ranges& tiles) {
  return TeamNest(stage, schedule, threads, buffers, tiles).run();
}

}  // namespace tektite
