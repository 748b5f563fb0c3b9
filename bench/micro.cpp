// Google Benchmarks of what programs consist of: products, convolutions, streams, functions, and a kernel boundary on hot threads.
//   taskset -c 0,1 build/bench/micro [--benchmark_filter=Product] [--benchmark_format=json]
#include <benchmark/benchmark.h>

#include "ops/op.h"
#include "ops/product.h"
#include "ops/util.h"
#include "runtime/compile.h"
#include "runtime/program.h"
#include "runtime/team.h"
#include "support/check.h"

namespace tektite {
namespace {

Value weights(Builder& b, std::vector<int64_t> shape) {
  int64_t n = 1;
  for (const int64_t e : shape) n *= e;
  std::vector<double> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<double>(i % 17) / 16 - 0.5;
  return constantOf(b, DType::F32, values, {shape.begin(), shape.end()});
}

/// A compiled graph with buffers that are kept, as a program runs again and again.
class Runner {
 public:
  Runner(Builder b, Value result, int threads) : team_(threads) {
    b.graph.outputs = {result};
    CompileOptions options;
    options.target = hostTarget();
    options.threads = threads;
    const auto program = compile(prepareGraph(b.graph, {}, {}), options);
    for (const auto* list : {&program->inputs, &program->outputs})
      for (const TensorType& t : *list)
        memory_.emplace_back(static_cast<size_t>(t.elements() * bytes(t.dtype)) / sizeof(float),
                             0.5f);
    for (size_t i = 0; i < memory_.size(); i++)
      i < program->inputs.size() ? in_.push_back(memory_[i].data())
                                 : out_.push_back(memory_[i].data());
    session_ = std::make_unique<Session>(program, threads > 1 ? &team_ : nullptr);
    run();
  }
  void run() { session_->run(in_.data(), out_.data()); }

 private:
  Team team_;
  std::vector<std::vector<float>> memory_;
  std::vector<const void*> in_;
  std::vector<void*> out_;
  std::unique_ptr<Session> session_;
};

void measure(benchmark::State& state, Runner& runner, const char* unit, double each) {
  for (auto _ : state) runner.run();
  state.counters[unit] = benchmark::Counter(each, benchmark::Counter::kIsIterationInvariantRate);
}

/// [m, k] x [k, n], constant weights.
void product(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  Builder b;
  const Value x = b.input("x", {DType::F32, {m, k}});
  Runner runner(b, b.contract("mk,kn->mn", x, weights(b, {k, n})),
                static_cast<int>(state.range(3)));
  measure(state, runner, "flops", 2.0 * static_cast<double>(m * k * n));
}

/// channels -> channels over size x size, a square kernel, groups.
void convolution(benchmark::State& state) {
  const int64_t channels = state.range(0), size = state.range(1), kernel = state.range(2),
                groups = state.range(3);
  Builder b;
  const Value x = b.input("x", {DType::F32, {1, channels, size, size}});
  OpCall call;
  call.op = "Conv";
  call.in = {x, weights(b, {channels, channels / groups, kernel, kernel})};
  call.attributes["group"] = groups;
  call.attributes["pads"] = std::vector<int64_t>(4, kernel / 2);
  const Value y = buildOp(b, call).at(0);
  Runner runner(b, y, static_cast<int>(state.range(4)));
  measure(state, runner, "flops",
          2.0 * static_cast<double>(channels * channels / groups * kernel * kernel * size * size));
}

/// One pass over so many MiB: a sum reads, a scaling reads and writes.
void stream(benchmark::State& state, bool writes) {
  const int64_t n = state.range(0) << 18;
  Builder b;
  const Value x = b.input("x", {DType::F32, {n}});
  Runner runner(b, writes ? b.map("a * 2", {x}) : b.reduce("sum", x, {0}),
                static_cast<int>(state.range(1)));
  measure(state, runner, "bytes", static_cast<double>(n) * (writes ? 8 : 4));
}

/// A function over 4096 elements, which stay in L1.
void function(benchmark::State& state, const std::string& text) {
  Builder b;
  Runner runner(b, b.map(text, {b.input("x", {DType::F32, {4096}})}), 1);
  measure(state, runner, "elements", 4096);
}

/// What a program pays between two kernels: tiles are dealt, one a thread, and waited for.
void boundary(benchmark::State& state) {
  constexpr int kTimes = 20000;
  Team team(static_cast<int>(state.range(0)));
  for (auto _ : state)
    team.share(
        [](void* t, Hand& hand) {
          for (int i = 0; i < kTimes; i++) {
            for (int64_t first; hand.deal(&hand, static_cast<Team*>(t)->threads(), &first) > 0;)
              benchmark::DoNotOptimize(first);
            hand.barrier(&hand);
          }
        },
        &team);
  state.counters["each"] = benchmark::Counter(
      kTimes, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

/// A call of a program of one tiny kernel.
void call(benchmark::State& state) {
  Builder b;
  Runner runner(b, b.map("a + 1", {b.input("x", {DType::F32, {16}})}),
                static_cast<int>(state.range(0)));
  for (auto _ : state) runner.run();
}

const std::vector<std::vector<int64_t>> kProducts = {
    {1, 1024, 4096}, {8, 768, 768},    {64, 512, 512},     {128, 64, 4096}, {197, 384, 1536},
    {512, 512, 512}, {512, 768, 3072}, {1024, 1024, 1024}, {49, 576, 31}};
const std::vector<std::vector<int64_t>> kConvolutions = {
    {64, 56, 3, 1},  {256, 14, 3, 1}, {512, 7, 3, 1},   {64, 56, 1, 1},
    {256, 14, 1, 1}, {96, 28, 3, 96}, {128, 28, 3, 32}, {32, 112, 3, 1}};

void registerAll() {
  for (const int64_t threads : {1, 2}) {
    const auto with = [&](std::vector<int64_t> a) { return a.push_back(threads), a; };
    for (const auto& p : kProducts)
      benchmark::RegisterBenchmark("Product/m,k,n,threads", product)->Args(with(p))->UseRealTime();
    for (const auto& c : kConvolutions)
      benchmark::RegisterBenchmark("Convolution/channels,size,kernel,groups,threads", convolution)
          ->Args(with(c))
          ->UseRealTime();
    for (const int64_t mib : {1, 64}) {
      benchmark::RegisterBenchmark("Read/MiB,threads", stream, false)
          ->Args({mib, threads})
          ->UseRealTime();
      benchmark::RegisterBenchmark("Scale/MiB,threads", stream, true)
          ->Args({mib, threads})
          ->UseRealTime();
    }
    benchmark::RegisterBenchmark("Call/threads", call)->Arg(threads)->UseRealTime();
  }
  benchmark::RegisterBenchmark("Boundary/threads", boundary)->Arg(2)->UseRealTime();
  for (const char* f :
       {"exp(a)", "tanh(a)", "sigmoid(a)", "erf(a)", "log(a)", "sqrt(a)", "a / 3.1"})
    benchmark::RegisterBenchmark((std::string("Function/") + f).c_str(), function, std::string(f))
        ->UseRealTime();
}

}  // namespace
}  // namespace tektite

int main(int argc, char** argv) {
  try {
    benchmark::Initialize(&argc, argv);
    tektite::registerAll();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "micro: %s\n", e.what());
    return 2;
  }
}
