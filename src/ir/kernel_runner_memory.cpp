#include <unordered_set>

#include "ir/kernel_runner.h"

namespace tektite::code {

// ---- stores

/// Addresses and values of one lane's store.
void Runner::evaluate(const CodeStmt& s, size_t at) {
  for (size_t k = 0; k < s.refs.size(); k++) {
    addresses_[at + k] = m_.address(s.refs[k]);
    values_[at + k] = m_.value(s.values[k]);
  }
}

/// Stores one lane's values, joined with what is there where there is a combine. `stamp`: the time of the store, 0: one element only.
void Runner::commit(const CodeStmt& s, const Store& t, size_t at, uint32_t stamp) {
  const auto view = [&](size_t k) -> const View& { return m_.views[s.refs[k].buffer]; };
  const auto typeOf = [&](size_t k) { return m_.code.buffers[s.refs[k].buffer].type; };
  if (s.builtin) {
    for (size_t k = 0; k < s.refs.size(); k++)
      values_[at + k] =
          m_.combined(s.op, typeOf(k), m_.read(view(k), addresses_[at + k]), values_[at + k]);
  } else if (!s.joined.empty()) {
    for (size_t k = 0; k < s.refs.size(); k++) {
      m_.variables[s.left[k]] = m_.read(view(k), addresses_[at + k]);
      m_.variables[s.right[k]] = values_[at + k];
    }
    m_.newEvaluation();
    for (size_t k = 0; k < s.refs.size(); k++) values_[at + k] = m_.value(s.joined[k]);
  }
  const bool once = t.combine.empty() && stamp && m_.options.checks;
  for (size_t k = 0; k < s.refs.size(); k++) {
    if (once && view(k).memory->shadow[addresses_[at + k]].writer == stamp)
      m_.fault(5,
               fmt::format("{} is stored twice at once", m_.element(view(k), addresses_[at + k])));
    m_.write(view(k), addresses_[at + k], values_[at + k], t.stream);
  }
}

void Runner::store(const CodeStmt& s, const Store& t, const Lanes* lanes) {
  const size_t width = s.refs.size(), all = width * (lanes ? lanes->on.size() : 1);
  if (addresses_.size() < all) {
    addresses_.resize(all);
    values_.resize(all);
  }
  if (!lanes) {
    m_.newEvaluation();
    evaluate(s, 0);
    return commit(s, t, 0, width > 1 ? m_.races.tick() : 0);
  }
  size_t at = 0;
  eachLane(*lanes, [&](int64_t) {
    evaluate(s, at);
    at += width;
  });
  const uint32_t stamp = m_.races.tick();
  at = 0;
  for (int64_t l : lanes->on) {
    m_.variables[lanes->slot].i = m_.lane = l;
    commit(s, t, at, stamp);
    at += width;
  }
  m_.lane = 0;
}

// ---- copies

namespace {
struct Move {
  int64_t from, to;  // from -1: the fill
};
}  // namespace

void Runner::copy(const CodeStmt& s, const Copy& c) {
  Pending op;
  if (!c.to) {
    if (!c.queue.empty()) {
      op.complete = [] {};
      m_.issue(c.queue, std::move(op));
    }
    return;
  }
  const CodeRef &from = s.refs[0], &to = s.refs[1];
  const View &source = m_.views[from.buffer], &target = m_.views[to.buffer];
  m_.newEvaluation();
  Value fill{};
  if (s.expr >= 0) fill = m_.value(s.expr);
  std::vector<int64_t> extents, index(s.axes.size());
  int64_t points = 1;
  for (const CodeAxis& a : s.axes) {
    extents.push_back(std::max<int64_t>(0, m_.integer(a.extent)));
    points *= extents.back();
    m_.live.push_back(a.slot);
  }
  std::vector<Move> moves;
  for (int64_t p = 0; p < points; p++) {
    int64_t rest = p;
    for (size_t a = s.axes.size(); a-- > 0;) {
      m_.variables[s.axes[a].slot].i = rest % extents[a];
      rest /= extents[a];
    }
    m_.newEvaluation();
    bool outside = false;
    for (int d = 0; d < source.rank && s.expr >= 0; d++) {
      const int64_t i = m_.index(from.index[d]);
      outside |= i < 0 || i >= source.shape[d];
    }
    moves.push_back({outside ? -1 : m_.address(from), m_.address(to)});
  }
  for (size_t a = 0; a < s.axes.size(); a++) m_.live.pop_back();
  std::unordered_set<int64_t> targets;
  for (const Move& move : moves)
    if (!targets.insert(move.to).second)
      m_.fault(5, fmt::format("{} is stored twice at once", m_.element(target, move.to)));
  for (const Move& move : moves)
    if (source.memory == target.memory && targets.count(move.from))
      m_.fault(5, fmt::format("{} is both read and written", m_.element(source, move.from)));
  for (const Move& move : moves) {
    if (c.queue.empty()) break;
    if (move.from >= 0) op.touches.push_back({source.memory, move.from, false});
    op.touches.push_back({target.memory, move.to, true});
  }
  op.complete = [this, moves = std::move(moves), fill, &source, &target] {
    for (const Move& move : moves)
      m_.write(target, move.to, move.from < 0 ? fill : m_.read(source, move.from));
  };
  c.queue.empty() ? op.complete() : m_.issue(c.queue, std::move(op));
}

// ---- instructions

/// The tile of an operand: as declared, from the element that the call names, along the buffer's last axes.
View Runner::operand(const CodeRef& ref, const CodeBuffer& declared) {
  const View& buffer = m_.views[ref.buffer];
  View tile;
  describe(m_, declared, tile);
  tile.memory = buffer.memory;
  tile.needsWrite = buffer.needsWrite;
  if (tile.rank > buffer.rank)
    m_.fault(
        8, fmt::format("'{}' has rank {}, its tile {}", ref.source.buffer, buffer.rank, tile.rank));
  m_.newEvaluation();
  tile.base = buffer.base;
  const int lead = buffer.rank - tile.rank;
  for (int d = 0; d < buffer.rank; d++) {
    const int64_t i = m_.index(ref.index[d]), size = d < lead ? 1 : tile.shape[d - lead];
    if (i < 0 || (size > 0 && i + size > buffer.shape[d]))
      m_.fault(8, fmt::format("the tile of {} reaches from {} to {} on axis {}, outside 0..{}",
                              ref.source.buffer, i, i + size - 1, d, buffer.shape[d] - 1));
    tile.base += i * buffer.strides[d];
    if (d >= lead) tile.strides[d - lead] = buffer.strides[d];
  }
  return tile;
}

void Runner::intrin(const CodeStmt& s, const Intrin& i) {
  const CodeIntrin& def = *s.intrin;
  m_.newEvaluation();
  std::vector<int64_t> dims;
  for (size_t k = 0; k < s.dims.size(); k++) {
    const Dim& d = def.source->dims[k];
    dims.push_back(m_.integer(s.dims[k]));
    if (dims[k] < d.low || dims[k] > d.high)
      m_.fault(8, fmt::format("{} is {}, outside {}..{}", d.name, dims[k], d.low, d.high));
  }
  for (size_t k = 0; k < dims.size(); k++) m_.variables[def.dims[k]].i = dims[k];
  std::vector<View> operands;
  for (size_t k = 0; k < s.refs.size(); k++)
    operands.push_back(operand(s.refs[k], m_.code.buffers[def.buffers[k]]));
  if (i.queue.empty()) return body(def, operands, dims);
  Pending op;
  for (size_t k = 0; k < operands.size(); k++) {
    const Param::Mode mode = def.source->params[k].mode;
    eachElement(operands[k], [&](int64_t at) {
      if (mode != Param::Out) op.touches.push_back({operands[k].memory, at, false});
      if (mode != Param::In) op.touches.push_back({operands[k].memory, at, true});
    });
  }
  op.complete = [this, &def, operands = std::move(operands), dims = std::move(dims)] {
    body(def, operands, dims);
  };
  m_.issue(i.queue, std::move(op));
}

void Runner::body(const CodeIntrin& def, const std::vector<View>& operands,
                  const std::vector<int64_t>& dims) {
  for (size_t k = 0; k < dims.size(); k++) m_.variables[def.dims[k]].i = dims[k];
  for (size_t k = 0; k < operands.size(); k++) {
    m_.views[def.buffers[k]] = operands[k];
    if (!m_.options.checks || def.source->params[k].mode != Param::Out) continue;
    eachElement(operands[k], [&](int64_t at) {  // nothing of what was there may be read
      m_.checkWrite(operands[k], at);
      operands[k].memory->shadow[at].writer = 0;
    });
  }
  block(def.body, nullptr);
}

}  // namespace tektite::code
