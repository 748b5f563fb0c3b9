#include <algorithm>

#include "ir/graph_kernels.h"
#include "support/check.h"

namespace tektite {
namespace {

/// An operand of a contraction: its values in the accumulator's kind, axes in the loop's order, the column axis innermost.
template <class T>
struct Factor {
  std::vector<T> values;
  std::vector<int64_t> strides;  // per loop axis
};

/// The loop nest: the result's labels but one, the summed labels, and that one as the column: a long one, rather of one operand only.
struct Nest {
  std::string outer, summed;
  char column = 0;  // 0: none, a result of rank 0
  std::map<char, int64_t> extents;

  int64_t size(const std::string& labels) const {
    int64_t n = 1;
    for (char l : labels) n *= extents.at(l);
    return n;
  }
  std::vector<int64_t> extentsOf(const std::string& labels) const {
    std::vector<int64_t> out;
    for (char l : labels) out.push_back(extents.at(l));
    return out;
  }
  int64_t width() const { return column ? extents.at(column) : 1; }
};

Nest nestOf(const Contract& c, const Operands& operands) {
  Nest n;
  for (size_t i = 0; i < c.inputs.size(); i++)
    for (size_t k = 0; k < c.inputs[i].size(); k++) {
      const char l = c.inputs[i][k];
      n.extents[l] = operands[i]->shape[k];
      if (c.output.find(l) == std::string::npos && n.summed.find(l) == std::string::npos)
        n.summed += l;
    }
  int64_t best = 0;
  for (char l : c.output) {
    const auto uses = std::count_if(c.inputs.begin(), c.inputs.end(),
                                    [&](const std::string& s) { return s.find(l) != s.npos; });
    const int64_t worth = std::min<int64_t>(n.extents[l], 512) * (uses > 1 ? 1 : 4);
    if (worth < best) continue;
    best = worth;
    n.column = l;
  }
  // Labels of the largest operand outermost: its rows are read once, and stay in cache for all that multiply them.
  size_t largest = 0;
  for (size_t i = 0; i < operands.size(); i++)
    if (operands[i]->elements() > operands[largest]->elements()) largest = i;
  for (const bool first : {true, false})
    for (char l : c.output)
      if (l != n.column && (c.inputs[largest].find(l) != std::string::npos) == first) n.outer += l;
  return n;
}

template <class T>
T element(const Tensor& t, int64_t at) {
  if constexpr (std::is_same_v<T, double>)
    return t.at(at);
  else
    return isFloat(t.dtype) ? saturateTo(DType::I64, t.reals()[at]) : t.integers()[at];
}

template <class T>
Factor<T> factor(const Nest& nest, const std::string& labels, const Tensor& t) {
  const std::string order =
      nest.outer + nest.summed + (nest.column ? std::string(1, nest.column) : "");
  const std::vector<int64_t> from = rowMajor(t.shape);
  std::vector<int64_t> extents, source;
  Factor<T> f;
  for (char l : order) {
    int64_t stride = 0;  // a label that occurs twice walks a diagonal
    for (size_t k = 0; k < labels.size(); k++)
      if (labels[k] == l) stride += from[k];
    if (labels.find(l) == std::string::npos) {
      f.strides.push_back(0);
      continue;
    }
    f.strides.push_back(1);
    extents.push_back(nest.extents.at(l));
    source.push_back(stride);
  }
  const std::vector<int64_t> packed = rowMajor(extents);
  for (size_t i = 0, k = 0; i < f.strides.size(); i++)
    if (f.strides[i]) f.strides[i] = packed[k++];
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  f.values.resize(static_cast<size_t>(n));
  const int64_t width = extents.empty() ? 1 : extents.back(),
                step = extents.empty() ? 0 : source.back();
  if (!extents.empty()) {
    extents.pop_back();
    source.pop_back();
  }
  T* to = f.values.data();
  Odometer at(extents, {source}, 0);
  for (int64_t i = 0; i < n; i += width, at.next())
    for (int64_t k = 0; k < width; k++) *to++ = element<T>(t, at.position(0) + k * step);
  return f;
}

/// sum[i] += x[0] * rows[0][i], then x[1] * rows[1][i] ...: four steps of the sum for one load and store of it, in order.
template <class T>
[[gnu::always_inline]] inline void addRows(T* sum, int64_t n, const T* x, const T* const* rows) {
  const T *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  const T p = x[0], q = x[1], r = x[2], s = x[3];
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; k++)
      sum[i + k] = (((sum[i + k] + p * a[i + k]) + q * b[i + k]) + r * c[i + k]) + s * d[i + k];
  for (; i < n; i++) sum[i] = (((sum[i] + p * a[i]) + q * b[i]) + r * c[i]) + s * d[i];
}
#if defined(__x86_64__)
[[gnu::target("avx2")]] void addRowsWide(double* sum, int64_t n, const double* x,
                                         const double* const* rows) {
  addRows(sum, n, x, rows);
}
const bool wide = __builtin_cpu_supports("avx2");
void add4(double* sum, int64_t n, const double* x, const double* const* rows) {
  wide ? addRowsWide(sum, n, x, rows) : addRows(sum, n, x, rows);
}
#else
void add4(double* sum, int64_t n, const double* x, const double* const* rows) {
  addRows(sum, n, x, rows);
}
#endif
void add4(uint64_t* sum, int64_t n, const uint64_t* x, const uint64_t* const* rows) {
  addRows(sum, n, x, rows);
}

/// The steps of one row's sum, in order; those of a number times a row are taken by fours.
template <class T>
class RowSum {
 public:
  explicit RowSum(int64_t width) : sum_(static_cast<size_t>(width)) {}
  void start() { std::fill(sum_.begin(), sum_.end(), T(0)); }
  void add(const T* a, int64_t sa, const T* b, int64_t sb) {
    if (sa == 1 && sb == 0) {
      std::swap(a, b);
      std::swap(sa, sb);
    }
    if (sa == 0 && sb == 1) {
      x_[waiting_] = *a;
      rows_[waiting_++] = b;
      if (waiting_ == 4) flush();
      return;
    }
    flush();
    for (size_t i = 0; i < sum_.size(); i++)
      sum_[i] += a[static_cast<int64_t>(i) * sa] * b[static_cast<int64_t>(i) * sb];
  }
  const std::vector<T>& finish() {
    flush();
    return sum_;
  }

 private:
  void flush() {
    const int64_t n = static_cast<int64_t>(sum_.size());
    if (waiting_ == 4)
      add4(sum_.data(), n, x_, rows_);
    else
      for (int k = 0; k < waiting_; k++)
        for (int64_t i = 0; i < n; i++) sum_[static_cast<size_t>(i)] += x_[k] * rows_[k][i];
    waiting_ = 0;
  }
  std::vector<T> sum_;
  T x_[4];
  const T* rows_[4];
  int waiting_ = 0;
};

/// The result's strides along some labels.
std::vector<int64_t> stridesAlong(const std::string& labels, const Contract& c, const Tensor& out) {
  const std::vector<int64_t> all = rowMajor(out.shape);
  std::vector<int64_t> strides;
  for (char l : labels) strides.push_back(all[c.output.find(l)]);
  return strides;
}

/// Rows [first, last) of the result. T is double, or uint64_t for integers: wrapping sums wrap the same at the end.
template <class T, class Store>
void rows(const Nest& nest, const std::vector<Factor<T>>& factors, const std::vector<int64_t>& to,
          int64_t first, int64_t last, Store store) {
  const size_t outer = nest.outer.size(), summed = nest.summed.size();
  const int64_t width = nest.width(), steps = nest.size(nest.summed);
  std::vector<std::vector<int64_t>> outerStrides, summedStrides;
  std::vector<int64_t> column;
  for (const Factor<T>& f : factors) {
    outerStrides.emplace_back(f.strides.begin(), f.strides.begin() + static_cast<long>(outer));
    summedStrides.emplace_back(f.strides.begin() + static_cast<long>(outer),
                               f.strides.begin() + static_cast<long>(outer + summed));
    column.push_back(nest.column ? f.strides.back() : 0);
  }
  outerStrides.push_back(to);
  const T one = 1;
  RowSum<T> sum(width);
  std::vector<T> scaled(static_cast<size_t>(width));
  Odometer row(nest.extentsOf(nest.outer), outerStrides, first);
  const std::vector<int64_t> inner = nest.extentsOf(nest.summed);
  for (int64_t r = first; r < last; r++, row.next()) {
    sum.start();
    Odometer k(inner, summedStrides, 0);
    for (int64_t s = 0; s < steps; s++, k.next()) {
      const auto at = [&](size_t i) {
        return factors[i].values.data() + row.position(i) + k.position(i);
      };
      if (factors.size() == 1)
        sum.add(&one, 0, at(0), column[0]);
      else if (factors.size() == 2)
        sum.add(at(0), column[0], at(1), column[1]);
      else {
        std::fill(scaled.begin(), scaled.end(), T(1));
        for (size_t i = 0; i < factors.size(); i++)
          for (int64_t e = 0; e < width; e++)
            scaled[static_cast<size_t>(e)] *= at(i)[e * column[i]];
        sum.add(scaled.data(), 1, &one, 0);
        sum.finish();
      }
    }
    store(row.position(factors.size()), sum.finish());
  }
}

template <class T, class Store>
void contract(const Contract& c, const Operands& operands, const Tensor& out, const Nest& nest,
              int threads, Store store) {
  std::vector<Factor<T>> factors;
  for (size_t i = 0; i < operands.size(); i++)
    factors.push_back(factor<T>(nest, c.inputs[i], *operands[i]));
  const std::vector<int64_t> to = stridesAlong(nest.outer, c, out);
  const int64_t n = nest.size(nest.outer);
  const double work = static_cast<double>(n) * static_cast<double>(nest.width()) *
                      static_cast<double>(nest.size(nest.summed));
  parallelParts(n, work, threads,
                [&](int64_t a, int64_t b) { rows<T>(nest, factors, to, a, b, store); });
}

}  // namespace

void evalContract(const Contract& c, const Operands& operands, Tensor& out, int threads) {
  if (out.elements() == 0) return;
  const Nest nest = nestOf(c, operands);
  const int64_t step = nest.column ? stridesAlong(std::string(1, nest.column), c, out)[0] : 1;
  if (isFloat(out.dtype))
    return contract<double>(c, operands, out, nest, threads,
                            [&](int64_t at, const std::vector<double>& sum) {
                              for (size_t i = 0; i < sum.size(); i++)
                                out.reals()[at + static_cast<int64_t>(i) * step] = sum[i];
                            });
  contract<uint64_t>(c, operands, out, nest, threads,
                     [&](int64_t at, const std::vector<uint64_t>& sum) {
                       for (size_t i = 0; i < sum.size(); i++)
                         out.integers()[at + static_cast<int64_t>(i) * step] =
                             wrapTo(out.dtype, static_cast<int64_t>(sum[i]));
                     });
}

}  // namespace tektite
