#include <gtest/gtest.h>

#include <cmath>

#include "emit_run.h"

namespace tektite {
namespace {

using Dims = std::map<std::string, int64_t>;

/// Runs the file's kernel on every machine type here: by a team of 3, and on one of them strictly, by one thread, and with
/// exact dims.
void everywhere(const std::string& file, const Dims& dims, const std::function<TestBuffers()>& make,
                const std::function<void(TestBuffers&)>& check) {
  struct Way {
    int threads;
    FastMath mode;
    bool exact;
  };
  for (const Target& target : runnableTargets())
    for (const Way& way : {Way{1, FastMath::None, false},
                           {1, FastMath::Contract, false},
                           {3, FastMath::Contract, false},
                           {3, FastMath::Fast, true}}) {
      if (target.name != "cpu:avx2" && (way.threads == 1 || way.exact)) continue;
      if (way.exact && dims.begin()->second < 2) continue;
      TestBuffers buffers = make();
      SCOPED_TRACE(fmt::format("{} on {}, {} threads, mode {}", file, target.name, way.threads,
                               static_cast<int>(way.mode)));
      runKernel(kernelFile(file), dims, buffers, target, way.threads, way.mode, way.exact);
      check(buffers);
    }
}

void expectNear(const TestBuffer& found, const std::vector<double>& wanted,
                double tolerance = 2e-6) {
  ASSERT_EQ(found.elements(), static_cast<int64_t>(wanted.size()));
  double size = 1;
  for (const double w : wanted) size = std::max(size, std::fabs(w));
  for (size_t i = 0; i < wanted.size(); i++)
    ASSERT_NEAR(found.at(i), wanted[i], tolerance * size) << "at " << i;
}

void softmaxRows(const std::string& file) {
  for (const auto& [M, N] :
       {std::pair<int64_t, int64_t>{5, 19}, {1, 1}, {0, 3}, {3, 64}, {2, 131}}) {
    const std::vector<float> x = noise(M * N, 7, 4);
    std::vector<double> wanted;
    for (int64_t i = 0; i < M; i++) {
      double top = -INFINITY, sum = 0;
      for (int64_t j = 0; j < N; j++) top = std::max<double>(top, x[i * N + j]);
      for (int64_t j = 0; j < N; j++) sum += std::exp(x[i * N + j] - top);
      for (int64_t j = 0; j < N; j++) wanted.push_back(std::exp(x[i * N + j] - top) / sum);
    }
    everywhere(
        file, {{"M", M}, {"N", N}},
        [&, n = M * N] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["y"] = TestBuffer(DType::F32, n);
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], wanted); });
  }
}

TEST(EmitKernels, Softmax) { softmaxRows("softmax.tk"); }
TEST(EmitKernels, SoftmaxOnline) { softmaxRows("softmax_online.tk"); }

TEST(EmitKernels, LayerNorm) {
  for (const auto& [M, N] : {std::pair<int64_t, int64_t>{4, 19}, {3, 64}}) {
    const auto x = noise(M * N, 1), g = noise(N, 2), c = noise(N, 3);
    std::vector<double> wanted;
    for (int64_t i = 0; i < M; i++) {
      double mean = 0, square = 0;
      for (int64_t j = 0; j < N; j++) mean += x[i * N + j] / N;
      for (int64_t j = 0; j < N; j++) square += (x[i * N + j] - mean) * (x[i * N + j] - mean) / N;
      for (int64_t j = 0; j < N; j++)
        wanted.push_back((x[i * N + j] - mean) / std::sqrt(square + 1e-5) * g[j] + c[j]);
    }
    everywhere(
        "layer_norm.tk", {{"M", M}, {"N", N}},
        [&] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["g"] = TestBuffer(g);
          b["b"] = TestBuffer(c);
          b["y"] = TestBuffer(DType::F32, x.size());
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], wanted, 1e-5); });
  }
}

TEST(EmitKernels, Attention) {
  for (const auto& [H, S, T] : {std::tuple<int64_t, int64_t, int64_t>{2, 6, 19},
                                {1, 1, 1},
                                {1, 0, 3},
                                {1, 4, 8},
                                {3, 5, 17}}) {
    const auto q = noise(H * S * 16, 1), k = noise(H * T * 16, 2), v = noise(H * T * 16, 3);
    std::vector<double> wanted(q.size());
    for (int64_t h = 0; h < H; h++)
      for (int64_t s = 0; s < S; s++) {
        std::vector<double> p(T);
        double top = -INFINITY, sum = 0;
        for (int64_t t = 0; t < T; t++) {
          for (int c = 0; c < 16; c++)
            p[t] += q[(s * H + h) * 16 + c] * k[(t * H + h) * 16 + c] * 0.25;
          top = std::max(top, p[t]);
        }
        for (double& e : p) sum += e = std::exp(e - top);
        for (int64_t t = 0; t < T; t++)
          for (int c = 0; c < 16; c++)
            wanted[(s * H + h) * 16 + c] += p[t] / sum * v[(t * H + h) * 16 + c];
      }
    everywhere(
        "attention.tk", {{"H", H}, {"S", S}, {"T", T}},
        [&] {
          TestBuffers b;
          b["q"] = TestBuffer(q);
          b["k"] = TestBuffer(k);
          b["v"] = TestBuffer(v);
          b["o"] = TestBuffer(DType::F32, q.size());
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["o"], wanted); });
  }
}

std::vector<double> product(const std::vector<float>& a, const std::vector<float>& b, int64_t M,
                            int64_t K, int64_t N, int64_t pitch) {
  std::vector<double> out(M * N);
  for (int64_t i = 0; i < M; i++)
    for (int64_t k = 0; k < K; k++)
      for (int64_t j = 0; j < N; j++)
        out[i * N + j] += static_cast<double>(a[i * pitch + k]) * b[k * N + j];
  return out;
}

TEST(EmitKernels, GemmTail) {
  for (const auto& [M, K, N, L] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{13, 7, 37, 9},
                                   {1, 1, 1, 1},
                                   {0, 2, 3, 2},
                                   {12, 5, 32, 5}}) {
    const auto a = noise(M * L, 1), b = noise(K * N, 2), bias = noise(N, 3);
    std::vector<double> wanted = product(a, b, M, K, N, L);
    for (size_t i = 0; i < wanted.size(); i++) wanted[i] = std::max(0.0, wanted[i] + bias[i % N]);
    std::vector<float> panels((N + 15) / 16 * K * 16);
    for (int64_t k = 0; k < K; k++)
      for (int64_t j = 0; j < N; j++) panels[(j / 16 * K + k) * 16 + j % 16] = b[k * N + j];
    everywhere(
        "gemm_tail.tk", {{"M", M}, {"K", K}, {"N", N}, {"L", L}},
        [&] {
          TestBuffers t;
          t["a"] = TestBuffer(a);
          t["bp"] = TestBuffer(panels);
          t["bias"] = TestBuffer(bias);
          t["y"] = TestBuffer(DType::F32, wanted.size());
          return t;
        },
        [&](TestBuffers& t) { expectNear(t["y"], wanted); });
  }
}

TEST(EmitKernels, Mlp) {
  for (const auto& [M, K, F, N] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{6, 5, 19, 11},
                                   {1, 1, 1, 1},
                                   {0, 2, 3, 4},
                                   {4, 8, 32, 16}}) {
    const auto x = noise(M * K, 1), w1 = noise(K * F, 2), b1 = noise(F, 3), w2 = noise(F * N, 4),
               b2 = noise(N, 5);
    const auto hidden = product(x, w1, M, K, F, K);
    std::vector<float> h;
    for (size_t i = 0; i < hidden.size(); i++) {
      const double v = hidden[i] + b1[i % F];
      h.push_back(static_cast<float>(0.5 * v * (1 + std::erf(v * M_SQRT1_2))));
    }
    auto wanted = product(h, w2, M, F, N, F);
    for (size_t i = 0; i < wanted.size(); i++) wanted[i] += b2[i % N];
    everywhere(
        "mlp.tk", {{"M", M}, {"K", K}, {"F", F}, {"N", N}},
        [&] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["w1"] = TestBuffer(w1);
          b["b1"] = TestBuffer(b1);
          b["w2"] = TestBuffer(w2);
          b["b2"] = TestBuffer(b2);
          b["y"] = TestBuffer(DType::F32, wanted.size());
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], wanted); });
  }
}

TEST(EmitKernels, StackedProjections) {
  for (const auto& [S, E, P, R] :
       {std::tuple<int64_t, int64_t, int64_t, int64_t>{5, 7, 19, 9}, {1, 1, 1, 1}, {4, 8, 16, 8}}) {
    const auto x = noise(S * E, 1), wq = noise(E * P, 2), wk = noise(E * R, 3),
               wv = noise(E * R, 4);
    everywhere(
        "qkv.tk", {{"S", S}, {"E", E}, {"P", P}, {"R", R}},
        [&, S = S, P = P, R = R] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["wq"] = TestBuffer(wq);
          b["wk"] = TestBuffer(wk);
          b["wv"] = TestBuffer(wv);
          b["q"] = TestBuffer(DType::F32, S * P);
          b["k"] = TestBuffer(DType::F32, S * R);
          b["v"] = TestBuffer(DType::F32, S * R);
          return b;
        },
        [&, S = S, E = E, P = P, R = R](TestBuffers& b) {
          expectNear(b["q"], product(x, wq, S, E, P, E));
          expectNear(b["k"], product(x, wk, S, E, R, E));
          expectNear(b["v"], product(x, wv, S, E, R, E));
        });
  }
}

/// 3x3, padding 1.
std::vector<double> convolved(const std::vector<double>& x, const std::vector<float>& w, int I,
                              int O, int H, int W) {
  std::vector<double> y(O * H * W);
  for (int o = 0; o < O; o++)
    for (int h = 0; h < H; h++)
      for (int v = 0; v < W; v++)
        for (int i = 0; i < I; i++)
          for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
              const int r = h + a - 1, c = v + b - 1;
              if (r >= 0 && r < H && c >= 0 && c < W)
                y[(o * H + h) * W + v] += x[(i * H + r) * W + c] * w[((o * I + i) * 3 + a) * 3 + b];
            }
  return y;
}

TEST(EmitKernels, TwoConvolutions) {
  for (const auto& [H, W] : {std::pair<int, int>{6, 11}, {1, 1}, {4, 8}, {9, 3}}) {
    const auto x = noise(2 * H * W, 1), w1 = noise(54, 2), w2 = noise(54, 3);
    auto mid = convolved({x.begin(), x.end()}, w1, 2, 3, H, W);
    for (double& m : mid) m = std::max(m, 0.0);
    const auto wanted = convolved(mid, w2, 3, 2, H, W);
    everywhere(
        "conv_conv.tk", {{"H", H}, {"W", W}},
        [&] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["w1"] = TestBuffer(w1);
          b["w2"] = TestBuffer(w2);
          b["y"] = TestBuffer(DType::F32, wanted.size());
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], wanted); });
  }
}

TEST(EmitKernels, NormOfAVector) {
  for (const int64_t N : {200, 1, 64, 65}) {
    const auto x = noise(N, 1);
    double sum = 0;
    for (const float v : x) sum += static_cast<double>(v) * v;
    everywhere(
        "l2norm.tk", {{"N", N}},
        [&] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["y"] = TestBuffer(DType::F32, 1);
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], {std::sqrt(sum)}); });
  }
}

TEST(EmitKernels, FirstMaximum) {
  for (const auto& [M, N] : {std::pair<int64_t, int64_t>{3, 100}, {1, 1}, {2, 33}}) {
    auto x = noise(M * N, 1);
    x[N / 2] = x[N - 1] = 2;  // the first of equals
    std::vector<double> wanted;
    for (int64_t i = 0; i < M; i++)
      wanted.push_back(std::max_element(x.begin() + i * N, x.begin() + (i + 1) * N) -
                       (x.begin() + i * N));
    everywhere(
        "argmax.tk", {{"M", M}, {"N", N}},
        [&, M = M] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["y"] = TestBuffer(DType::I64, M);
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], wanted, 0); });
  }
}

TEST(EmitKernels, BatchNormAndDropoutInPlace) {
  for (const auto& [N, C, P] :
       {std::tuple<int64_t, int64_t, int64_t>{2, 3, 11}, {1, 1, 1}, {2, 2, 8}}) {
    const auto x = noise(N * C * P, 1), scale = noise(C, 2), shift = noise(C, 3);
    std::vector<double> y, d;
    for (size_t i = 0; i < x.size(); i++) {
      y.push_back(x[i] * scale[i / P % C] + shift[i / P % C]);
      uint32_t h = (static_cast<uint32_t>(i) + 5) * 747796405u + 2891336453u;
      h = ((h >> 16) ^ h) * 277803737u;
      h = (h >> 15) ^ h;
      d.push_back(h < 2147483648u ? 2.0 * x[i] : 0);
    }
    for (const Target& target : runnableTargets()) {
      TestBuffers b;
      b["x"] = TestBuffer(x);
      b["scale"] = TestBuffer(scale);
      b["shift"] = TestBuffer(shift);
      b["seed"] = TestBuffer(DType::U32, 1);
      b["seed"].set(0, 5);
      b["y"] = TestBuffer(DType::F32, x.size());
      b["d"] = TestBuffer(DType::F32, x.size());
      KernelModule module = kernelFile("bn_dropout.tk");
      for (Param& p : module.kernels[0].params)
        p.buffer.alias.clear();  // here each has its own memory
      runKernel(module, {{"N", N}, {"C", C}, {"P", P}}, b, target, 3);
      expectNear(b["y"], y);
      expectNear(b["d"], d, 0);
    }
  }
}

TEST(EmitKernels, Recurrence) {
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (const auto& [T, B, H] :
       {std::tuple<int, int, int>{3, 2, 11}, {1, 1, 1}, {0, 1, 3}, {4, 1, 8}}) {
    const auto x = noise(T * B * H, 1), w = noise(8 * H * H, 2), r = noise(8 * H * H, 3),
               bias = noise(8 * H, 4);
    std::vector<double> in(x.begin(), x.end());
    for (int layer = 0; layer < 2; layer++) {
      std::vector<double> out(in.size()), cell(B * H);
      for (int t = 0; t < T; t++)
        for (int b = 0; b < B; b++) {
          for (int u = 0; u < H; u++) {
            double s[4];
            for (int q = 0; q < 4; q++) {
              s[q] = bias[(layer * 4 + q) * H + u];
              for (int k = 0; k < H; k++) {
                s[q] += in[(t * B + b) * H + k] * w[((layer * H + k) * 4 + q) * H + u];
                if (t)
                  s[q] += out[((t - 1) * B + b) * H + k] * r[((layer * H + k) * 4 + q) * H + u];
              }
            }
            double& c = cell[b * H + u];
            c = (t ? c : 0) * sigmoid(s[1]) + std::tanh(s[2]) * sigmoid(s[0]);
            out[(t * B + b) * H + u] = std::tanh(c) * sigmoid(s[3]);
          }
        }
      in = out;
    }
    everywhere(
        "lstm.tk", {{"T", T}, {"B", B}, {"H", H}},
        [&] {
          TestBuffers b;
          b["x"] = TestBuffer(x);
          b["w"] = TestBuffer(w);
          b["r"] = TestBuffer(r);
          b["bias"] = TestBuffer(bias);
          b["y"] = TestBuffer(DType::F32, x.size());
          return b;
        },
        [&](TestBuffers& b) { expectNear(b["y"], in, 1e-5); });
  }
}

}  // namespace
}  // namespace tektite
