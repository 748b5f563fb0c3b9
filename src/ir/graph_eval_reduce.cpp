#include <algorithm>
#include <cmath>

#include "ir/graph_kernels.h"
#include "support/check.h"

namespace tektite {
namespace {

constexpr int kBlock = ScalarProgram::kBlock;

/// The input's axes, merged where neighbours are alike: kept or reduced.
struct Axes {
  std::vector<int64_t> extents;
  std::vector<bool> reduced;
  std::vector<int64_t> out;  // strides in the result: 0 where reduced
};

Axes axesOf(const Reduce& r, const std::vector<int64_t>& shape) {
  Axes a;
  for (size_t i = 0; i < shape.size(); i++) {
    const bool reduced = std::count(r.axes.begin(), r.axes.end(), static_cast<int>(i)) > 0;
    if (shape[i] == 1 && !a.extents.empty()) continue;
    if (!a.extents.empty() && a.reduced.back() == reduced) {
      a.extents.back() *= shape[i];
      continue;
    }
    a.extents.push_back(shape[i]);
    a.reduced.push_back(reduced);
  }
  if (a.extents.empty()) a = {{1}, {false}, {}};
  a.out.resize(a.extents.size());
  int64_t stride = 1;
  for (size_t i = a.extents.size(); i-- > 0;)
    if (!a.reduced[i]) {
      a.out[i] = stride;
      stride *= a.extents[i];
    }
  return a;
}

/// One value, one op: the loop that nearly every reduction is.
template <class T, class F>
void builtin(const Axes& a, const T* in, T* out, int64_t firstRow, int64_t lastRow, F join) {
  const size_t inner = a.extents.size() - 1;
  const int64_t width = a.extents[inner];
  std::vector<int64_t> outer(a.out.begin(), a.out.end() - 1);
  Odometer at({a.extents.begin(), a.extents.end() - 1}, {outer}, firstRow);
  for (int64_t row = firstRow; row < lastRow; row++, at.next()) {
    const T* x = in + row * width;
    T* y = out + at.position(0);
    if (a.reduced[inner]) {
      T state = *y;
      for (int64_t i = 0; i < width; i++) state = join(state, x[i]);
      *y = state;
    } else {
      for (int64_t i = 0; i < width; i++) y[i] = join(y[i], x[i]);
    }
  }
}

double larger(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : a < b ? b : a; }
double smaller(double a, double b) { return std::isnan(a) ? a : std::isnan(b) ? b : b < a ? b : a; }

bool fast(const Reduce& r, const Axes& a, const Tensor& in, Tensor& out, int64_t first,
          int64_t last) {
  const std::string& name = r.combine.name;
  if (r.combine.arity() != 1 || !isBuiltinCombine(name)) return false;
  if (isFloat(in.dtype)) {
    const auto run = [&](auto join) {
      return builtin(a, in.reals(), out.reals(), first, last, join), true;
    };
    if (name == "sum") return run([](double x, double y) { return x + y; });
    if (name == "product") return run([](double x, double y) { return x * y; });
    if (name == "max") return run(larger);
    if (name == "min") return run(smaller);
    return false;
  }
  const auto run = [&](auto join) {
    return builtin(a, in.integers(), out.integers(), first, last, join), true;
  };
  const DType t = in.dtype;
  const auto u = [](int64_t v) { return static_cast<uint64_t>(v); };
  if (name == "sum")
    return run([=](int64_t x, int64_t y) { return wrapTo(t, static_cast<int64_t>(u(x) + u(y))); });
  if (name == "any") return run([](int64_t x, int64_t y) { return x | y; });
  if (name == "all") return run([](int64_t x, int64_t y) { return x & y; });
  return false;
}

/// Any combine: a tuple at a time.
void general(const Reduce& r, const ScalarProgram& program, const Axes& a, const Operands& in,
             std::vector<Tensor>& out, int64_t first, int64_t last) {
  const size_t inner = a.extents.size() - 1, arity = r.combine.arity();
  const int64_t width = a.extents[inner];
  ScalarProgram::Machine machine(program, {});
  std::vector<int64_t> outer(a.out.begin(), a.out.end() - 1);
  Odometer at({a.extents.begin(), a.extents.end() - 1}, {outer}, first);
  const int block = a.reduced[inner] ? 1 : kBlock;
  for (int64_t row = first; row < last; row++, at.next())
    for (int64_t from = 0; from < width; from += block) {
      const int n = static_cast<int>(std::min<int64_t>(block, width - from));
      const int64_t to = at.position(0) + (a.reduced[inner] ? 0 : from);
      for (size_t k = 0; k < arity; k++) {
        const int left = static_cast<int>(k), right = static_cast<int>(arity + k);
        if (program.uses(left))
          std::copy_n(out[k].integers() + to, n, machine.variable(left).integer);
        if (program.uses(right))
          std::copy_n(in[k]->integers() + row * width + from, n, machine.variable(right).integer);
      }
      machine.run(n);
      for (size_t k = 0; k < arity; k++)
        std::copy_n(machine.result(static_cast<int>(k)).integer, n, out[k].integers() + to);
    }
}

}  // namespace

void evalReduce(const Reduce& r, const Operands& in, std::vector<Tensor>& out, int threads) {
  const Combine& c = r.combine;
  const ScalarProgram identity(c.identity, {});
  ScalarProgram::Machine start(identity, {});
  start.run(1);
  for (size_t k = 0; k < out.size(); k++)
    std::fill_n(out[k].integers(), out[k].elements(), start.result(static_cast<int>(k)).integer[0]);
  if (in[0]->elements() == 0) return;
  std::vector<std::string> names = c.left;
  names.insert(names.end(), c.right.begin(), c.right.end());
  const ScalarProgram program(c.result, names);
  const Axes a = axesOf(r, in[0]->shape);
  const int64_t rows = in[0]->elements() / a.extents.back();
  const auto part = [&](int64_t first, int64_t last) {
    if (!fast(r, a, *in[0], out[0], first, last)) general(r, program, a, in, out, first, last);
  };
  // Parts are of the first axis, so that nobody else has a part of the same result.
  const bool split = !a.reduced[0] && a.extents.size() > 1;
  const int64_t perFirst = rows / a.extents[0];
  if (!split)
    part(0, rows);
  else
    parallelParts(a.extents[0], static_cast<double>(in[0]->elements()) * 2, threads,
                  [&](int64_t x, int64_t y) { part(x * perFirst, y * perFirst); });
}

}  // namespace tektite
