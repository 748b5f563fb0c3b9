// The kernels of tests/kernel, each at the shapes of its header, against formulas written down here.
#include <gtest/gtest.h>

#include "kernel_harness.h"

namespace tektite {
namespace {

using namespace tektite::testing;
using Index = std::vector<int64_t>;
using Formula = std::function<double(const Index&)>;
using Outputs = std::map<std::string, Formula>;

double clip(double v) { return v < 0 ? 0 : v; }
double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }

Outputs softmax(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             const Tensor& x = t.at("x");
             double top = -INFINITY, sum = 0;
             for (int64_t c = 0; c < d.at("N"); c++) top = std::max(top, x({i[0], c}));
             for (int64_t c = 0; c < d.at("N"); c++) sum += std::exp(x({i[0], c}) - top);
             return std::exp(x(i) - top) / sum;
           }}};
}

Outputs layerNorm(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             const int64_t n = d.at("N");
             double mean = 0, square = 0;
             for (int64_t c = 0; c < n; c++) mean += t.at("x")({i[0], c}) / n;
             for (int64_t c = 0; c < n; c++) square += std::pow(t.at("x")({i[0], c}) - mean, 2) / n;
             return (t.at("x")(i) - mean) / std::sqrt(square + 1e-5) * t.at("g")({i[1]}) +
                    t.at("b")({i[1]});
           }}};
}

Outputs norm(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index&) {
             double sum = 0;
             for (int64_t c = 0; c < d.at("N"); c++) sum += std::pow(t.at("x")({c}), 2);
             return std::sqrt(sum);
           }}};
}

Outputs firstMaximum(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             int64_t best = 0;
             for (int64_t c = 1; c < d.at("N"); c++)
               if (t.at("x")({i[0], c}) > t.at("x")({i[0], best})) best = c;
             return static_cast<double>(best);
           }}};
}

Outputs attention(const Tensors& t, Dims d) {
  return {{"o", [&t, d](const Index& i) {
             std::vector<double> score(d.at("T"));
             double top = -INFINITY, sum = 0, out = 0;
             for (size_t j = 0; j < score.size(); j++) {
               for (int64_t c = 0; c < 16; c++)
                 score[j] += t.at("q")({i[0], i[1], c}) * t.at("k")({i[0], int64_t(j), c}) / 4;
               top = std::max(top, score[j]);
             }
             for (double s : score) sum += std::exp(s - top);
             for (size_t j = 0; j < score.size(); j++)
               out += std::exp(score[j] - top) / sum * t.at("v")({i[0], int64_t(j), i[2]});
             return out;
           }}};
}

Outputs normDropout(const Tensors& t, Dims d) {
  return {{"y",
           [&t](const Index& i) {
             return t.at("x")(i) * t.at("scale")({i[1]}) + t.at("shift")({i[1]});
           }},
          {"d", [&t, d](const Index& i) {
             const int64_t at = (i[0] * d.at("C") + i[1]) * d.at("P") + i[2];
             uint32_t h = (uint32_t(at) + uint32_t(t.at("seed")({}))) * 747796405u + 2891336453u;
             h = ((h >> 16) ^ h) * 277803737u;
             h = (h >> 15) ^ h;
             return h < 2147483648u ? t.at("x")(i) * 2 : 0.0;
           }}};
}

Outputs convConv(const Tensors& t, Dims d) {
  const int64_t h = d.at("H"), w = d.at("W");
  const auto inside = [h, w](int64_t y, int64_t x) { return y >= 0 && y < h && x >= 0 && x < w; };
  const auto middle = [&t, inside](int64_t c, int64_t y, int64_t x) {
    double sum = 0;
    for (int64_t ci = 0; ci < 2; ci++)
      for (int64_t k = 0; k < 9; k++)
        if (inside(y + k / 3 - 1, x + k % 3 - 1))
          sum += t.at("w1")({c, ci, k / 3, k % 3}) * t.at("x")({ci, y + k / 3 - 1, x + k % 3 - 1});
    return clip(sum);
  };
  return {{"y", [&t, inside, middle](const Index& i) {
             double sum = 0;
             for (int64_t ci = 0; ci < 3; ci++)
               for (int64_t k = 0; k < 9; k++)
                 if (inside(i[1] + k / 3 - 1, i[2] + k % 3 - 1))
                   sum += t.at("w2")({i[0], ci, k / 3, k % 3}) *
                          middle(ci, i[1] + k / 3 - 1, i[2] + k % 3 - 1);
             return sum;
           }}};
}

/// Sum over k of a[i, k] * b[k, j].
double product(const Tensor& a, const Tensor& b, int64_t i, int64_t j, int64_t extent) {
  double sum = 0;
  for (int64_t k = 0; k < extent; k++) sum += a({i, k}) * b({k, j});
  return sum;
}

Outputs packedProduct(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             double sum = t.at("bias")({i[1]});
             for (int64_t k = 0; k < d.at("K"); k++)
               sum += t.at("a")({i[0], k}) * t.at("bp")({i[1] / 16, k, i[1] % 16});
             return clip(sum);
           }}};
}

Outputs gpuProduct(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             return product(t.at("a"), t.at("b"), i[0], i[1], d.at("K")) + t.at("bias")({i[1]});
           }}};
}

Outputs npuProduct(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             return clip(product(t.at("a"), t.at("b"), i[0], i[1], d.at("K")));
           }}};
}

Outputs threeProducts(const Tensors& t, Dims d) {
  Outputs out;
  for (const char* name : {"q", "k", "v"})
    out[name] = [&t, d, w = "w" + std::string(name)](const Index& i) {
      return product(t.at("x"), t.at(w), i[0], i[1], d.at("E"));
    };
  return out;
}

Outputs twoProducts(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             double sum = t.at("b2")({i[1]});
             for (int64_t f = 0; f < d.at("F"); f++) {
               const double h =
                   product(t.at("x"), t.at("w1"), i[0], f, d.at("K")) + t.at("b1")({f});
               sum += 0.5 * h * (1 + std::erf(h / std::sqrt(2.0))) * t.at("w2")({f, i[1]});
             }
             return sum;
           }}};
}

/// All steps of one layer, of one batch element: [step][unit].
using States = std::vector<std::vector<double>>;
States recurrence(const Tensors& t, Dims d, int64_t layer, const States& in) {
  const int64_t units = d.at("H");
  States out;
  std::vector<double> cell(units), last(units);
  for (const std::vector<double>& x : in) {
    std::vector<double> now(units);
    for (int64_t u = 0; u < units; u++) {
      double gate[4];
      for (int64_t q = 0; q < 4; q++) {
        gate[q] = t.at("bias")({layer, q, u});
        for (int64_t k = 0; k < units; k++)
          gate[q] += x[k] * t.at("w")({layer, k, q, u}) + last[k] * t.at("r")({layer, k, q, u});
      }
      cell[u] = cell[u] * sigmoid(gate[1]) + std::tanh(gate[2]) * sigmoid(gate[0]);
      now[u] = std::tanh(cell[u]) * sigmoid(gate[3]);
    }
    out.push_back(last = now);
  }
  return out;
}

Outputs recurrentLayers(const Tensors& t, Dims d) {
  return {{"y", [&t, d](const Index& i) {
             States x(d.at("T"), std::vector<double>(d.at("H")));
             for (int64_t s = 0; s < d.at("T"); s++)
               for (int64_t k = 0; k < d.at("H"); k++) x[s][k] = t.at("x")({s, i[1], k});
             return recurrence(t, d, 1, recurrence(t, d, 0, x))[i[0]][i[2]];
           }}};
}

const std::map<std::string, std::pair<Outputs (*)(const Tensors&, Dims), double>> references = {
    {"argmax", {firstMaximum, 0}},
    {"attention", {attention, 2e-7}},
    {"bn_dropout", {normDropout, 2e-7}},
    {"conv_conv", {convConv, 2e-7}},
    {"gemm_tail", {packedProduct, 2e-7}},
    {"gpu_gemm", {gpuProduct, 2e-7}},
    {"gpu_softmax", {softmax, 2e-7}},
    {"l2norm", {norm, 2e-7}},
    {"layer_norm", {layerNorm, 2e-7}},
    {"lstm", {recurrentLayers, 2e-6}},  // its results are rounded, and read again
    {"mlp", {twoProducts, 2e-7}},
    {"npu_gemm", {npuProduct, 1e-3}},
    {"qkv", {threeProducts, 2e-7}},
    {"softmax", {softmax, 2e-7}},
    {"softmax_online", {softmax, 2e-7}},
};

void compare(const Outputs& expected, const Tensors& tensors, double tolerance,
             const std::string& what) {
  for (const auto& [name, formula] : expected) {
    int shown = 0;
    tensors.at(name).each([&](const Index& i) {
      const double want = formula(i), got = tensors.at(name)(i);
      const bool same = std::isnan(want)
                            ? std::isnan(got)
                            : std::fabs(got - want) <= tolerance * std::fabs(want) + 1e-9;
      if (!same && shown++ < 3)
        ADD_FAILURE() << what << ": " << name << ": found " << got << ", expected " << want;
    });
  }
}

class KernelFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(KernelFiles, ComputeWhatTheyShould) {
  const std::string file = GetParam(), text = readText(TEKTITE_TESTS "/kernel/" + file + ".tk");
  const auto& [reference, tolerance] = references.at(file);
  const KernelModule m = parseKernels(text, file);
  for (const Dims& dims : parseShapes(header(text, "test")))
    for (auto order :
         {KernelEvalOptions::Forward, KernelEvalOptions::Reverse, KernelEvalOptions::Shuffled}) {
      std::string what = fmt::format("order {}", int(order));
      for (const auto& [name, value] : dims) what += fmt::format(" {}={}", name, value);
      Tensors tensors = makeTensors(m.kernels[0], dims, 7);
      if (file == "gemm_tail")  // panels are padded with zeros
        tensors["bp"].each([&, bp = &tensors["bp"]](const Index& i) {
          if (i[0] * 16 + i[2] >= dims.at("N")) storeFloat(bp->type, bp->raw.data(), bp->at(i), 0);
        });
      const Tensors inputs = tensors;
      KernelEvalOptions options;
      options.order = order;
      options.seed = 3;
      runKernel(m, tensors, dims, options);
      compare(reference(inputs, dims), tensors, tolerance, what);
    }
}

INSTANTIATE_TEST_SUITE_P(All, KernelFiles, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& [name, reference] : references) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tektite
