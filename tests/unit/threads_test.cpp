// Several threads at once: what a session shares with its team, programs with each other, compilations with the cache. Also run under
// ThreadSanitizer.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <numeric>
#include <thread>

#include "../evaluators.h"
#include "runtime/team.h"
#include "support/check.h"
#include "support/parallel.h"

namespace tektite {
namespace {

/// A product whose rows depend on each other through a softmax over columns: tiles, barriers between kernels, a combination of partials.
Graph layers(int n) {
  Builder b;
  Value x = b.input("x", {DType::F32, {64, 96}});
  const Value w = b.input("w", {DType::F32, {96, 96}});
  for (int i = 0; i < n; i++) {
    x = b.contract("mk,kn->mn", x, w);
    const Value e = b.map("exp(a - b)", {x, b.reduce("max", x, {0})});
    x = b.map("a / b", {e, b.reduce("sum", e, {0})});
  }
  b.graph.outputs = {x};
  return b.graph;
}

std::vector<float> numbers(size_t n) {
  std::vector<float> out(n);
  for (size_t i = 0; i < n; i++) out[i] = static_cast<float>(i * 7919 % 1009) / 500 - 1;
  return out;
}

struct Case {
  std::vector<float> x = numbers(64 * 96), w = numbers(96 * 96);
  std::vector<float> run(Session& session) const {
    std::vector<float> y(64 * 96, -1);
    const void* in[] = {x.data(), w.data()};
    void* out[] = {y.data()};
    session.run(in, out);
    return y;
  }
};

std::shared_ptr<const Program> compiled(const Graph& g, int threads,
                                        const std::string& cache = "") {
  CompileOptions options = compileOptions(false);
  options.threads = threads;
  options.cacheFolder = cache;
  return compile(prepareGraph(g, {}, {}), options);
}

TEST(Threads, SessionsOfOneProgramSideBySide) {
  const auto program = compiled(layers(3), 3);
  const Case c;
  Session alone(program, nullptr);
  const std::vector<float> expected = c.run(alone);
  std::atomic<int> wrong{0};
  std::vector<std::thread> users;
  for (int i = 0; i < 3; i++)
    users.emplace_back([&] {
      Team team(3);
      Session session(program, &team);
      for (int run = 0; run < 20; run++) wrong += c.run(session) != expected;
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, CompilationsThatShareACache) {
  const std::string folder = testing::TempDir() + "tektite_threads_" + std::to_string(::getpid());
  const Case c;
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> users;
  for (size_t i = 0; i < results.size(); i++)
    users.emplace_back([&, i] {
      Session session(compiled(layers(1 + static_cast<int>(i % 2)), 1, folder), nullptr);
      results[i] = c.run(session);
    });
  for (std::thread& user : users) user.join();
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
  EXPECT_NE(results[0], results[1]);
  std::filesystem::remove_all(folder);
}

TEST(Threads, TeamsComeAndGo) {
  for (int round = 0; round < 50; round++) {
    Team team(4);
    std::vector<int> seen(4);
    for (int run = 0; run < 2; run++)
      team.run(
          [](void* to, int thread) {
            ++(*static_cast<std::vector<int>*>(to))[static_cast<size_t>(thread)];
          },
          &seen);
    EXPECT_EQ(seen, std::vector<int>(4, 2));
  }
}

TEST(Threads, ParallelForDoesEachOnceAndThrowsTheFirst) {
  std::vector<int> done(1000);
  parallelFor(done.size(), 4, [&](size_t i) { ++done[i]; });
  EXPECT_EQ(done, std::vector<int>(1000, 1));
  EXPECT_THROW(parallelFor(1000, 4,
                           [&](size_t i) {
                             if (i == 500) userError("at {}", i);
                           }),
               UserError);
}

/// Beside kernels that all threads run: a routine that refuses its operands must end the run for all of them, and the next one works.
TEST(Threads, AHostRoutineThatRefuses) {
  Builder b;
  const Value x = b.input("x", {DType::F32, {64, 96}}), w = b.input("w", {DType::F32, {96, 96}});
  const Value boxes = b.input("boxes", {DType::F32, {1, 3, 5}});  // five numbers each
  const Value y = b.contract("mk,kn->mn", x, w);
  const Value scores = b.view(b.reduce("max", y, {0, 1}), {1, 1, 3}, {0, 0});
  const Value one = b.splat(DType::F32, 1, {1});
  const auto found = b.add({.kind = Call{"no such routine", {}, {}},
                            .operands = {boxes, scores, one},
                            .results = {{DType::F32, {64, 96}}},
                            .name = {},
                            .origin = {}});
  b.graph.outputs = {b.contract("mk,kn->mn", b.map("a + b", {y, found[0]}), w)};
  const auto program = compiled(b.graph, 3);
  Team team(3);
  Session session(program, &team);
  const Case c;
  const std::vector<float> v(15);
  std::vector<float> out(64 * 96);
  const void* in[] = {c.x.data(), c.w.data(), v.data()};
  void* to[] = {out.data()};
  for (int run = 0; run < 3; run++) EXPECT_THROW(session.run(in, to), UserError);
}

}  // namespace
}  // namespace tektite
