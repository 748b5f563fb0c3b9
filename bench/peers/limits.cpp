// Measured machine limits, as JSON on stdout. Build: g++ -O3 -march=native -pthread limits.cpp -o limits
#include <pthread.h>
#include <sched.h>
#include <immintrin.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#ifdef __AVX512F__
constexpr int W = 16;
#else
constexpr int W = 8;
#endif
typedef float V __attribute__((vector_size(W * 4), aligned(W * 4)));
using clk = std::chrono::steady_clock;
static double now() { return std::chrono::duration<double>(clk::now().time_since_epoch()).count(); }
static void pin(int c) { cpu_set_t s; CPU_ZERO(&s); CPU_SET(c, &s); pthread_setaffinity_np(pthread_self(), sizeof s, &s); }
static volatile float g_sink;
static void keep(V v) { float s = 0; for (int i = 0; i < W; i++) s += v[i]; g_sink = s; }

static void fma_kernel(long n) {
  V x, y; for (int i = 0; i < W; i++) { x[i] = 0.999f; y[i] = 1e-3f; }
  V a0 = y, a1 = y, a2 = y, a3 = y, a4 = y, a5 = y, a6 = y, a7 = y, a8 = y, a9 = y;
  asm volatile("" : "+v"(x), "+v"(y));   // in registers, not read from memory by each
  V* all[] = {&a0, &a1, &a2, &a3, &a4, &a5, &a6, &a7, &a8, &a9};   // ten that no compiler takes for one
  for (int i = 0; i < 10; i++) { *all[i] += float(i) * 1e-3f; asm volatile("" : "+m"(*all[i])); }
  for (long i = 0; i < n; i++) {
    a0 = a0 * x + y; a1 = a1 * x + y; a2 = a2 * x + y; a3 = a3 * x + y; a4 = a4 * x + y;   // contract to fma
    a5 = a5 * x + y; a6 = a6 * x + y; a7 = a7 * x + y; a8 = a8 * x + y; a9 = a9 * x + y;
  }
  keep(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9);
}
static void read_kernel(const float* p, long n) {       // n floats, multiple of 8*W
  V s0{}, s1{}, s2{}, s3{}, s4{}, s5{}, s6{}, s7{};
  for (long i = 0; i < n; i += 8 * W) {
    const V* q = (const V*)(p + i);
    s0 += q[0]; s1 += q[1]; s2 += q[2]; s3 += q[3]; s4 += q[4]; s5 += q[5]; s6 += q[6]; s7 += q[7];
  }
  keep(s0 + s1 + s2 + s3 + s4 + s5 + s6 + s7);
}
static void read4_kernel(const float* p, long n) {      // the same from four places at once
  V s0{}, s1{}, s2{}, s3{}; long q = n / 4 / (2 * W) * (2 * W);
  for (long i = 0; i < q; i += 2 * W) {
    s0 += *(const V*)(p + i) + *(const V*)(p + i + W);
    s1 += *(const V*)(p + q + i) + *(const V*)(p + q + i + W);
    s2 += *(const V*)(p + 2 * q + i) + *(const V*)(p + 2 * q + i + W);
    s3 += *(const V*)(p + 3 * q + i) + *(const V*)(p + 3 * q + i + W);
  }
  keep(s0 + s1 + s2 + s3);
}
static void triad_kernel(float* __restrict a, const float* __restrict b, const float* __restrict c, long n) {
  for (long i = 0; i < n; i++) a[i] = b[i] + 0.5f * c[i];
}
static void triad_nt_kernel(float* __restrict a, const float* __restrict b, const float* __restrict c, long n) {
  V h; for (int k = 0; k < W; k++) h[k] = 0.5f;
  for (long i = 0; i < n; i += W) {
    V r = *(const V*)(b + i) + h * *(const V*)(c + i);
#ifdef __AVX512F__
    _mm512_stream_ps(a + i, (__m512)r);
#else
    _mm256_stream_ps(a + i, (__m256)r);
#endif
  }
  _mm_sfence();
}
static void copy_nt_kernel(float* __restrict a, const float* __restrict b, long n) {
  for (long i = 0; i < n; i += W) {
#ifdef __AVX512F__
    _mm512_stream_ps(a + i, (__m512)*(const V*)(b + i));
#else
    _mm256_stream_ps(a + i, (__m256)*(const V*)(b + i));
#endif
  }
  _mm_sfence();
}
// exp of a vector: range reduction and a degree-6 polynomial, about 2 ulp; what a transcendental costs where it isn't bound by memory.
static inline V vexp(V x) {
  typedef int I __attribute__((vector_size(sizeof(V))));
  V t = x * 1.44269504f + 12582912.f, n = t - 12582912.f, r = x - n * 0.693145752f - n * 1.42860677e-6f;
  V p = r * (1.f / 720) + 1.f / 120; p = p * r + 1.f / 24; p = p * r + 1.f / 6; p = p * r + .5f; p = p * r + 1.f; p = p * r + 1.f;
  return p * (V)((((I)t - 0x4B400000) + 127) << 23);
}
static void exp_kernel(float* p, long n, long rep) {      // stays in L1
  for (long k = 0; k < rep; k++) { for (long i = 0; i < n; i += W) *(V*)(p + i) = vexp(-*(const V*)(p + i)); asm volatile("" ::"r"(p) : "memory"); }
}
// Runs f(thread) on nt pinned threads, started together; best wall time of reps.
template <class F> static double best(int nt, int reps, F f) {
  double b = 1e9;
  for (int r = 0; r < reps; r++) {
    std::atomic<int> ready{0}; std::atomic<bool> go{false};
    std::vector<std::thread> ts; std::vector<double> t0(nt), t1(nt);
    for (int t = 0; t < nt; t++) ts.emplace_back([&, t] {
      pin(nt == 1 ? (int)std::thread::hardware_concurrency() - 1 : t);
      ready++; while (!go) {}
      t0[t] = now(); f(t); t1[t] = now(); });
    while (ready < nt) std::this_thread::yield();
    go = true; for (auto& t : ts) t.join();
    double s = t0[0], e = t1[0]; for (int t = 1; t < nt; t++) { if (t0[t] < s) s = t0[t]; if (t1[t] > e) e = t1[t]; }
    if (e - s < b) b = e - s;
  }
  return b;
}
static float* alloc(long n) { float* p = (float*)aligned_alloc(1 << 21, (n * 4 + (1 << 21) - 1) >> 21 << 21); for (long i = 0; i < n; i++) p[i] = 1.f; return p; }
__attribute__((noinline)) static void callee(float* p) { asm volatile("" ::"r"(p) : "memory"); }

int main() {
  const long N = 48L << 20;                              // 192 MiB per array
  int nc = (int)std::thread::hardware_concurrency(); if (nc > 2) nc = 2;
  float *a = alloc(N), *b = alloc(N), *c = alloc(N);
  printf("{\n");
  for (int nt = 1; nt <= nc; nt++) {
    long it = 50'000'000; double t = best(nt, 5, [&](int) { fma_kernel(it); });
    printf("\"fma_gflops_%d\": %.1f,\n", nt, nt * it * 10.0 * W * 2 / t / 1e9);
    long m = N / nt / 256 * 256;
    t = best(nt, 7, [&](int k) { triad_kernel(a + k * m, b + k * m, c + k * m, m); });
    printf("\"triad_gbs_%d\": %.1f,\n", nt, nt * m * 12.0 / t / 1e9);
    t = best(nt, 7, [&](int k) { triad_nt_kernel(a + k * m, b + k * m, c + k * m, m); });
    printf("\"triad_nt_gbs_%d\": %.1f,\n", nt, nt * m * 12.0 / t / 1e9);
    t = best(nt, 7, [&](int k) { copy_nt_kernel(a + k * m, b + k * m, m); });
    printf("\"copy_nt_gbs_%d\": %.1f,\n", nt, nt * m * 8.0 / t / 1e9);
    t = best(nt, 5, [&](int k) { exp_kernel(a + k * m, 4096, 5000); });
    printf("\"exp_gelems_%d\": %.2f,\n", nt, nt * 4096.0 * 5000 / t / 1e9);
    t = best(nt, 7, [&](int k) { read_kernel(a + k * m, m); });
    printf("\"read_gbs_%d\": %.1f,\n", nt, nt * m * 4.0 / t / 1e9);
    t = best(nt, 7, [&](int k) { read4_kernel(a + k * m, m); });
    printf("\"read4_gbs_%d\": %.1f,\n", nt, nt * m * 4.0 / t / 1e9);
    struct { const char* n; long bytes; } lv[] = {{"l1", 16 << 10}, {"l2", 256 << 10}, {"l3", 6 << 20}};
    for (auto& l : lv) {
      long f = l.bytes / 4, rep = (1L << 31) / l.bytes;
      t = best(nt, 5, [&](int k) { for (long r = 0; r < rep; r++) { read_kernel(a + k * (8L << 20), f); asm volatile("" ::: "memory"); } });
      printf("\"%s_read_gbs_%d\": %.1f,\n", l.n, nt, nt * rep * (double)l.bytes / t / 1e9);
    }
  }
  pin(nc - 1);
  { void (*volatile fp)(float*) = callee; long n = 200'000'000; double t = now(); for (long i = 0; i < n; i++) fp(a); printf("\"fnptr_call_ns\": %.2f,\n", (now() - t) / n * 1e9); }
  { std::function<void(float*)> fn = callee; long n = 200'000'000; double t = now(); for (long i = 0; i < n; i++) fn(a); printf("\"std_function_call_ns\": %.2f,\n", (now() - t) / n * 1e9); }
  { long n = 2'000'000; double t = now(); for (long i = 0; i < n; i++) { void* p = malloc(65536); asm volatile("" ::"r"(p) : "memory"); free(p); } printf("\"malloc64k_free_ns\": %.1f,\n", (now() - t) / n * 1e9); }
  if (nc > 1) {
    { // fork/join with a spinning helper
      std::atomic<long> req{0}, ack{0}; std::thread h([&] { pin(0); for (long k = 1; k <= 200000; k++) { while (req.load(std::memory_order_acquire) < k) _mm_pause(); ack.store(k, std::memory_order_release); } });
      double t = now(); for (long k = 1; k <= 200000; k++) { req.store(k, std::memory_order_release); while (ack.load(std::memory_order_acquire) < k) _mm_pause(); }
      printf("\"forkjoin_spin_ns\": %.1f,\n", (now() - t) / 200000 * 1e9); h.join();
    }
    { // fork/join with a sleeping helper (condition variable)
      std::mutex m; std::condition_variable cv; long req = 0, ack = 0; const long n = 20000;
      std::thread h([&] { pin(0); for (long k = 1; k <= n; k++) { std::unique_lock<std::mutex> l(m); cv.wait(l, [&] { return req >= k; }); ack = k; cv.notify_all(); } });
      double t = now(); for (long k = 1; k <= n; k++) { std::unique_lock<std::mutex> l(m); req = k; cv.notify_all(); cv.wait(l, [&] { return ack >= k; }); }
      printf("\"forkjoin_condvar_ns\": %.1f,\n", (now() - t) / n * 1e9); h.join();
    }
  }
  printf("\"simd_floats\": %d, \"cores\": %d\n}\n", W, nc);
}
