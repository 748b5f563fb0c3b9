#include <cmath>
#include <random>

#include "api/access.h"
#include "cli/cli.h"
#include "support/check.h"

namespace tektite::cli {
namespace {

constexpr int kTokens = 128, kWidth = 256, kHeads = 4, kInner = 4 * kWidth;

/// Weights from a fixed seed, so that every run is the same model.
class Weights {
 public:
  explicit Weights(Network& network) : network_(network) {}
  Tensor matrix(int rows, int columns) {
    return random({rows, columns}, 1 / std::sqrt(static_cast<float>(rows)));
  }
  Tensor vector(int length, float mean) { return random({length}, 0.1f, mean); }

 private:
  Tensor random(const Shape& shape, float deviation, float mean = 0) {
    std::normal_distribution<float> normal(mean, deviation);
    int64_t count = 1;
    for (const api::Dim& dim : shape) count *= dim.number;
    std::vector<float> elements(static_cast<size_t>(count));
    for (float& element : elements) element = normal(random_);
    return network_.constant(shape, elements);
  }
  Network& network_;
  std::mt19937 random_{1};
};

Tensor softmaxOf(const Tensor& x) {
  const Tensor e = exp(x - amax(x, {-1}));
  return e / sum(e, {-1});
}

Tensor normalized(const Tensor& x, const Tensor& scale, const Tensor& shift) {
  const Tensor centred = x - mean(x, {-1});
  return centred / sqrt(mean(centred * centred, {-1}) + 1e-5) * scale + shift;
}

Tensor heads(const Tensor& x) {
  return transpose(reshape(x, {kTokens, kHeads, kWidth / kHeads}), {1, 0, 2});
}

Tensor attention(const Tensor& x, Weights& w) {
  const Tensor q = heads(matmul(x, w.matrix(kWidth, kWidth))),
               k = heads(matmul(x, w.matrix(kWidth, kWidth)));
  const Tensor v = heads(matmul(x, w.matrix(kWidth, kWidth)));
  const Tensor scores =
      contract("hqd,hkd->hqk", q, k) * (1 / std::sqrt(static_cast<double>(kWidth / kHeads)));
  const Tensor mixed = matmul(softmaxOf(scores), v);
  return matmul(reshape(transpose(mixed, {1, 0, 2}), {kTokens, kWidth}), w.matrix(kWidth, kWidth));
}

Tensor perceptron(const Tensor& x, Weights& w) {
  const Tensor h = matmul(x, w.matrix(kWidth, kInner)) + w.vector(kInner, 0);
  return matmul(h * 0.5 * (1 + erf(h * std::sqrt(0.5))), w.matrix(kInner, kWidth)) +
         w.vector(kWidth, 0);
}

}  // namespace

Graph builtinModel(const std::string& name) {
  if (name != "transformer-block")
    userError("--builtin: '{}' found, expected transformer-block", name);
  Network network;
  Weights w(network);
  const Tensor x = network.input("x", Type::F32, {kTokens, kWidth});
  const Tensor y = x + attention(normalized(x, w.vector(kWidth, 1), w.vector(kWidth, 0)), w);
  network.output("y", y + perceptron(normalized(y, w.vector(kWidth, 1), w.vector(kWidth, 0)), w));
  return Access::graph(network.model());
}

}  // namespace tektite::cli
