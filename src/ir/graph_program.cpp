#include "ir/graph_program.h"

#include <array>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "ir/scalar_eval.h"
#include "support/check.h"
#include "support/overloaded.h"

namespace tektite {

ScalarProgram::ScalarProgram(const std::vector<Expr>& results,
                             const std::vector<std::string>& variables)
    : variables_(variables), slots_(variables.size(), -1) {
  for (const Expr& e : results) results_.push_back(compile(e));
}

int ScalarProgram::constant(const Expr& e) {
  constants_.emplace_back(registers_, e);
  return registers_++;
}

int ScalarProgram::compile(const Expr& e) {
  if (const auto it = done_.find(e.hash()); it != done_.end()) return it->second;
  const int out = std::visit(
      overloaded{
          [&](const Imm&) { return constant(e); },
          [&](const Var& v) {
            for (size_t i = 0; i < variables_.size(); i++)
              if (variables_[i] == v.name) return slots_[i] = registers_++;
            TEKTITE_CHECK(false, "unknown name {} in a body", v.name);
            return -1;
          },
          [&](const Load& l) {
            Instruction in{Instruction::Load,
                           Op::Add,
                           e.type(),
                           e.type(),
                           0,
                           {},
                           std::stoi(l.buffer.substr(1))};
            for (const Expr& x : l.index) in.args.push_back(compile(x));
            in.result = registers_++;
            code_.push_back(std::move(in));
            return code_.back().result;
          },
          [&](const Cast& c) {
            const int arg = compile(c.arg);
            code_.push_back(
                {Instruction::Convert, Op::Add, c.arg.type(), e.type(), registers_++, {arg}});
            return code_.back().result;
          },
          [&](const Apply& a) {
            Instruction in{Instruction::Integer, a.op, a.args.back().type(), e.type(), 0, {}};
            if (isFloat(in.from) || isFloat(in.to)) in.kind = Instruction::Real;
            for (const Expr& x : a.args) in.args.push_back(compile(x));
            in.result = registers_++;
            code_.push_back(std::move(in));
            return code_.back().result;
          }},
      e->kind);
  done_[e.hash()] = out;
  return out;
}

ScalarProgram::Machine::Machine(const ScalarProgram& program,
                                std::span<const Tensor* const> tensors)
    : program_(program), tensors_(tensors), registers_(static_cast<size_t>(program.registers_)) {
  for (const auto& [at, e] : program.constants_) {
    Block& b = registers_[static_cast<size_t>(at)];
    const Imm& i = *e.as<Imm>();
    if (isFloat(e.type()))
      std::fill_n(b.real, kBlock, i.real);
    else
      std::fill_n(b.integer, kBlock, i.integer);
  }
}

void ScalarProgram::Machine::run(int elements) {
  for (const Instruction& i : program_.code_) ScalarProgram::run(i, registers_, tensors_, elements);
}

namespace {

using Block = ScalarProgram::Block;

/// `f` of each element; blocks of 8 have a constant trip count, so that they become vector code.
template <class To, class F>
void each(To* out, int n, F f) {
  int i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++) out[i + k] = f(i + k);
  for (; i < n; i++) out[i] = f(i);
}

void convert(DType from, DType to, const Block& a, Block& out, int n) {
  if (isFloat(to)) {
    for (int i = 0; i < n; i++) {
      const double value = isFloat(from) ? a.real[i]
                           : from == DType::U64
                               ? static_cast<double>(static_cast<uint64_t>(a.integer[i]))
                               : static_cast<double>(a.integer[i]);
      out.real[i] = roundTo(to, value);
    }
  } else if (isFloat(from)) {
    for (int i = 0; i < n; i++) out.integer[i] = saturateTo(to, a.real[i]);
  } else {
    for (int i = 0; i < n; i++) out.integer[i] = wrapTo(to, a.integer[i]);
  }
}

void realOp(Op op, DType from, const Block& a, const Block& b, const Block& c, Block& out, int n) {
  const double *x = a.real, *y = b.real, *z = c.real;
  switch (op) {
    case Op::Add: return each(out.real, n, [=](int i) { return x[i] + y[i]; });
    case Op::Sub: return each(out.real, n, [=](int i) { return x[i] - y[i]; });
    case Op::Mul: return each(out.real, n, [=](int i) { return x[i] * y[i]; });
    case Op::Div: return each(out.real, n, [=](int i) { return x[i] / y[i]; });
    case Op::Neg: return each(out.real, n, [=](int i) { return -x[i]; });
    case Op::Abs: return each(out.real, n, [=](int i) { return std::fabs(x[i]); });
    case Op::Sqrt: return each(out.real, n, [=](int i) { return std::sqrt(x[i]); });
    case Op::Exp: return each(out.real, n, [=](int i) { return std::exp(x[i]); });
    case Op::Tanh: return each(out.real, n, [=](int i) { return std::tanh(x[i]); });
    case Op::Erf: return each(out.real, n, [=](int i) { return std::erf(x[i]); });
    case Op::Sigmoid: return each(out.real, n, [=](int i) { return 1 / (1 + std::exp(-x[i])); });
    case Op::Lt: return each(out.integer, n, [=](int i) { return x[i] < y[i]; });
    case Op::Le: return each(out.integer, n, [=](int i) { return x[i] <= y[i]; });
    case Op::Eq: return each(out.integer, n, [=](int i) { return x[i] == y[i]; });
    case Op::IsNan: return each(out.integer, n, [=](int i) { return std::isnan(x[i]); });
    case Op::IsInf: return each(out.integer, n, [=](int i) { return std::isinf(x[i]); });
    case Op::Select:
      return each(out.real, n, [=, p = a.integer](int i) { return p[i] ? y[i] : z[i]; });
    case Op::ToBits: return each(out.integer, n, [=](int i) { return evalToBits(from, x[i]); });
    default: break;
  }
  for (int i = 0; i < n; i++) out.real[i] = evalFloat(op, std::array{x[i], y[i], z[i]});
}

/// Index arithmetic: positive divisors, without the general case's tests.
void divide(bool quotient, const int64_t* x, const int64_t* y, int64_t* out, int n) {
  for (int i = 0; i < n; i++) {
    if (y[i] <= 0) {
      out[i] = evalInteger(quotient ? Op::FloorDiv : Op::Mod, DType::I64, std::array{x[i], y[i]});
      continue;
    }
    const int64_t q = x[i] / y[i] - (x[i] % y[i] < 0);
    out[i] = quotient ? q : x[i] - q * y[i];
  }
}

void integerOp(Op op, DType type, const Block& a, const Block& b, const Block& c, Block& out,
               int n) {
  const int64_t *x = a.integer, *y = b.integer, *z = c.integer;
  const bool whole = type == DType::I64,
             ordered =
                 isSigned(type) || bits(type) < 64;  // small unsigned values compare as they are
  const auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  switch (op) {
    case Op::Add:
      if (whole)
        return each(out.integer, n, [=](int i) { return static_cast<int64_t>(u(x[i]) + u(y[i])); });
      break;
    case Op::Sub:
      if (whole)
        return each(out.integer, n, [=](int i) { return static_cast<int64_t>(u(x[i]) - u(y[i])); });
      break;
    case Op::Mul:
      if (whole)
        return each(out.integer, n, [=](int i) { return static_cast<int64_t>(u(x[i]) * u(y[i])); });
      break;
    case Op::FloorDiv:
    case Op::Mod:
      if (whole) return divide(op == Op::FloorDiv, x, y, out.integer, n);
      break;
    case Op::Lt:
      if (ordered) return each(out.integer, n, [=](int i) { return x[i] < y[i]; });
      break;
    case Op::Le:
      if (ordered) return each(out.integer, n, [=](int i) { return x[i] <= y[i]; });
      break;
    case Op::Eq: return each(out.integer, n, [=](int i) { return x[i] == y[i]; });
    case Op::And: return each(out.integer, n, [=](int i) { return x[i] & y[i]; });
    case Op::Or: return each(out.integer, n, [=](int i) { return x[i] | y[i]; });
    case Op::Select: return each(out.integer, n, [=](int i) { return x[i] ? y[i] : z[i]; });
    default: break;
  }
  for (int i = 0; i < n; i++) out.integer[i] = evalInteger(op, type, std::array{x[i], y[i], z[i]});
}

void loadOp(const Tensor& t, const std::vector<int>& index, const std::vector<Block>& registers,
            Block& out, int n) {
  for (int i = 0; i < n; i++) {
    int64_t flat = 0;
    bool inside = true;
    for (size_t k = 0; k < index.size(); k++) {
      const int64_t at = registers[static_cast<size_t>(index[k])].integer[i];
      inside = inside && at >= 0 && at < t.shape[k];
      flat = flat * t.shape[k] + at;
    }
    out.integer[i] = inside ? t.integers()[flat]
                            : 0;  // the bits; outside only in an arm that a select doesn't take
  }
}

}  // namespace

void ScalarProgram::run(const Instruction& i, std::vector<Block>& r,
                        std::span<const Tensor* const> tensors, int n) {
  static const Block none{};
  const auto arg = [&](size_t k) -> const Block& {
    return k < i.args.size() ? r[static_cast<size_t>(i.args[k])] : none;
  };
  Block& out = r[static_cast<size_t>(i.result)];
  switch (i.kind) {
    case Instruction::Convert: return convert(i.from, i.to, arg(0), out, n);
    case Instruction::Load:
      return loadOp(*tensors[static_cast<size_t>(i.tensor)], i.args, r, out, n);
    case Instruction::Integer: return integerOp(i.op, i.from, arg(0), arg(1), arg(2), out, n);
    case Instruction::Real:
      if (i.op != Op::FromBits) return realOp(i.op, i.from, arg(0), arg(1), arg(2), out, n);
      for (int k = 0; k < n; k++) out.real[k] = evalFromBits(i.to, arg(0).integer[k]);
  }
}

void parallelParts(int64_t n, double work, int threads,
                   const std::function<void(int64_t, int64_t)>& f) {
  constexpr double kWorthAThread =
      200'000;  // scalar steps; a thread's start costs about as much as 20,000 of them
  const int64_t parts =
      std::min<int64_t>({threads, n, static_cast<int64_t>(work / kWorthAThread) + 1});
  if (parts <= 1) return f(0, n);
  std::exception_ptr error;
  std::mutex guard;
  const auto part = [&](int64_t k) {
    try {
      f(n * k / parts, n * (k + 1) / parts);
    } catch (...) {
      const std::lock_guard lock(guard);
      error = std::current_exception();
    }
  };
  std::vector<std::thread> team;
  for (int64_t k = 1; k < parts; k++) team.emplace_back(part, k);
  part(0);
  for (std::thread& t : team) t.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace tektite
