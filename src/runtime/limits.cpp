#include "runtime/limits.h"

#include <algorithm>
#include <chrono>

#include "runtime/array.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tektite {
namespace {

constexpr int64_t kArrayBytes = 64 << 20;  // each of three: beyond any last-level cache of a core
constexpr int64_t kWidestVector = 64;
constexpr int64_t kFmaRounds = 200000;  // about 0.5 ms

#if defined(__x86_64__)

constexpr int kAccumulators = 12;  // latency 4, two a cycle: 8 would just do

__attribute__((target("avx512f"))) float fmaAvx512(int64_t rounds) {
  __m512 sum[kAccumulators], m = _mm512_set1_ps(0.999f), a = _mm512_set1_ps(1e-3f);
  for (auto& s : sum) s = _mm512_set1_ps(1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm512_fmadd_ps(s, m, a);
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  return _mm512_cvtss_f32(sum[0]);
}

__attribute__((target("avx2,fma"))) float fmaAvx2(int64_t rounds) {
  __m256 sum[kAccumulators], m = _mm256_set1_ps(0.999f), a = _mm256_set1_ps(1e-3f);
  for (auto& s : sum) s = _mm256_set1_ps(1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm256_fmadd_ps(s, m, a);
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  return _mm256_cvtss_f32(sum[0]);
}

float multiplyAdd(int64_t rounds, int64_t vectorBytes, int& lanes) {
  if (vectorBytes >= 64 && __builtin_cpu_supports("avx512f")) {
    lanes = 16 * kAccumulators;
    return fmaAvx512(rounds);
  }
  if (vectorBytes >= 32 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    lanes = 8 * kAccumulators;
    return fmaAvx2(rounds);
  }
  lanes = 4 * kAccumulators;
  __m128 sum[kAccumulators], m = _mm_set1_ps(0.999f), a = _mm_set1_ps(1e-3f);
  for (auto& s : sum) s = _mm_set1_ps(1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm_add_ps(_mm_mul_ps(s, m), a);
  }
  for (int i = 1; i < kAccumulators; ++i) sum[0] = _mm_add_ps(sum[0], sum[i]);
  return _mm_cvtss_f32(sum[0]);
}

float readAll(const float* from, int64_t count) {
  __m128 sum[8];
  for (auto& s : sum) s = _mm_setzero_ps();
  for (int64_t i = 0; i + 32 <= count; i += 32) {
    for (int k = 0; k < 8; ++k) sum[k] = _mm_add_ps(sum[k], _mm_load_ps(from + i + 4 * k));
  }
  for (int k = 1; k < 8; ++k) sum[0] = _mm_add_ps(sum[0], sum[k]);
  return _mm_cvtss_f32(sum[0]);
}

void triad(float* to, const float* b, const float* c, int64_t count) {
  const __m128 s = _mm_set1_ps(3.0f);
  for (int64_t i = 0; i + 4 <= count; i += 4)
    _mm_stream_ps(to + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(s, _mm_load_ps(c + i))));
  _mm_sfence();
}

#else

float multiplyAdd(int64_t rounds, int64_t, int& lanes) {
  constexpr int kLanes = 64;
  lanes = kLanes;
  float sum[kLanes];
  std::fill(sum, sum + kLanes, 1.0f);
  for (int64_t i = 0; i < rounds; ++i) {
    for (float& s : sum) s = s * 0.999f + 1e-3f;
  }
  return *std::max_element(sum, sum + kLanes);
}

float readAll(const float* from, int64_t count) {
  float sum[16] = {};
  for (int64_t i = 0; i + 16 <= count; i += 16) {
    for (int k = 0; k < 16; ++k) sum[k] += from[i + k];
  }
  return sum[0];
}

void triad(float* to, const float* b, const float* c, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = b[i] + 3.0f * c[i];
}

#endif

using Clock = std::chrono::steady_clock;

/// The rate (units of work a second) of one run of the team.
template <class Work>
double rateOf(Team& team, double unitsOfTeam, Work work) {
  const auto start = Clock::now();
  team.run([](void* context, int thread) { (*static_cast<Work*>(context))(thread); }, &work);
  return unitsOfTeam / std::chrono::duration<double>(Clock::now() - start).count();
}

/// The best rate of repeated runs.
template <class Rate>
double best(double seconds, Rate rate) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  double best = 0;
  do best = std::max(best, rate());
  while (Clock::now() < end);
  return best;
}

}  // namespace

double fmaBurst(Team& team, int64_t vectorBytes) {
  int lanes = 0;
  multiplyAdd(1, vectorBytes, lanes);
  volatile float sink = 0;
  return rateOf(team, 2.0 * lanes * kFmaRounds * team.threads(), [&](int) {
    int ignored;
    sink = multiplyAdd(kFmaRounds, vectorBytes, ignored);
  });
}

double measureFma(Team& team, double seconds) {
  return best(seconds, [&] { return fmaBurst(team, kWidestVector); });
}

Bandwidths measureBandwidths(Team& team, double seconds) {
  Bandwidths limits;
  const int threads = team.threads();
  volatile float sink = 0;
  const int64_t count = kArrayBytes / 4 / threads / 64 * 64, total = count * threads;
  const Array a(DType::F32, {total}), b(DType::F32, {total}), c(DType::F32, {total});
  const auto part = [&](const Array& array, int thread) {
    return static_cast<float*>(array.data()) + count * thread;
  };
  std::fill_n(static_cast<float*>(a.data()), total, 0.0f);
  std::fill_n(static_cast<float*>(b.data()), total, 1.0f);
  std::fill_n(static_cast<float*>(c.data()), total, 2.0f);
  limits.readBytes = best(seconds / 2, [&] {
    return rateOf(team, 8.0 * static_cast<double>(total),
                  [&](int t) { sink = readAll(part(b, t), count) + readAll(part(c, t), count); });
  });
  limits.triadBytes = best(seconds / 2, [&] {
    return rateOf(team, 12.0 * static_cast<double>(total),
                  [&](int t) { triad(part(a, t), part(b, t), part(c, t), count); });
  });
  return limits;
}

}  // namespace tektite
