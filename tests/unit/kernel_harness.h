#pragma once
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>

#include "ir/kernel_eval.h"

namespace tektite::testing {

using Dims = std::map<std::string, int64_t>;

inline std::string readText(const std::filesystem::path& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

/// `M=3 N=100; M=1 N=1`: the shapes of a `# test:` line.
inline std::vector<Dims> parseShapes(const std::string& line) {
  std::stringstream cases(line);
  std::vector<Dims> out;
  for (std::string one; std::getline(cases, one, ';');) {
    Dims dims;
    std::stringstream words(one);
    for (std::string word; words >> word;)
      dims[word.substr(0, word.find('='))] = std::stoll(word.substr(word.find('=') + 1));
    out.push_back(dims);
  }
  return out;
}

/// What follows `# key: ` in a text, up to the end of the line; "" where there is no such line.
inline std::string header(const std::string& text, const std::string& key) {
  const size_t at = text.find("# " + key + ": ");
  if (at == std::string::npos) return "";
  const size_t from = at + key.size() + 4;
  return text.substr(from, text.find('\n', from) - from);
}

/// A parameter's memory, addressed by its indices.
struct Tensor {
  DType type;
  std::vector<int64_t> shape, strides;
  std::vector<char> raw;

  int64_t elements() const { return static_cast<int64_t>(raw.size()) / bytes(type); }
  int64_t at(const std::vector<int64_t>& index) const {
    int64_t out = 0;
    for (size_t d = 0; d < index.size(); d++) out += index[d] * strides[d];
    return out;
  }
  double operator()(const std::vector<int64_t>& index) const {
    return isFloat(type) ? loadFloat(type, raw.data(), at(index))
                         : static_cast<double>(loadInteger(type, raw.data(), at(index)));
  }
  template <class F>
  void each(F&& f) const {
    int64_t points = 1;
    for (int64_t s : shape) points *= s;
    for (int64_t p = 0; p < points; p++) {
      std::vector<int64_t> index(shape.size());
      int64_t rest = p;
      for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
      f(index);
    }
  }
};

using Tensors = std::map<std::string, Tensor>;

inline int64_t evaluate(const Expr& e, const Dims& dims) {
  std::unordered_map<std::string, Expr> values;
  for (const auto& [name, value] : dims) values[name] = Expr(value);
  return *asInteger(substitute(e, values));
}

/// Memory for all parameters: inputs uniform in (-2, 2), what lies between their rows and all outputs NaN.
inline Tensors makeTensors(const Kernel& k, const Dims& dims, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tensors out;
  std::map<std::string, std::string> classes;
  for (const Param& p : k.params) {
    Tensor t{p.buffer.type, {}, {}, {}};
    for (const Expr& e : p.buffer.shape) t.shape.push_back(evaluate(e, dims));
    t.strides.resize(t.shape.size());
    int64_t stride = 1, size = 1;
    for (size_t d = t.shape.size(); d-- > 0; stride *= t.shape[d])
      t.strides[d] = p.buffer.strides.empty() ? stride : evaluate(p.buffer.strides[d], dims);
    for (size_t d = 0; d < t.shape.size(); d++)
      size = size && t.shape[d] ? size + (t.shape[d] - 1) * t.strides[d] : 0;
    t.raw.resize(size * bytes(t.type));
    for (int64_t i = 0; i < size && isFloat(t.type); i++)
      storeFloat(t.type, t.raw.data(), i, std::nan(""));
    if (p.mode != Param::Out)
      t.each([&](const std::vector<int64_t>& index) {
        if (isFloat(t.type))
          storeFloat(t.type, t.raw.data(), t.at(index),
                     std::uniform_real_distribution<>(-2, 2)(random));
        else
          storeInteger(t.type, t.raw.data(), t.at(index), static_cast<int64_t>(random() % 1000));
      });
    out[p.buffer.name] = std::move(t);
  }
  return out;
}

/// Runs the kernel; the outputs are in `tensors` after it.
inline EvalCounters runKernel(const KernelModule& m, Tensors& tensors, const Dims& dims,
                              const KernelEvalOptions& options = {}) {
  const Kernel& k = m.kernels[0];
  std::map<std::string, EvalBuffer> buffers;
  std::map<std::string, std::string> classes;  // alias class -> its first parameter
  for (const Param& p : k.params) {
    std::string owner = p.buffer.name;
    if (!p.buffer.alias.empty()) owner = classes.try_emplace(p.buffer.alias, owner).first->second;
    buffers[p.buffer.name] = {tensors[owner].raw.data(), tensors[owner].elements()};
  }
  const EvalCounters counters = KernelEvaluator(m, k).run(buffers, dims, options);
  for (const Param& p : k.params)
    if (!p.buffer.alias.empty() && p.mode != Param::In)
      tensors[p.buffer.name].raw = tensors[classes[p.buffer.alias]].raw;
  return counters;
}

}  // namespace tektite::testing
