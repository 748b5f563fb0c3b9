#include "ir/kernel_machine.h"

#include "ir/scalar_eval.h"

namespace tektite::code {

Machine::Machine(const Code& c, const KernelEvalOptions& o, std::string place)
    : code(c),
      options(o),
      variables(c.variables.size()),
      views(c.buffers.size()),
      place_(std::move(place)),
      stamps_(c.memos),
      memos_(c.memos),
      random_(o.seed * 2 + 1) {}

uint64_t Machine::random() {
  random_ += 0x9e3779b97f4a7c15ull;
  uint64_t z = random_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// ---- messages

void Machine::fault(int rule, const std::string& what) const {
  std::string place = place_;
  if (statement) {
    std::string text = toText(Block{*statement});
    text = text.substr(0, text.find('\n'));
    place += fmt::format(": `{}`", text);
  }
  std::string at;
  for (int slot : live)
    at += fmt::format("{}{} = {}", at.empty() ? " at " : ", ", code.variables[slot],
                      variables[slot].i);
  throw KernelFault(rule, place + at, what);
}

std::string Machine::element(const View& seen, int64_t at) const {
  int buffer = -1;
  for (size_t b = 0; b < views.size(); b++)
    if (&views[b] == &seen || (buffer < 0 && views[b].memory == seen.memory))
      buffer = static_cast<int>(b);
  if (buffer < 0) return fmt::format("element {}", at);
  const View& view = views[buffer];
  if (view.rank == 0) return code.buffers[buffer].name;
  std::string index;
  int64_t rest = at - view.base - lane * view.laneStride;
  for (int d = 0; d < view.rank; d++) {
    const int64_t i = view.strides[d] ? rest / view.strides[d] : 0;
    rest -= i * view.strides[d];
    index += fmt::format("{}{}", d ? ", " : "", i);
  }
  return fmt::format("{}[{}]", code.buffers[buffer].name, index);
}

// ---- expressions

Value Machine::value(int node) {
  Value v;
  if (isFloat(code.nodes[node].type))
    v.f = real(node);
  else
    v.i = integer(node);
  return v;
}

int64_t Machine::integer(int node) {
  const Node& n = code.nodes[node];
  switch (n.kind) {
    case Node::Imm: return n.value.i;
    case Node::Var: return variables[n.slot].i;
    default: break;
  }
  if (n.memo >= 0 && stamps_[n.memo] == generation_) return memos_[n.memo].i;
  int64_t result;
  if (n.kind == Node::Load) {
    const CodeRef& ref = code.loads[n.slot];
    const int64_t at = address(ref);
    result = read(views[ref.buffer], at).i;
  } else if (n.kind == Node::Cast) {
    result = n.fromReal ? saturateTo(n.type, real(n.args[0])) : wrapTo(n.type, integer(n.args[0]));
  } else {
    result = apply(n);
  }
  if (n.memo >= 0) {
    stamps_[n.memo] = generation_;
    memos_[n.memo].i = result;
  }
  return result;
}

int64_t Machine::apply(const Node& n) {
  counters.integers++;
  if (n.op == Op::Select) return integer(n.args[0]) ? integer(n.args[1]) : integer(n.args[2]);
  if (n.fromReal) {
    if (n.op == Op::ToBits) return evalToBits(n.from, real(n.args[0]));
    double args[2] = {real(n.args[0]), n.args[1] >= 0 ? real(n.args[1]) : 0};
    return static_cast<int64_t>(evalFloat(n.op, args));
  }
  const int64_t a = integer(n.args[0]), b = n.args[1] >= 0 ? integer(n.args[1]) : 0;
  if (n.from == DType::I64) switch (n.op) {  // indices, mostly
      case Op::Add:
        return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      case Op::Sub:
        return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
      case Op::Mul:
        return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      case Op::Lt: return a < b;
      case Op::Le: return a <= b;
      default: break;
    }
  const int64_t args[3] = {a, b, n.args[2] >= 0 ? integer(n.args[2]) : 0};
  return evalInteger(n.op, n.from, args);
}

double Machine::real(int node) {
  const Node& n = code.nodes[node];
  switch (n.kind) {
    case Node::Imm: return n.value.f;
    case Node::Var: return variables[n.slot].f;
    default: break;
  }
  if (n.memo >= 0 && stamps_[n.memo] == generation_) return memos_[n.memo].f;
  double result;
  if (n.kind == Node::Load) {
    const CodeRef& ref = code.loads[n.slot];
    const int64_t at = address(ref);
    result = read(views[ref.buffer], at).f;
  } else if (n.kind == Node::Cast) {
    if (n.fromReal) {
      result = real(n.args[0]);
      if (bits(n.type) < bits(n.from) || options.roundEach) result = roundTo(n.type, result);
    } else {
      const int64_t i = integer(n.args[0]);
      result = roundTo(n.type, n.from == DType::U64 ? static_cast<double>(static_cast<uint64_t>(i))
                                                    : static_cast<double>(i));
    }
  } else {
    result = applyReal(n);
    if (options.roundEach) result = roundTo(n.type, result);
  }
  if (n.memo >= 0) {
    stamps_[n.memo] = generation_;
    memos_[n.memo].f = result;
  }
  return result;
}

double Machine::applyReal(const Node& n) {
  if (n.op == Op::Select) return integer(n.args[0]) ? real(n.args[1]) : real(n.args[2]);
  if (n.op == Op::FromBits) return evalFromBits(n.type, integer(n.args[0]));
  const double a = real(n.args[0]);
  counters.flops++;
  switch (n.op) {
    case Op::Add: return a + real(n.args[1]);
    case Op::Sub: return a - real(n.args[1]);
    case Op::Mul: return a * real(n.args[1]);
    case Op::Div: return a / real(n.args[1]);
    default: break;
  }
  if (n.op == Op::Fma) counters.flops++;
  const double args[3] = {a, n.args[1] >= 0 ? real(n.args[1]) : 0,
                          n.args[2] >= 0 ? real(n.args[2]) : 0};
  return evalFloat(n.op, args);
}

Value Machine::combined(Op op, DType type, Value a, Value b) {
  Value out;
  if (isFloat(type)) {
    const double args[2] = {a.f, b.f};
    counters.flops++;
    out.f = op == Op::Add ? a.f + b.f : evalFloat(op, args);
    if (options.roundEach) out.f = roundTo(type, out.f);
  } else {
    const int64_t args[2] = {a.i, b.i};
    out.i = evalInteger(op, type, args);
  }
  return out;
}

// ---- memory

int64_t Machine::address(const CodeRef& ref) {
  const View& v = views[ref.buffer];
  int64_t at = v.base + lane * v.laneStride;
  for (int d = 0; d < v.rank; d++) {
    const int64_t i = index(ref.index[d]);
    if (i < 0 || i >= v.shape[d])
      fault(4, fmt::format("{}[{}]: index {} is {}, outside 0..{}", ref.source.buffer,
                           toText(ref.source.index[d]), d, i, v.shape[d] - 1));
    at += i * v.strides[d];
  }
  return at;
}

void Machine::checkFlight(const View& view, int64_t at, bool write, int queue) {
  const auto it = flights_.find(&view.memory->shadow[at]);
  if (it == flights_.end()) return;
  for (const Flight& f : it->second)
    if (f.queue != queue && (write || f.write))
      fault(11, fmt::format("{} is {} while an operation in flight {} it", element(view, at),
                            write ? "written" : "read", f.write ? "writes" : "reads"));
}

void Machine::checkRead(const View& view, int64_t at, bool defined) {
  Storage& m = *view.memory;
  Shadow& s = m.shadow[at];
  if (s.inFlight) checkFlight(view, at, false, completing_);
  const bool written = s.writer >= m.birth;
  if (defined && !written && (view.needsWrite || !m.initial))
    fault(12, fmt::format("{} is read before it is written", element(view, at)));
  if (written && races.concurrent(s.writer, m.registers))
    fault(5, fmt::format("{} is read, and written by another {}", element(view, at),
                         races.inThread() ? "thread, tile or iteration" : "tile or iteration"));
  const uint32_t now = races.now();
  if (s.reader1 < m.birth || !races.concurrent(s.reader1, m.registers))
    s.reader1 = now;
  else if (s.reader2 < m.birth || !races.concurrent(s.reader2, m.registers))
    s.reader2 = now;
}

void Machine::checkWrite(const View& view, int64_t at) {
  Storage& m = *view.memory;
  Shadow& s = m.shadow[at];
  if (s.inFlight) checkFlight(view, at, true, completing_);
  const auto check = [&](uint32_t then, const char* what) {
    if (then >= m.birth && races.concurrent(then, m.registers))
      fault(5, fmt::format("{} is written, and {} by another {}", element(view, at), what,
                           races.inThread() ? "thread, tile or iteration" : "tile or iteration"));
  };
  check(s.writer, "written");
  check(s.reader1, "read");
  check(s.reader2, "read");
  s.writer = races.now();
}

Value Machine::read(const View& view, int64_t at) {
  if (options.checks) checkRead(view, at);
  const Storage& m = *view.memory;
  counters.reads += !m.registers;
  if (m.main && options.cache) options.cache->read(m.address + at * bytes(m.type), bytes(m.type));
  return m.values[at];
}

void Machine::write(const View& view, int64_t at, Value v, bool stream) {
  Storage& m = *view.memory;
  if (options.checks)
    checkWrite(view, at);
  else if (!m.shadow.empty())
    m.shadow[at].writer = races.now();
  if (m.rounds) v.f = roundTo(m.type, v.f);
  m.values[at] = v;
  counters.writes += !m.registers;
  if (!m.main || !options.cache) return;
  if (stream)
    options.cache->stream(bytes(m.type));
  else
    options.cache->write(m.address + at * bytes(m.type), bytes(m.type));
}

// ---- queues

void Machine::issue(const std::string& name, Pending operation) {
  operation.inThread = races.inThread();
  operation.thread = operation.inThread ? races.thread() : ThreadId{-1, -1};
  auto [it, fresh] = queues_.try_emplace({name, operation.thread.warp, operation.thread.lane});
  Queue& q = it->second;
  if (fresh) q.id = static_cast<int>(queues_.size());
  if (options.checks) {
    View view;
    completing_ = q.id;
    for (const Pending::Touch& t : operation.touches) {
      view.memory = t.memory;
      t.write ? checkWrite(view, t.at) : checkRead(view, t.at, false);
    }
    completing_ = -1;
    for (const Pending::Touch& t : operation.touches) {
      Shadow& s = t.memory->shadow[t.at];
      s.inFlight++;
      t.memory->inFlight++;
      flights_[&s].push_back({q.id, t.write});
    }
  } else {
    operation.touches.clear();
  }
  q.operations.push_back(std::move(operation));
}

void Machine::complete(Queue& queue) {
  Pending op = std::move(queue.operations.front());
  queue.operations.pop_front();
  for (const Pending::Touch& t : op.touches) {
    Shadow& s = t.memory->shadow[t.at];
    s.inFlight--;
    t.memory->inFlight--;
    auto& list = flights_[&s];
    list.erase(std::find_if(list.begin(), list.end(),
                            [&](const Flight& f) { return f.queue == queue.id; }));
    if (list.empty()) flights_.erase(&s);
  }
  completing_ = queue.id;
  if (op.inThread) races.beginThread(op.thread);
  op.complete();
  if (op.inThread) races.endThread();
  completing_ = -1;
}

void Machine::waitFor(const std::string& name, int64_t pending) {
  for (auto& [key, queue] : queues_)
    if (std::get<0>(key) == name)
      while (static_cast<int64_t>(queue.operations.size()) > pending) complete(queue);
}

void Machine::checkQueuesEmpty() {
  for (const auto& [key, queue] : queues_)
    if (!queue.operations.empty())
      fault(11, fmt::format("{} operations of queue '{}' are pending at the end of the tile",
                            queue.operations.size(), std::get<0>(key)));
  queues_.clear();
}

}  // namespace tektite::code
