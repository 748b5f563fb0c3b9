#include "lower/nest.h"

#include <algorithm>

#include "fusion/stages.h"
#include "ir/dot.h"
#include "ir/facts.h"
#include "ir/share.h"
#include "lower/next_panel.h"
#include "schedule/layout.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int64_t kLongSum = 512;  // additions into one register; more are cut into pieces
constexpr int64_t kPiece = 128;    // of about so many
constexpr int64_t kFewSteps = 4;   // of a loop that is written out
constexpr int64_t kFewPoints = 9;  // of a window whose loops are
const char* const kInGroup = "in_group";

Stmt forLoop(std::string v, Expr extent, LoopMode mode, Block body) {
  return {For{std::move(v), std::move(extent), mode, std::move(body)}, ""};
}

/// A loop that isn't there where it runs once.
void addLoop(Block& out, const std::string& v, int64_t extent, LoopMode mode, Block body) {
  if (extent == 1) {
    for (Stmt& s : body) out.push_back(std::move(s));
  } else {
    out.push_back(forLoop(v, extent, mode, std::move(body)));
  }
}

class Nest {
 public:
  Nest(const Stage& stage, const StageSchedule& schedule, const KernelBuffers& buffers,
       const Ranges& tiles, KernelModule& module)
      : stage_(stage), schedule_(schedule), buffers_(buffers), module_(module), ranges_(tiles) {
    for (const StageAxis& a : stage.axes) {
      const Expr low = simplify(max(a.region.base, 0), ranges_);
      Expr n = simplify(min(a.region.base + Expr(a.region.size), a.extent) - low, ranges_);
      low_.push_back(low);
      extent_.push_back(std::move(n));
    }
    for (int i : schedule.order) (stage.axes[i].reduce ? reduce_ : space_).push_back(i);
    vectorIsReduce_ = schedule.vectorAxis >= 0 && stage.axes[schedule.vectorAxis].reduce;
    vectors_ = schedule.vectors;
    uneven_ = isUneven();
  }

  Block run() {
    Block out;
    space(0, out);
    return out;
  }

 private:
  const std::string& axisName(int axis) const { return stage_.axes[axis].var; }
  /// The variable of the axis' loop; `i4` is a type in the kernel language.
  std::string loopName(int axis) const {
    const std::string& name = axisName(axis);
    return dtypeFromName(name) ? name + "_" : name;
  }
  int64_t most(int axis) const {
    return std::min(stage_.axes[axis].region.size, stage_.axes[axis].extent);
  }

  /// Opens a serial loop, runs `inside` with its variable in range, closes it.
  void serial(Block& out, const std::string& v, const Expr& extent, int64_t atMost,
              const std::function<void(Block&)>& inside) {
    if (isConstant(extent, 0)) return;
    const bool once = isConstant(extent, 1);
    const auto before = ranges_.find(v) == ranges_.end() ? std::nullopt : std::optional(ranges_[v]);
    ranges_[v] = {0, std::max<int64_t>(atMost - 1, 0)};
    Block body;
    if (once) numbers_.insert_or_assign(v, Expr(0));
    if (!once) loops_.push_back({v, atMost});
    inside(body);
    if (!once) loops_.pop_back();
    if (once) numbers_.erase(v);
    if (before)
      ranges_[v] = *before;
    else
      ranges_.erase(v);
    if (once) {
      for (Stmt& s : body) out.push_back(std::move(s));
    } else if (!body.empty()) {
      out.push_back(forLoop(v, extent, LoopMode::Serial, std::move(body)));
    }
  }

  // ---- space loops

  void space(size_t k, Block& out) {
    if (k == space_.size()) return leaf(out);
    const int axis = space_[k];
    if (axis == schedule_.vectorAxis) {
      lanesAlong(axis, out, [&](Block& inner) { space(k + 1, inner); });
    } else if (axis == schedule_.unrollAxis) {
      whereAny(axis, out, [&](Block& inner) { rows(axis, k, inner); });
    } else {
      plainLoop(axis, out, [&](Block& inner) { space(k + 1, inner); });
    }
  }

  /// A loop over less than nothing doesn't run, but blocks of a negative extent have remainders: `if` keeps them out.
  void whereAny(int axis, Block& out, const std::function<void(Block&)>& inside) {
    if (fewest(extent_[axis]) >= 0) return inside(out);
    Block body;
    inside(body);
    if (!body.empty()) out.push_back({If{lt(0, extent_[axis]), std::move(body)}, ""});
  }

  void plainLoop(int axis, Block& out, const std::function<void(Block&)>& inside) {
    const std::string v = loopName(axis);
    serial(out, v, extent_[axis], most(axis), [&](Block& inner) {
      at_[axisName(axis)] = low_[axis] + var(v);
      inside(inner);
    });
  }

  /// Blocks of `unroll` rows; the last block overlaps the one before it where they don't divide the extent. Where there may be fewer
  /// rows than a block has, those that are left over come one by one.
  void rows(int axis, size_t k, Block& out) {
    const int64_t step = schedule_.unroll;
    if (fewest(extent_[axis]) < step) {
      const Expr full = simplify(floorDiv(extent_[axis], Expr(step)), ranges_);
      blocksOfRows(axis, k, full, most(axis) / step, false, out);
      const std::string v = loopName(axis);
      serial(out, v, simplify(floorMod(extent_[axis], Expr(step)), ranges_), step - 1,
             [&](Block& inner) {
               at_[axisName(axis)] = low_[axis] + full * Expr(step) + var(v);
               space(k + 1, inner);
             });
      return;
    }
    const Expr blocks = simplify(floorDiv(extent_[axis] + Expr(step - 1), step), ranges_);
    const auto n = asInteger(extent_[axis]);
    blocksOfRows(axis, k, blocks, (most(axis) + step - 1) / step, !n || *n % step, out);
  }

  /// The least value over all tiles. An extent clipped at both ends is concave in the tile variables: it is least at a corner.
  int64_t fewest(const Expr& extent) const {
    std::vector<Expr> corners = {extent};
    for (const std::string& v : freeVars(extent)) {
      const auto range = ranges_.find(v);
      if (range == ranges_.end()) return 0;
      std::vector<Expr> next;
      for (const Expr& e : corners)
        for (int64_t end : {range->second.low, range->second.high})
          next.push_back(substitute(e, {{v, Expr(end)}}));
      corners = std::move(next);
    }
    int64_t least = INT64_MAX;
    for (const Expr& e : corners) least = std::min(least, asInteger(e).value_or(0));
    return least;
  }

  void blocksOfRows(int axis, size_t k, const Expr& blocks, int64_t atMost, bool overlap,
                    Block& out) {
    const int64_t step = schedule_.unroll;
    const std::string v = axisName(axis) + "b";
    serial(out, v, blocks, atMost, [&](Block& inner) {
      Expr start = var(v) * Expr(step);
      if (overlap) start = min(start, extent_[axis] - Expr(step));
      at_[axisName(axis)] = low_[axis] + start + var("u");
      unroll_ = static_cast<int>(step);
      ranges_["u"] = {0, step - 1};
      space(k + 1, inner);
      unroll_ = 1;
    });
  }

  /// Full register tiles along the axis, then what is left over: one masked vector at a time, or where operands lie in panels the last
  /// panel with its stores masked.
  void lanesAlong(int axis, Block& out, const std::function<void(Block&)>& inside) {
    whereAny(axis, out, [&](Block& inner) { vectorBlocks(axis, inner, inside); });
  }

  void vectorBlocks(int axis, Block& out, const std::function<void(Block&)>& inside) {
    const int64_t width = schedule_.panel();
    const Expr& n = extent_[axis];
    const auto constant = asInteger(n);
    const std::string v = axisName(axis) + "b";
    const Expr full = simplify(floorDiv(n, width), ranges_);
    const int64_t spread = schedule_.apart ? *constant / schedule_.vectors
                                           : schedule_.lanes;  // from one vector to the next
    const auto block = [&](Block& inner, const Expr& offset, int vectors, bool masked) {
      const Expr lane = vectors > 1 ? var("v") * Expr(spread) + var("l") : Expr(var("l"));
      const Expr local = offset + (schedule_.lanes > 1 ? lane : var("v"));
      at_[axisName(axis)] = low_[axis] + local;
      vectors_ = vectors;
      ranges_["v"] = {0, std::max(vectors - 1, 0)};
      ranges_["l"] = {0, schedule_.lanes - 1};
      mask_ = masked ? lt(local, n) : Expr();
      inside(inner);
      mask_ = {};
    };
    const Expr step(schedule_.apart ? int64_t{schedule_.lanes} : width);
    const auto blocks = [&](const Expr& from, const Expr& count, int64_t atMost) {
      serial(out, v, count, atMost,
             [&](Block& inner) { block(inner, (from + var(v)) * step, schedule_.vectors, false); });
    };
    const auto count = asInteger(full);
    const bool endsOut = uneven_ && constant && *count > 0;
    if (endsOut) {
      blocks(0, 1, 1);
      blocks(1, Expr(std::max<int64_t>(*count - 2, 0)), *count - 2);
      if (*count > 1) blocks(Expr(*count - 1), 1, 1);
    } else {
      blocks(0, full, most(axis) / width);
    }
    if (constant && *constant % width == 0) return;
    if (!schedule_.packed.empty() && !vectorIsReduce_) {
      const Expr some = simplify(min(n - full * Expr(width), 1), ranges_);
      serial(out, v, some, 1, [&](Block& inner) {
        block(inner, (full + var(v)) * Expr(width), schedule_.vectors, true);
      });
      return;
    }
    const Expr rest = simplify(
        floorDiv(n - full * Expr(width) + Expr(schedule_.lanes - 1), schedule_.lanes), ranges_);
    const bool mask = !constant || *constant % width % schedule_.lanes;
    const int64_t each = endsOut ? 1 : schedule_.vectors;  // vectors left over that a loop takes
    for (int64_t done = 0; done < (endsOut ? *asInteger(rest) : 1); done++)
      serial(out, v, endsOut ? Expr(1) : rest, each, [&](Block& inner) {
        block(inner, full * Expr(width) + (var(v) + Expr(done)) * Expr(int64_t{schedule_.lanes}), 1,
              mask);
      });
  }

  /// Do indices of loads depend on the vector axis by more than a sum? Then its ends are written out, and short reductions: where the
  /// other variables are numbers or clamps have gone, so are the distances between lanes.
  bool isUneven() const {
    if (schedule_.vectorAxis < 0 || vectorIsReduce_ || schedule_.lanes < 2) return false;
    const std::string& v = axisName(schedule_.vectorAxis);
    for (const Expr& e : loadsOf(stage_)) {
      if (isPanel(*e.as<Load>())) continue;  // its blocks are those of the loop
      for (const Expr& at : e.as<Load>()->index)
        for (const auto& [term, by] : linearOf(at).terms)
          if (term.as<Apply>() && mentions({term}, v) && loadsOf(term).empty()) return true;
    }
    return false;
  }

  /// Does it read panels (pack.h)?
  static bool isPanel(const Load& l) { return l.buffer.find("_panels") != std::string::npos; }

  // ---- the register tile

  /// for u, for v, for l (as many as there are) around the statements.
  void lanes(Block& out, bool withVectors, Block body, const Expr& mask) {
    if (body.empty()) return;
    if (mask) {
      Block masked;
      masked.push_back({If{translate(mask), std::move(body)}, ""});
      body = std::move(masked);
    }
    Block vector, across, down;
    if (withVectors && schedule_.lanes > 1)
      vector.push_back(forLoop("l", schedule_.lanes, LoopMode::Vector, std::move(body)));
    else
      vector = std::move(body);
    addLoop(across, "v", withVectors ? vectors_ : 1, LoopMode::Unroll, std::move(vector));
    addLoop(down, "u", rows_ > 0 ? rows_ : unroll_, LoopMode::Unroll, std::move(across));
    for (Stmt& s : down) out.push_back(std::move(s));
  }

  /// Prefetches what the tile after this one reads at the register tile's place.
  void fetchAhead(Block& out) const {
    for (const StageSchedule::Ahead& a : schedule_.ahead) {
      const Expr here = translate(a.element);
      Copy c{{}, {here.as<Load>()->buffer, {}}, {}, {}, "", a.level};
      for (const Expr& i : here.as<Load>()->index)
        c.from.index.push_back(
            substitute(i, {{a.tile, var(a.tile) + Expr(1)}, {"v", Expr(0)}, {"l", var("next")}}));
      if (unroll_ > 1) c.axes.push_back({"u", unroll_});
      c.axes.push_back({"next", int64_t{vectors_} * schedule_.lanes});
      out.push_back({std::move(c), ""});
    }
  }

  /// Fetches a part of the panel after this one.
  void fetchPanel(Block& out) const {
    if (schedule_.fetched.empty()) return;
    const std::string& lanes = axisName(schedule_.vectorAxis);
    const auto panels = std::ranges::find(loops_, lanes + "b", &OpenLoop::var);
    if (panels == loops_.end()) return;
    const auto loads = loadsOf(stage_);
    const Load& element = *std::ranges::find_if(loads, [&](const Expr& e) {
                             return e.as<Load>()->buffer == schedule_.fetched;
                           })->as<Load>();
    std::unordered_map<std::string, Expr> start = {{"v", Expr(0)}, {"l", Expr(0)}};
    size_t dimension = 0;
    while (!mentions({element.index[dimension]}, lanes)) dimension++;
    std::vector<Expr> first;
    for (const Expr& i : element.index) {
      const bool reduced =
          std::ranges::any_of(reduce_, [&](int axis) { return mentions({i}, axisName(axis)); });
      first.push_back(reduced ? Expr(0) : simplify(substitute(translate(i), start), ranges_));
    }
    const auto steps = loops_.begin() + static_cast<int64_t>(spaceLoops_);
    PlanBuffer b = buffers_.plan.buffer(schedule_.fetched);
    b.name = buffers_.names.at(b.name);
    if (auto fetch =
            nextPanel(b, std::move(first), dimension, {panels + 1, steps}, {steps, loops_.end()}))
      out.push_back(std::move(*fetch));
  }

  /// The registers of an accumulator: [unroll][vectors * lanes], dimensions of 1 left out.
  Ref cell(const std::string& name, bool withVectors) const {
    Ref r{name, {}};
    if (unroll_ > 1) r.index.push_back(turned_ ? Expr(var("l")) : row_);
    const int64_t width = withVectors ? int64_t{vectors_} * schedule_.lanes : 1;
    if (width > 1) {
      const Expr lane = schedule_.lanes > 1 ? Expr(var(turned_ ? "c" : "l")) : Expr(0);
      r.index.push_back(vectors_ > 1 ? var("v") * Expr(int64_t{schedule_.lanes}) + lane : lane);
    }
    return r;
  }
  void allocate(Block& out, const std::string& name, DType type, bool withVectors) const {
    Buffer b{name, type, {}, {}, "reg", 0, ""};
    if (unroll_ > 1) b.shape.emplace_back(unroll_);
    const int64_t width = withVectors ? int64_t{vectors_} * schedule_.lanes : 1;
    if (width > 1) b.shape.emplace_back(width);
    out.push_back({Alloc{std::move(b)}, ""});
  }

  void leaf(Block& out) {
    if (stage_.accumulators.empty()) {
      if (turns()) return turnedMap(out);
      Block body;
      for (const StageStore& s : stage_.inner) add(body, s, {});
      for (const StageStore& s : stage_.outer) add(body, s, {});
      fetchAhead(out);
      return lanes(out, true, std::move(body), mask_);
    }
    Block scope;
    accumulate(scope);
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }

  void accumulate(Block& out) {
    vectors_ = vectorIsReduce_ ? schedule_.vectors : vectors_;
    const bool acrossLanes = vectorIsReduce_ && schedule_.panel() > 1;
    const bool spaceLanes = !vectorIsReduce_ && schedule_.vectorAxis >= 0;
    const bool inLanes = acrossLanes || spaceLanes;
    const auto stateName = [&](const std::string& n) { return acrossLanes ? n + "_lanes" : n; };
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++)
        allocate(out, stateName(a.names[c]), a.combine.types[c], inLanes);
    initialise(out, stateName, inLanes);

    spaceLoops_ = loops_.size();
    const Expr spaceMask = mask_;
    const Pieces pieces = piecesOf();
    const auto pieceName = [&](const std::string& n) {
      return (pieces.of > 0 ? "piece_" : "") + stateName(n);
    };
    const auto addUp = [&](Block& inner) {
      if (schedule_.dotAxis >= 0) return addDots(inner);
      fetchAhead(inner);
      const bool storesInside = !stage_.inner.empty();
      const Expr mask = vectorIsReduce_ ? mask_ : storesInside ? spaceMask : Expr();
      guard_ = vectorIsReduce_ || storesInside ? Expr() : spaceMask;
      byPlace(inner, [&](Block& to) { lanes(to, inLanes, pointBody(pieceName, inLanes), mask); });
    };
    const auto onePiece = [&](Block& inner, const std::function<void(Block&)>& fill) {
      Block scope;
      for (const Accumulator& a : stage_.accumulators)
        allocate(scope, pieceName(a.names[0]), a.combine.types[0], inLanes);
      initialise(scope, pieceName, inLanes);
      fill(scope);
      lanes(scope, inLanes, joinStates(stateName, pieceName, inLanes, inLanes, 0), {});
      inner.push_back({BlockStmt{std::move(scope)}, ""});
    };
    reduceLoops(0, pieces, onePiece, out, addUp);
    mask_ = spaceMask;

    if (acrossLanes) joinLanes(out, stateName);
    if (spaceLanes && turns()) {
      const Turned turned(*this);
      for (const StageStore& s : stage_.outer) turned.store(out, s, resultsOf(spaceLanes));
      return;
    }
    Block body;
    for (const StageStore& s : stage_.outer) add(body, s, resultsOf(spaceLanes));
    lanes(out, spaceLanes, std::move(body), mask_);
  }

  /// What stands for the accumulators' names in the stores that follow.
  std::unordered_map<std::string, Expr> resultsOf(bool withVectors) const {
    std::unordered_map<std::string, Expr> results;
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++) {
        const Ref r = cell(a.names[c], withVectors);
        results.emplace(a.names[c], load(r.buffer, a.combine.types[c], r.index));
      }
    return results;
  }

  // ---- blocks that are transposed between computing and storing

  bool turns() const {
    return schedule_.across && unroll_ == schedule_.unroll && unroll_ > 1 &&
           (!mask_ || asInteger(extent_[schedule_.vectorAxis]));
  }

  /// While it lives, lanes run along the unrolled axis, and the vector axis is written out as v and c.
  class Turned {
   public:
    explicit Turned(Nest& nest) : nest_(nest), before_(nest.at_), mask_(nest.mask_) {
      const std::unordered_map<std::string, Expr> turn = {{"l", var("c")}, {"u", var("l")}};
      for (auto& [axis, at] : nest_.at_) at = substitute(at, turn);
      if (nest_.mask_) nest_.mask_ = substitute(nest_.mask_, turn);
      nest_.ranges_["c"] = nest_.ranges_["l"];
      nest_.ranges_["l"] = {0, nest_.unroll_ - 1};
      nest_.turned_ = true;
    }
    ~Turned() {
      nest_.at_ = before_;
      nest_.mask_ = mask_;
      nest_.ranges_["l"] = nest_.ranges_["c"];
      nest_.turned_ = false;
    }
    Turned(const Turned&) = delete;
    Turned& operator=(const Turned&) = delete;

    void store(Block& out, const StageStore& s,
               std::unordered_map<std::string, Expr> results) const {
      Block body, columns, vectors;
      nest_.add(body, s, results);
      if (nest_.mask_) {
        Block masked;
        masked.push_back({If{nest_.translate(nest_.mask_), std::move(body)}, ""});
        body = std::move(masked);
      }
      Block lanes;
      lanes.push_back(forLoop("l", nest_.unroll_, LoopMode::Vector, std::move(body)));
      addLoop(columns, "c", nest_.schedule_.lanes, LoopMode::Unroll, std::move(lanes));
      addLoop(out, "v", nest_.vectors_, LoopMode::Unroll, std::move(columns));
    }

   private:
    Nest& nest_;
    std::unordered_map<std::string, Expr> before_;
    Expr mask_;
  };

  /// A map: its values in a block of registers, then the stores.
  void turnedMap(Block& out) {
    Block scope;
    std::vector<StageStore> stores = stage_.inner;
    stores.insert(stores.end(), stage_.outer.begin(), stage_.outer.end());
    for (size_t k = 0; k < stores.size(); k++) {
      const std::string name = fmt::format("turn{}", k);
      const DType type = stores[k].value.type();
      allocate(scope, name, type, true);
      Block body;
      Expr value = valueOf(body, stores[k].value, {});
      body.push_back({Store{{cell(name, true)}, "", {std::move(value)}}, ""});
      lanes(scope, true, std::move(body), mask_);
      stores[k].value = var(name, type);
    }
    const Turned turned(*this);
    for (size_t k = 0; k < stores.size(); k++) {
      const Ref r = cell(fmt::format("turn{}", k), true);
      turned.store(scope, stores[k], {{r.buffer, load(r.buffer, stores[k].value.type(), r.index)}});
    }
    out.push_back({BlockStmt{std::move(scope)}, ""});
  }

  void initialise(Block& out, const std::function<std::string(const std::string&)>& stateName,
                  bool inLanes) {
    Block body;
    for (const Accumulator& a : stage_.accumulators) {
      Store s;
      for (size_t c = 0; c < a.names.size(); c++)
        s.targets.push_back(cell(stateName(a.names[c]), inLanes));
      s.values = a.combine.identity;
      body.push_back({std::move(s), ""});
    }
    const int vectors = vectors_;
    lanes(out, inLanes, std::move(body), {});
    vectors_ = vectors;
  }

  // ---- long sums, in pieces that are added up: the error grows with the length of a piece and their number, not with the product

  struct Pieces {
    size_t at = 0;   ///< the reduce loop that is cut
    int64_t of = 0;  ///< its steps a piece; 0: sums are not cut
  };
  Pieces piecesOf() const {
    if (stage_.contraction || buffers_.plan.canonical) return {};
    for (const Accumulator& a : stage_.accumulators)
      if (a.combine.name != "sum" || !isFloat(a.combine.types[0])) return {};
    int64_t all = 1, longest = 0;
    Pieces out;
    for (size_t k = 0; k < reduce_.size(); k++) {
      const bool lanes = reduce_[k] == schedule_.vectorAxis;
      all *=
          lanes ? (most(reduce_[k]) + schedule_.panel() - 1) / schedule_.panel() : most(reduce_[k]);
      if (!lanes && most(reduce_[k]) > longest) longest = most(reduce_[k]), out.at = k;
      if (lanes) break;  // cut outside of the lanes only: the registers change behind them
    }
    if (all < kLongSum || longest < 2) return {};
    out.of = std::max<int64_t>(1, kPiece * longest / all);
    return out.of < longest ? out : Pieces{};
  }
  using Fill = std::function<void(Block&)>;
  void reduceLoops(size_t k, const Pieces& pieces,
                   const std::function<void(Block&, const Fill&)>& onePiece, Block& out,
                   const Fill& inside) {
    if (k == reduce_.size()) return inside(out);
    const int axis = reduce_[k];
    const Fill next = [&, k](Block& inner) { reduceLoops(k + 1, pieces, onePiece, inner, inside); };
    if (slides() && axis == schedule_.slide->axis) return next(out);
    if (axis == schedule_.vectorAxis) {
      const int vectors =
          vectors_;  // the registers stay as wide as they are, also where one vector at a time is left over
      reduceLanes(axis, out, next);
      vectors_ = vectors;
    } else if (pieces.of > 0 && pieces.at == k) {
      const std::string v = loopName(axis), p = v + "_piece";
      const Expr of(pieces.of),
          count = simplify(floorDiv(extent_[axis] + (of - Expr(1)), of), ranges_);
      serial(out, p, count, (most(axis) + pieces.of - 1) / pieces.of, [&](Block& outer) {
        onePiece(outer, [&](Block& scope) {
          const Expr rest = simplify(min(of, extent_[axis] - var(p) * of), ranges_);
          serial(scope, v, rest, pieces.of, [&](Block& inner) {
            at_[axisName(axis)] = low_[axis] + var(p) * of + var(v);
            next(inner);
          });
        });
      });
    } else if (axis == schedule_.dotAxis) {
      blocksAlong(axis, schedule_.group, kInGroup, out, next);
    } else if (writesOut(axis)) {
      stepByStep(axis, out, next);
    } else if (k + 1 == reduce_.size() && schedule_.round > 1) {
      rounds(axis, out, next);
    } else {
      plainLoop(axis, out, [&](Block& inner) {
        if (axis == innermost()) fetchPanel(inner);
        next(inner);
      });
    }
  }
  /// The reduce axis of the innermost loop: what comes after it is written out.
  int innermost() const {
    for (size_t k = reduce_.size(); k-- > 0;)
      if (!(slides() && reduce_[k] == schedule_.slide->axis) && !writesOut(reduce_[k]))
        return reduce_[k];
    return -1;
  }

  /// A loop over blocks of `of` elements of the axis; `in` is the place in the block.
  void blocksAlong(int axis, int64_t of, const std::string& in, Block& out, const Fill& inside) {
    const std::string v = loopName(axis);
    const Expr n = simplify(floorDiv(extent_[axis] + Expr(of - 1), Expr(of)), ranges_);
    serial(out, v, n, (most(axis) + of - 1) / of, [&](Block& inner) {
      at_[axisName(axis)] = low_[axis] + var(v) * Expr(of) + var(in);
      if (axis == innermost()) fetchPanel(inner);
      inside(inner);
    });
  }

  /// Several steps of the innermost loop of a reduction are one round of it.
  void rounds(int axis, Block& out, const Fill& inside) {
    const std::string step = loopName(axis) + "_step";
    ranges_[step] = {0, schedule_.round - 1};
    blocksAlong(axis, schedule_.round, step, out, [&](Block& inner) {
      Block body;
      inside(body);
      inner.push_back(forLoop(step, schedule_.round, LoopMode::Unroll, std::move(body)));
    });
    ranges_.erase(step);
  }

  /// Steps one after the other instead of a loop: of short windows, and where indices become numbers by it.
  bool writesOut(int axis) const {
    int64_t points = 1;
    for (const int i : reduce_) points *= most(i);
    return !slides() && asInteger(extent_[axis]) && most(axis) <= kFewSteps &&
           points <= kFewPoints && (uneven_ || (!stage_.contraction && !vectorIsReduce_));
  }

  void stepByStep(int axis, Block& out, const Fill& inside) {
    const std::string v = loopName(axis);
    at_[axisName(axis)] = low_[axis] + var(v);
    for (int64_t step = 0; step < *asInteger(extent_[axis]); step++) {
      numbers_.insert_or_assign(v, Expr(step));
      Block one;
      inside(one);
      const bool allocates = std::ranges::any_of(
          one, [](const Stmt& x) { return std::holds_alternative<Alloc>(x.kind); });
      if (allocates)
        out.push_back({BlockStmt{std::move(one)}, ""});
      else
        for (Stmt& x : one) out.push_back(std::move(x));
    }
    numbers_.erase(v);
  }

  // ---- windows that slide along the rows

  bool slides() const { return schedule_.slide && unroll_ == schedule_.unroll && unroll_ > 1; }

  /// The point where no window slides; otherwise, place by place of what rows and taps share, that of all pairs that read it.
  void byPlace(Block& out, const Fill& point) {
    if (!slides()) return point(out);
    const Slide& s = *schedule_.slide;
    const std::string &row = axisName(schedule_.unrollAxis), &tap = axisName(s.axis);
    const Expr rows = at_.at(row);
    const int64_t last = s.rowStep * (unroll_ - 1) + s.tapStep * (s.taps - 1);
    for (int64_t place = 0; place <= last; place++) {
      int64_t first = 0;
      rows_ = 0;
      for (int64_t u = 0; u < unroll_; u++) {  // every tapStep-th row reads it
        const int64_t rest = place - s.rowStep * u;
        if (rest < 0 || rest % s.tapStep || rest / s.tapStep >= s.taps) continue;
        if (rows_++ == 0) first = u;
      }
      if (rows_ == 0) continue;
      const Expr step = rows_ > 1 ? Expr(var("u")) : Expr(0);
      row_ = Expr(first) + Expr(s.tapStep) * step;
      at_[row] = substitute(rows, {{"u", row_}});
      at_[tap] = Expr((place - s.rowStep * first) / s.tapStep) - Expr(s.rowStep) * step;
      ranges_["u"] = {0, rows_ - 1};
      point(out);
    }
    at_[row] = rows;
    row_ = var("u");
    rows_ = 0;
    ranges_["u"] = {0, unroll_ - 1};
  }

  // ---- dot instructions

  /// One instruction for each vector of the register tile.
  void addDots(Block& out) {
    const Accumulator& sum = stage_.accumulators[0];
    const auto factors = loadsOf(sum.values[0]);
    const bool rowFirst = factors[0].as<Load>()->buffer == schedule_.dotRow;
    const Expr &row = factors[rowFirst ? 0 : 1], &panel = factors[rowFirst ? 1 : 0];
    ranges_[kInGroup] = {0, schedule_.group - 1};
    Dot dot{row.type(),
            panel.type(),
            schedule_.group,
            schedule_.lanes,
            spaceOf(buffers_.plan.buffer(row.as<Load>()->buffer)),
            spaceOf(buffers_.plan.buffer(panel.as<Load>()->buffer)),
            0};
    const Ref rows = tileAt(row);
    for (size_t d = rows.index.size(); d-- > 0 && !mentions({rows.index[d]}, kInGroup);)
      dot.trailing++;
    Intrin call;
    for (Ref r : {cell(sum.names[0], true), rows, tileAt(panel)}) {
      for (Expr& e : r.index)
        e = simplify(substitute(e, {{kInGroup, Expr(0)}, {"l", Expr(0)}}), ranges_);
      call.args.emplace_back();
      call.args.back().value.emplace<Ref>(std::move(r));
    }
    ranges_.erase(kInGroup);
    const IntrinDef def = declare(dot);
    declareIntrin(module_, def);
    call.name = def.name;
    Block across, one;
    one.push_back({std::move(call), ""});
    addLoop(across, "v", vectors_, LoopMode::Unroll, std::move(one));
    addLoop(out, "u", unroll_, LoopMode::Unroll, std::move(across));
  }
  Ref tileAt(const Expr& e) {
    const Expr there = translate(e);
    const Load& l = *there.as<Load>();
    return {l.buffer, l.index};
  }

  void reduceLanes(int axis, Block& out, const std::function<void(Block&)>& inside) {
    lanesAlong(axis, out, inside);
    vectors_ = schedule_.vectors;
  }

  /// Stores at the point, then the accumulators. A stored value that an accumulator reads again is computed once.
  Block pointBody(const std::function<std::string(const std::string&)>& stateName, bool inLanes) {
    Block body;
    std::vector<std::pair<Expr, Expr>> known;
    for (const StageStore& s : stage_.inner) {
      if (s.combine.empty() && !s.guard && slotsOf(s.value) >= 1) {
        const std::string name = fmt::format("w{}", known.size());
        body.push_back({Alloc{{name, s.value.type(), {}, {}, "reg", 0, ""}}, ""});
        Expr value = valueOf(body, reuse(s.value, known), {});
        body.push_back({Store{{{name, {}}}, "", {std::move(value)}}, ""});
        known.emplace_back(s.value, load(name, s.value.type(), {}));
      }
      StageStore now = s;
      now.value = reuse(s.value, known);
      add(body, now, {});
    }
    for (const Accumulator& a : stage_.accumulators) {
      Store s;
      for (size_t c = 0; c < a.names.size(); c++) {
        Ref r = cell(stateName(a.names[c]), inLanes);
        s.targets.push_back(std::move(r));
        s.values.push_back(valueOf(body, reuse(guarded(a.values[c]), known), {}));
      }
      s.combine = a.combine.name;
      body.push_back({std::move(s), ""});
    }
    return body;
  }

  /// Lanes that are off read nothing, but in zero-padded panels; what they add up, nobody stores.
  Expr guarded(const Expr& value) const {
    if (!guard_) return value;
    const std::string& v = axisName(schedule_.vectorAxis);
    return rewrite(value, [&](const Expr& x) -> Expr {
      const Load* l = x.as<Load>();
      if (!l || !mentions(l->index, v) || isPanel(*l)) return {};
      return select(guard_, x, imm(x.type(), 0));
    });
  }

  void joinLanes(Block& out, const std::function<std::string(const std::string&)>& stateName) {
    for (const Accumulator& a : stage_.accumulators)
      for (size_t c = 0; c < a.names.size(); c++)
        allocate(out, a.names[c], a.combine.types[c], false);
    initialise(out, [](const std::string& n) { return n; }, false);
    const int vectors = vectors_;
    for (int step = vectors / 2; step >= 1; step /= 2) {  // vectors first, halving; then lanes
      vectors_ = step;
      lanes(out, true, joinStates(stateName, stateName, true, true, step), {});
    }
    vectors_ = 1;
    lanes(out, true, joinStates([](const std::string& n) { return n; }, stateName, false, true, 0),
          {});
    vectors_ = vectors;
  }

  /// to op= from, a lane each; `from` lies `ahead` vectors further on.
  Block joinStates(const std::function<std::string(const std::string&)>& to,
                   const std::function<std::string(const std::string&)>& from, bool intoLanes,
                   bool fromLanes, int ahead) {
    Block body;
    for (const Accumulator& a : stage_.accumulators) {
      Store s;
      for (size_t c = 0; c < a.names.size(); c++) {
        s.targets.push_back(cell(to(a.names[c]), intoLanes));
        Ref r = cell(from(a.names[c]), fromLanes);
        if (ahead) r.index.back() = r.index.back() + Expr(int64_t{ahead} * schedule_.lanes);
        s.values.push_back(load(r.buffer, a.combine.types[c], r.index));
      }
      s.combine = a.combine.name;
      body.push_back({std::move(s), ""});
    }
    return body;
  }

  // ---- expressions

  /// Is the element there at all points of the stage, whatever guards it?
  bool liesInside(const Load& l) const {
    if (!buffers_.names.count(l.buffer)) return true;  // registers
    Ranges points;
    for (const StageAxis& a : stage_.axes)
      if (const auto n = asInteger(a.extent)) points[a.var] = {0, *n - 1};
    Facts facts(points);
    return provenInside(facts, buffers_.plan.buffer(l.buffer).type.shape, l.index);
  }

  /// The value translated; what it uses several times goes through registers, where it would be long to write.
  Expr valueOf(Block& out, const Expr& value, std::unordered_map<std::string, Expr> results) {
    std::vector<Expr> roots = {value};
    for (const auto& [name, part] : nameShared(roots, fmt::format("shared{}_", shared_),
                                               [&](const Load& l) { return liesInside(l); })) {
      out.push_back({Alloc{{name, part.type(), {}, {}, "reg", 0, ""}}, ""});
      out.push_back({Store{{{name, {}}}, "", {translate(part, results)}}, ""});
      results.emplace(name, load(name, part.type(), {}));
      shared_++;
    }
    return translate(roots[0], results);
  }

  void add(Block& out, const StageStore& s, const std::unordered_map<std::string, Expr>& results) {
    Store store;
    std::vector<Expr> at;
    for (const Expr& e : s.index) at.push_back(translate(e));
    std::vector<Expr> index = buffers_.index(s.buffer, at);
    for (Expr& e : index) e = simplify(e, ranges_);
    store.targets.push_back({buffers_.names.at(s.buffer), std::move(index)});
    Block before;
    store.values.push_back(valueOf(s.guard ? before : out, s.value, results));
    store.combine = s.combine;
    store.stream = schedule_.stream;
    if (s.guard) {
      Block guarded = std::move(before);
      guarded.push_back({std::move(store), ""});
      out.push_back({If{translate(s.guard), std::move(guarded)}, ""});
    } else {
      out.push_back({std::move(store), ""});
    }
  }

  /// A stage's expression in the kernel's terms: axis variables by loop variables, loads by kernel buffers.
  Expr translate(const Expr& e, const std::unordered_map<std::string, Expr>& results = {}) const {
    const Expr named = rewrite(e, [&](const Expr& x) -> Expr {
      if (const Var* v = x.as<Var>()) {
        if (const auto it = results.find(v->name); it != results.end()) return it->second;
        if (const auto it = at_.find(v->name); it != at_.end()) return it->second;
        return {};
      }
      const Load* l = x.as<Load>();
      if (!l || !buffers_.names.count(l->buffer)) return {};
      return load(buffers_.names.at(l->buffer), x.type(), buffers_.index(l->buffer, l->index));
    });
    return simplify(numbers_.empty() ? named : substitute(named, numbers_), ranges_);
  }

  const Stage& stage_;
  const StageSchedule& schedule_;
  const KernelBuffers& buffers_;
  KernelModule& module_;
  Ranges ranges_;
  std::vector<Expr> low_, extent_;
  std::vector<int> space_, reduce_;
  bool vectorIsReduce_ = false, turned_ = false, uneven_ = false;
  int vectors_ = 1, unroll_ = 1, shared_ = 0;
  std::vector<OpenLoop> loops_;  // outermost first
  size_t spaceLoops_ = 0;        // of these, around the accumulators
  int64_t rows_ = 0;             // that read one place of a window that slides; 0: all of them
  Expr row_ = var("u");          // of the register tile
  Expr mask_, guard_;
  std::unordered_map<std::string, Expr> at_;  // axis -> coordinate
  std::unordered_map<std::string, Expr>
      numbers_;  // variables of loops that run once or are written out
};

}  // namespace

std::vector<Expr> KernelBuffers::index(const std::string& name, const std::vector<Expr>& at) const {
  const PlanBuffer& b = plan.buffer(name);
  if (b.kind != PlanBuffer::Scratch) return at;
  std::vector<Expr> local, out;
  for (size_t d = 0; d < at.size(); d++)
    local.push_back(static_cast<int>(d) == b.ring ? floorMod(at[d], Expr(b.region[d].size))
                                                  : at[d] - b.region[d].base);
  if (const auto of = tile.find(name); of != tile.end()) out = of->second;
  for (size_t d = 0; d < at.size(); d++)
    out.push_back(local[b.order.empty() ? d : static_cast<size_t>(b.order[d])]);
  return out;
}

Block lowerStage(const Stage& stage, const StageSchedule& schedule, const KernelBuffers& buffers,
                 const Ranges& tiles, KernelModule& module) {
  return Nest(stage, schedule, buffers, tiles, module).run();
}

Expr reuse(const Expr& e, const std::vector<std::pair<Expr, Expr>>& known) {
  if (known.empty()) return e;
  return rewrite(e, [&](const Expr& x) -> Expr {
    for (const auto& [value, name] : known)
      if (x == value) return name;
    return {};
  });
}

}  // namespace tektite
