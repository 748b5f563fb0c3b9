#include <algorithm>
#include <cstring>

#include "ir/graph_kernels.h"
#include "support/check.h"

namespace tektite {

constexpr int kBlock = ScalarProgram::kBlock;

Odometer::Odometer(std::vector<int64_t> extents, std::vector<std::vector<int64_t>> strides,
                   int64_t first)
    : extents_(std::move(extents)),
      at_(extents_.size()),
      positions_(strides.size()),
      strides_(std::move(strides)) {
  for (size_t i = extents_.size(); i-- > 0;) {
    const int64_t n = std::max<int64_t>(extents_[i], 1);
    at_[i] = first % n;
    first /= n;
    for (size_t k = 0; k < strides_.size(); k++) positions_[k] += at_[i] * strides_[k][i];
  }
}

void Odometer::next() {
  for (size_t i = extents_.size(); i-- > 0;) {
    for (size_t k = 0; k < strides_.size(); k++) positions_[k] += strides_[k][i];
    if (++at_[i] < extents_[i]) return;
    for (size_t k = 0; k < strides_.size(); k++) positions_[k] -= strides_[k][i] * extents_[i];
    at_[i] = 0;
  }
}

std::vector<int64_t> rowMajor(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0; stride *= extents[i]) strides[i] = stride;
  return strides;
}

std::vector<int64_t> broadcastStrides(const std::vector<int64_t>& from,
                                      const std::vector<int64_t>& to) {
  std::vector<int64_t> strides = rowMajor(from);
  TEKTITE_CHECK(from.size() == to.size(), "rank {} read at rank {}", from.size(), to.size());
  for (size_t i = 0; i < from.size(); i++)
    if (from[i] == 1) strides[i] = 0;
  return strides;
}

namespace {

/// A body over operands and coordinates of a shape, axes merged where nobody tells them apart.
class MapLoop {
 public:
  MapLoop(const Map& m, const Operands& operands, const Tensor& out)
      : operands_(operands), rank_(out.shape.size()), program_({m.body}, names()) {
    std::vector<std::vector<int64_t>> strides;
    for (const Tensor* t : operands) strides.push_back(broadcastStrides(t->shape, out.shape));
    strides_.resize(operands.size());
    for (size_t i = 0; i < rank_; i++) {
      const bool keep = used(i);
      bool merge = !extents_.empty() && !keep && axes_.back() < 0;
      for (size_t k = 0; merge && k < strides.size(); k++)
        merge = strides_[k].back() == strides[k][i] * out.shape[i];
      if (out.shape[i] == 1 && !keep) continue;
      if (merge) {
        extents_.back() *= out.shape[i];
        for (size_t k = 0; k < strides.size(); k++) strides_[k].back() = strides[k][i];
        continue;
      }
      extents_.push_back(out.shape[i]);
      axes_.push_back(keep ? static_cast<int>(i) : -1);
      for (size_t k = 0; k < strides.size(); k++) strides_[k].push_back(strides[k][i]);
    }
  }

  int length() const { return program_.length() + 1; }
  bool shortRows() const { return extents_.empty() || extents_.back() < 32; }
  int64_t rows() const {
    int64_t n = 1;
    for (size_t i = 0; i + 1 < extents_.size(); i++) n *= extents_[i];
    return n;
  }

  /// Whole rows of the last axis: operands are copied or repeated a block at a time.
  void byRows(Tensor& out, int64_t first, int64_t last) const {
    ScalarProgram::Machine machine(program_, {});
    const size_t inner = extents_.size() - 1;
    const int64_t width = extents_[inner];
    Odometer at({extents_.begin(), extents_.end() - 1}, outerStrides(), first);
    for (int64_t row = first; row < last; row++, at.next())
      for (int64_t from = 0; from < width; from += kBlock) {
        const int n = static_cast<int>(std::min<int64_t>(kBlock, width - from));
        for (size_t k = 0; k < operands_.size(); k++)
          if (program_.uses(static_cast<int>(k)))
            copy(*operands_[k], at.position(k) + from * strides_[k][inner], strides_[k][inner],
                 machine.variable(static_cast<int>(k)), n);
        for (size_t i = 0; i < extents_.size(); i++)
          if (axes_[i] >= 0)
            for (int e = 0; e < n; e++)
              machine.variable(slot(axes_[i])).integer[e] =
                  i == inner ? from + e : at.coordinate(i);
        machine.run(n);
        std::memcpy(out.integers() + row * width + from, machine.result(0).integer,
                    static_cast<size_t>(n) * 8);
      }
  }

  /// Any elements, one by one into blocks.
  void byElements(Tensor& out, Wanted wanted, int64_t first, int64_t last) const {
    ScalarProgram::Machine machine(program_, {});
    Odometer at(extents_, strides_, wanted.list ? 0 : first);
    for (int64_t from = first; from < last; from += kBlock) {
      const int n = static_cast<int>(std::min<int64_t>(kBlock, last - from));
      for (int e = 0; e < n; e++) {
        if (wanted.list) at = Odometer(extents_, strides_, wanted.at(from + e));
        for (size_t k = 0; k < operands_.size(); k++)
          if (program_.uses(static_cast<int>(k)))
            machine.variable(static_cast<int>(k)).integer[e] =
                operands_[k]->integers()[at.position(k)];
        for (size_t i = 0; i < extents_.size(); i++)
          if (axes_[i] >= 0) machine.variable(slot(axes_[i])).integer[e] = at.coordinate(i);
        if (!wanted.list) at.next();
      }
      machine.run(n);
      for (int e = 0; e < n; e++)
        out.integers()[wanted.at(from + e)] = machine.result(0).integer[e];
    }
  }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (size_t i = 0; i < operands_.size(); i++) out.push_back(operandName(static_cast<int>(i)));
    for (size_t i = 0; i < rank_; i++) out.push_back(coordinate(static_cast<int>(i)));
    return out;
  }
  int slot(int axis) const { return static_cast<int>(operands_.size()) + axis; }
  bool used(size_t axis) const { return program_.uses(slot(static_cast<int>(axis))); }
  std::vector<std::vector<int64_t>> outerStrides() const {
    std::vector<std::vector<int64_t>> out = strides_;
    for (auto& s : out) s.pop_back();
    return out;
  }
  static void copy(const Tensor& t, int64_t from, int64_t stride, ScalarProgram::Block& to, int n) {
    const int64_t* source = t.integers() + from;  // the bits, of doubles too
    if (stride == 1)
      std::memcpy(to.integer, source, static_cast<size_t>(n) * 8);
    else if (stride == 0)
      std::fill_n(to.integer, n, *source);
    else
      for (int e = 0; e < n; e++) to.integer[e] = source[e * stride];
  }

  const Operands& operands_;
  const size_t rank_;
  const ScalarProgram program_;
  std::vector<int64_t> extents_;
  std::vector<int> axes_;  // of the result where its coordinate is used, else -1
  std::vector<std::vector<int64_t>> strides_;
};

}  // namespace

void evalMap(const Map& m, const Operands& operands, Tensor& out, Wanted wanted, int threads) {
  if (out.elements() == 0) return;
  const MapLoop loop(m, operands, out);
  const int64_t n = wanted.count(out);
  const double work = static_cast<double>(n) * loop.length();
  if (wanted.list || loop.shortRows())
    parallelParts(n, work * 4, threads,
                  [&](int64_t a, int64_t b) { loop.byElements(out, wanted, a, b); });
  else
    parallelParts(loop.rows(), work, threads,
                  [&](int64_t a, int64_t b) { loop.byRows(out, a, b); });
}

void evalConcat(const Concat& c, const Operands& operands, Tensor& out) {
  const size_t axis = static_cast<size_t>(c.axis);
  int64_t outer = 1, inner = 1, done = 0;
  for (size_t i = 0; i < axis; i++) outer *= out.shape[i];
  for (size_t i = axis + 1; i < out.shape.size(); i++) inner *= out.shape[i];
  for (const Tensor* t : operands) {
    const int64_t width = t->shape[axis] * inner, pitch = out.shape[axis] * inner;
    for (int64_t i = 0; i < outer; i++)
      std::memcpy(out.integers() + i * pitch + done, t->integers() + i * width,
                  static_cast<size_t>(width) * 8);
    done += width;
  }
}

}  // namespace tektite
