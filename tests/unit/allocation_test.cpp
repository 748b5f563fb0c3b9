// A run allocates nothing once a session is warm. Every allocation of the test program is counted here.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "../evaluators.h"
#include "runtime/team.h"
#include "small_models.h"

namespace {

std::atomic<int64_t> allocations{0};

[[maybe_unused]] void* counted(size_t bytes, size_t align) {
  allocations++;
  void* p = align > alignof(std::max_align_t)
                ? std::aligned_alloc(align, (bytes + align) / align * align)
                : std::malloc(bytes + !bytes);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

#ifndef __SANITIZE_ADDRESS__  // which has an allocator of its own
void* operator new(size_t bytes) { return counted(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t align) {
  return counted(bytes, static_cast<size_t>(align));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace tektite {
namespace {

TEST(Allocations, NoneInAWarmRun) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "allocations are AddressSanitizer's here and not counted";
#endif
  for (const NamedGraph& m : smallModels())
    for (const int threads : {1, 2}) {
      CompileOptions options = compileOptions(false);
      options.threads = threads;
      const Graph g = prepareGraph(m.graph, {}, {});
      const auto program = compile(g, options);
      Team team(threads);
      Session session(program, &team);
      std::vector<Array> arrays;
      std::vector<const void*> in;
      std::vector<void*> out;
      for (Value v : g.inputs()) {
        arrays.emplace_back(g.type(v).dtype, g.type(v).extents());
        std::memset(arrays.back().data(), 0,
                    static_cast<size_t>(arrays.back().elements() * bytes(g.type(v).dtype)));
        in.push_back(arrays.back().data());
      }
      for (const TensorType& t : program->outputs) {
        arrays.emplace_back(t.dtype, t.extents());
        out.push_back(arrays.back().data());
      }
      session.run(in.data(), out.data());
      const int64_t before = allocations;
      for (int run = 0; run < 3; run++) session.run(in.data(), out.data());
      EXPECT_EQ(allocations - before, 0) << m.name << ", threads " << threads;
    }
}

}  // namespace
}  // namespace tektite
