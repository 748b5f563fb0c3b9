#include <algorithm>
#include <cstring>

#include "ir/graph_kernels.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kBlock = ScalarProgram::kBlock;

int64_t bitsOfFill(const View& v) {
  if (!v.fill) return 0;
  const Imm& i = *v.fill.as<Imm>();
  int64_t out = i.integer;
  if (isFloat(v.fill.type())) std::memcpy(&out, &i.real, 8);
  return out;
}

/// Source indices that are sums of multiples of coordinates: whole rows are copied.
class LinearView {
 public:
  LinearView(const View& v, const Tensor& in, const Tensor& out)
      : in_(in), out_(out), fill_(bitsOfFill(v)) {
    valid_ = !v.guard && !out.shape.empty();
    for (size_t a = 0; valid_ && a < v.index.size(); a++) {
      const Linear l = linearOf(v.index[a]);
      base_.push_back(l.constant);
      std::vector<int64_t> by(out.shape.size());
      for (const auto& [term, coefficient] : l.terms) {
        const Var* var = term.as<Var>();
        if (!var) {
          valid_ = false;
          return;
        }
        by[static_cast<size_t>(std::stoi(var->name.substr(1)))] = coefficient;
      }
      by_.push_back(std::move(by));
    }
  }
  bool valid() const { return valid_; }

  void rows(Tensor& out, int64_t first, int64_t last) const {
    const size_t inner = out.shape.size() - 1;
    const int64_t width = out.shape[inner];
    const std::vector<int64_t> strides = rowMajor(in_.shape);
    int64_t step = 0;
    for (size_t a = 0; a < by_.size(); a++) step += by_[a][inner] * strides[a];
    std::vector<std::vector<int64_t>> outer = by_;
    for (auto& s : outer) s.pop_back();
    Odometer at({out.shape.begin(), out.shape.end() - 1}, outer, first);
    for (int64_t row = first; row < last; row++, at.next()) {
      int64_t low = 0, high = width, from = 0;  // the elements of this row that are inside
      for (size_t a = 0; a < by_.size(); a++) {
        const int64_t start = base_[a] + at.position(a), c = by_[a][inner], extent = in_.shape[a];
        from += start * strides[a];
        if (c == 0) {
          if (start < 0 || start >= extent) high = 0;
        } else if (c > 0) {
          low = std::max(low, start < 0 ? (-start + c - 1) / c : 0);
          high = std::min(high, start >= extent ? 0 : (extent - 1 - start) / c + 1);
        } else {
          low = std::max(low, start >= extent ? (start - extent) / -c + 1 : 0);
          high = std::min(high, start < 0 ? 0 : start / -c + 1);
        }
      }
      low = std::min(low, width);
      high = std::max(high, low);
      int64_t* to = out.integers() + row * width;
      const int64_t* source = in_.integers();
      std::fill(to, to + low, fill_);
      if (step == 1)
        std::copy(source + from + low, source + from + high, to + low);
      else
        for (int64_t i = low; i < high; i++) to[i] = source[from + i * step];
      std::fill(to + high, to + width, fill_);
    }
  }
  int64_t rowCount() const { return out_.shape.back() ? out_.elements() / out_.shape.back() : 0; }

 private:
  const Tensor &in_, &out_;
  const int64_t fill_;
  bool valid_ = false;
  std::vector<int64_t> base_;
  std::vector<std::vector<int64_t>> by_;  // per source axis, per coordinate
};

/// Any index and guard: evaluated in blocks of elements. Loads read the operands, the first one counts by its shape only.
class ComputedView {
 public:
  ComputedView(const View& v, const Operands& operands, std::vector<int64_t> from,
               std::vector<int64_t> to)
      : view_(v),
        operands_(operands),
        from_(std::move(from)),
        to_(std::move(to)),
        program_(results(v), names(to_.size())) {}
  int length() const { return program_.length() + 4; }

  /// see(element, position in the operand or -1)
  template <class F>
  void elements(Wanted wanted, int64_t first, int64_t last, F see) const {
    ScalarProgram::Machine machine(program_, operands_);
    const size_t rank = from_.size();
    Odometer at(to_, {}, wanted.list ? 0 : first);
    for (int64_t from = first; from < last; from += kBlock) {
      const int n = static_cast<int>(std::min<int64_t>(kBlock, last - from));
      for (int e = 0; e < n; e++) {
        if (wanted.list) at = Odometer(to_, {}, wanted.at(from + e));
        for (size_t i = 0; i < to_.size(); i++)
          if (program_.uses(static_cast<int>(i)))
            machine.variable(static_cast<int>(i)).integer[e] = at.coordinate(i);
        if (!wanted.list) at.next();
      }
      machine.run(n);
      for (int e = 0; e < n; e++) {
        bool inside = !view_.guard || machine.result(static_cast<int>(rank)).integer[e];
        int64_t flat = 0;
        for (size_t a = 0; a < rank; a++) {
          const int64_t index = machine.result(static_cast<int>(a)).integer[e];
          inside = inside && index >= 0 && index < from_[a];
          if (inside) flat = flat * from_[a] + index;
        }
        TEKTITE_CHECK(inside || view_.fill, "a view without a fill leaves its operand [{}]",
                      fmt::join(from_, "x"));
        see(wanted.at(from + e), inside ? flat : -1);
      }
    }
  }

 private:
  static std::vector<Expr> results(const View& v) {
    std::vector<Expr> out = v.index;
    if (v.guard) out.push_back(v.guard);
    return out;
  }
  static std::vector<std::string> names(size_t rank) {
    std::vector<std::string> out;
    for (size_t i = 0; i < rank; i++) out.push_back(coordinate(static_cast<int>(i)));
    return out;
  }

  const View& view_;
  const Operands& operands_;
  const std::vector<int64_t> from_, to_;
  const ScalarProgram program_;
};

}  // namespace

void evalView(const View& v, const Operands& operands, Tensor& out, Wanted wanted, int threads) {
  const int64_t n = wanted.count(out);
  if (n == 0) return;
  if (!wanted.list && operands.size() == 1)
    if (const LinearView linear(v, *operands[0], out); linear.valid())
      return parallelParts(linear.rowCount(), static_cast<double>(n), threads,
                           [&](int64_t a, int64_t b) { linear.rows(out, a, b); });
  const ComputedView view(v, operands, operands[0]->shape, out.shape);
  const int64_t fill = bitsOfFill(v);
  const int64_t* in = operands[0]->integers();
  parallelParts(n, static_cast<double>(n) * view.length(), threads, [&](int64_t a, int64_t b) {
    view.elements(wanted, a, b, [&](int64_t element, int64_t at) {
      out.integers()[element] = at < 0 ? fill : in[at];
    });
  });
}

void viewPositions(const View& v, const std::vector<int64_t>& from, const std::vector<int64_t>& to,
                   const std::vector<int64_t>& elements, const std::function<void(int64_t)>& see) {
  const Operands none;
  const ComputedView view(v, none, from, to);
  view.elements({&elements}, 0, static_cast<int64_t>(elements.size()), [&](int64_t, int64_t at) {
    if (at >= 0) see(at);
  });
}

void evalUpdate(const Update& u, const Operands& operands, Tensor& out) {
  const Tensor &base = *operands[0], &values = *operands.back();
  std::memcpy(out.integers(), base.integers(), static_cast<size_t>(base.elements()) * 8);
  std::vector<std::string> names;
  for (size_t i = 0; i < values.shape.size(); i++) names.push_back(coordinate(static_cast<int>(i)));
  const ScalarProgram program(u.index, names);
  ScalarProgram::Machine machine(program, operands);
  const Expr old = var("old", base.dtype);
  const ScalarProgram join(
      u.combine.empty()
          ? std::vector{old}
          : builtinCombine(u.combine, base.dtype).join({old}, {var("new", base.dtype)}),
      {"old", "new"});
  ScalarProgram::Machine joined(join, {});
  Odometer at(values.shape, {}, 0);
  for (int64_t i = 0; i < values.elements(); i++, at.next()) {
    for (size_t k = 0; k < names.size(); k++)
      if (program.uses(static_cast<int>(k)))
        machine.variable(static_cast<int>(k)).integer[0] = at.coordinate(k);
    machine.run(1);
    int64_t flat = 0;
    bool inside = true;
    for (size_t a = 0; a < base.shape.size(); a++) {
      const int64_t index = machine.result(static_cast<int>(a)).integer[0];
      inside = inside && index >= 0 && index < base.shape[a];
      flat = flat * base.shape[a] + index;
    }
    if (!inside) continue;
    int64_t& to = out.integers()[flat];
    if (u.combine.empty()) {
      to = values.integers()[i];
      continue;
    }
    joined.variable(0).integer[0] = to;
    joined.variable(1).integer[0] = values.integers()[i];
    joined.run(1);
    to = joined.result(0).integer[0];
  }
}

}  // namespace tektite
