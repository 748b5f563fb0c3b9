#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <set>

#include "runtime/array.h"
#include "runtime/cache.h"
#include "runtime/compare.h"
#include "runtime/pack.h"
#include "runtime/team.h"
#include "support/check.h"
#include "support/memory_plan.h"
#include "test_folder.h"

using namespace tektite;

namespace {

Array floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  Array array(DType::F32, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<float*>(array.data()));
  return array;
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

namespace {
/// Calls tile(i) for each tile of the hand's next list.
template <class Tile>
void each(Hand& hand, int64_t total, Tile tile) {
  for (int64_t i = 0; !hand.deal && i < total; ++i) tile(i);
  for (int64_t first, n; hand.deal && (n = hand.deal(&hand, total, &first)) > 0;)
    for (int64_t i = first; i < first + n; ++i) tile(i);
}
}  // namespace

TEST(Team, EachTileIsDoneOnceAndSeenBehindTheBarrier) {
  for (int threads : {1, 2, 5}) {
    struct Work {
      std::vector<int> counts;
      std::atomic<int> wrong{0}, alone{0};
    } work;
    Team team(threads);
    int expected = 0;
    for (const int64_t tiles : {0, 1, 2, 3, 100, 5000}) {
      work.counts.assign(static_cast<size_t>(tiles), expected = 0);
      for (int run = 0; run < 20; ++run) {
        team.share(
            [](void* context, Hand& hand) {
              Work& w = *static_cast<Work*>(context);
              const auto tiles = static_cast<int64_t>(w.counts.size());
              const auto count = [&](int64_t i) { ++w.counts[static_cast<size_t>(i)]; };
              for (int round = 0; round < 10; ++round) {
                each(hand, tiles, count);
                hand.barrier(&hand);
                each(hand, tiles, [&](int64_t i) {
                  w.wrong += w.counts[static_cast<size_t>(i)] != w.counts[0];
                });
                hand.once([&] { ++w.alone; });  // beside the list before it
                hand.barrier(&hand);
              }
            },
            &work);
        expected += 10;
      }
      team.settle();  // who is late still looks at the counts
      EXPECT_EQ(work.wrong, 0) << threads;
      for (int count : work.counts) EXPECT_EQ(count, expected) << threads;
    }
    EXPECT_EQ(work.alone, 6 * 20 * 10);
  }
}

/// A barrier waits for tiles, not for threads: with one for each thread to come by, this would never end.
TEST(Team, ThreadsThatAreAsideHoldNobodyUp) {
  struct Work {
    std::atomic<bool> entered{false}, finished{false};
    std::atomic<int> tiles{0};
  } work;
  Team team(2);
  team.share(
      [](void* context, Hand& hand) {
        Work& w = *static_cast<Work*>(context);
        if (hand.thread() == 1) {
          w.entered = true;
          while (!w.finished) std::this_thread::yield();
        } else {
          while (!w.entered) std::this_thread::yield();
        }
        for (int list = 0; list < 100; ++list) {
          each(hand, 7, [&](int64_t) { ++w.tiles; });
          hand.barrier(&hand);
        }
        if (hand.thread() == 0) w.finished = true;
      },
      &work);
  EXPECT_EQ(work.tiles, 700);
}

/// The end of a run waits for tiles, too, and so do the runs that follow: with one for each thread to leave, these would never end.
TEST(Team, WhoIsLateMissesRunsAndHoldsNoneUp) {
  struct Work {
    std::atomic<bool> entered{false}, goOn{false};
    std::atomic<int> tiles{0}, left{0};
  } work;
  Team team(2);
  const auto share = [&] {
    team.share(
        [](void* context, Hand& hand) {
          Work& w = *static_cast<Work*>(context);
          if (hand.thread() == 1) {
            w.entered = true;
            while (!w.goOn) std::this_thread::yield();
          } else {
            while (!w.entered) std::this_thread::yield();
          }
          for (int list = 0; list < 10; ++list) {
            each(hand, 7, [&](int64_t) { ++w.tiles; });
            hand.barrier(&hand);
          }
          if (hand.thread() == 1) ++w.left;
        },
        &work);
  };
  for (int run = 1; run <= 50; ++run) {
    share();
    EXPECT_EQ(work.tiles, run * 70);
  }
  EXPECT_EQ(work.left, 0);
  work.goOn = true;
  team.settle();  // nobody is in a run behind this
  const int left = work.left;
  EXPECT_GE(left, 1);
  work.entered = false;
  share();  // and it comes again
  EXPECT_EQ(work.tiles, 51 * 70);
  team.settle();
  EXPECT_EQ(work.left, left + 1);
}

/// Who is done with its own tiles takes those that a slower thread has left.
TEST(Team, TilesGoToWhoHasTime) {
  struct Work {
    std::atomic<int> byOthers{0}, tiles{0};
  } work;
  Team team(2);
  team.share(
      [](void* context, Hand& hand) {
        Work& w = *static_cast<Work*>(context);
        each(hand, 64, [&](int64_t) {
          ++w.tiles;
          if (hand.thread() == 0)
            while (w.byOthers < 32 + 16) std::this_thread::yield();  // more than half of all
          else
            ++w.byOthers;
        });
      },
      &work);
  EXPECT_EQ(work.tiles, 64);
  EXPECT_GE(work.byOthers, 48);
}

TEST(Team, EveryThreadComesToARunOfAll) {
  std::vector<int> counts(5);
  Team team(5);
  for (int run = 0; run < 50; ++run)
    team.run(
        [](void* to, int thread) {
          ++(*static_cast<std::vector<int>*>(to))[static_cast<size_t>(thread)];
        },
        &counts);
  EXPECT_EQ(counts, std::vector<int>(5, 50));
}

TEST(MemoryPlan, buffersThatLiveTogetherDontOverlap) {
  uint64_t seed = 1;
  const auto random = [&](uint64_t below) {
    return static_cast<int64_t>((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) %
           static_cast<int64_t>(below);
  };
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 40; ++i) {
      const int first = static_cast<int>(random(30));
      lives.push_back({random(1000), first, first + static_cast<int>(random(6))});
    }
    const MemoryPlan plan = planMemory(lives);
    EXPECT_GE(plan.bytes, leastMemory(lives));
    EXPECT_LE(plan.bytes, leastMemory(lives) * 3 / 2);
    for (size_t a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool overlap = plan.offsets[a] < plan.offsets[b] + lives[b].bytes &&
                             plan.offsets[b] < plan.offsets[a] + lives[a].bytes;
        EXPECT_FALSE(together && overlap);
      }
    }
  }
}

TEST(MemoryPlan, theNumbersOfBuffersDontMatter) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 30; ++i) {
      const int first = static_cast<int>(random() % 20);
      lives.push_back(
          {static_cast<int64_t>(random() % 1000), first, first + static_cast<int>(random() % 6)});
    }
    const int64_t before = planMemory(lives).bytes;
    std::ranges::shuffle(lives, random);
    lives.resize(500);  // what takes no place
    EXPECT_EQ(planMemory(lives).bytes, before);
  }
}

TEST(MemoryPlan, aChainNeedsTwoBuffers) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 10; ++i) chain.push_back({640, i, i + 1});
  EXPECT_EQ(planMemory(chain).bytes, 1280);
}

TEST(CodeCache, damagedAndTruncatedFilesCountAsAbsent) {
  const TestFolder folder;
  const CodeCache cache(folder.path);
  const Hash key{1, 2};
  const std::vector<char> code(1000, 'x');
  EXPECT_FALSE(cache.find(key));
  cache.store(key, code);
  EXPECT_EQ(cache.find(key), code);
  const std::string file = folder.path + "/" + key.hex() + ".o";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(500) << 'y';
  EXPECT_FALSE(cache.find(key));
  cache.store(key, code);
  EXPECT_TRUE(cache.find(key));
  std::filesystem::resize_file(file, 400);
  EXPECT_FALSE(cache.find(key));
  std::filesystem::resize_file(file, 0);
  EXPECT_FALSE(cache.find(key));
}

TEST(CodeCache, withoutAFolderNothingIsKept) {
  for (const char* folder : {"", "/proc/no/such/folder"}) {
    const CodeCache cache(folder);
    cache.store({1, 2}, {'x'});
    EXPECT_FALSE(cache.find({1, 2}));
  }
}

TEST(Compare, nanEqualsNanAndInfinitiesMustAgree) {
  const Array a = floats({4}, {kNan, kInf, -kInf, 1});
  EXPECT_TRUE(compare(a, a, {}).ok);
  EXPECT_FALSE(compare(a, floats({4}, {kNan, kInf, kInf, 1}), {}).ok);
  EXPECT_FALSE(compare(a, floats({4}, {0, kInf, -kInf, 1}), {}).ok);
  EXPECT_FALSE(compare(a, floats({4}, {kNan, 3e38f, -kInf, 1}), {}).ok);
}

TEST(Compare, eitherByElementOrByTheLargest) {
  const Array found = floats({2}, {100, 0.01f}), expected = floats({2}, {100, 0.02f});
  const Comparison byElement = compare(found, expected, {1e-3, 1e-7, {}});
  EXPECT_FALSE(byElement.ok);
  EXPECT_NEAR(byElement.maxAbs, 0.01, 1e-6);
  EXPECT_NEAR(byElement.maxRel, 0.5, 1e-6);
  EXPECT_EQ(byElement.problem, "[1]: 0.009999999776482582 found, expected 0.019999999552965164");
  EXPECT_TRUE(compare(found, expected, {0, 0, 1e-3}).ok);
  EXPECT_FALSE(compare(found, expected, {0, 0, 1e-5}).ok);
}

TEST(Compare, typesAndShapesMustMatch) {
  EXPECT_EQ(compare(floats({2}, {1, 2}), floats({2, 1}, {1, 2}), {}).problem,
            "f32[2] found, expected f32[2x1]");
  EXPECT_FALSE(compare(floats({1}, {1}), Array(DType::I32, {1}), {}).ok);
}

TEST(Array, npyFilesReadBack) {
  const TestFolder folder;
  for (DType type :
       {DType::Bool, DType::I8, DType::U16, DType::I64, DType::F16, DType::F32, DType::F64}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3}, {2, 3}, {0, 4}}) {
      const Array array = randomArray(type, shape, 7, 5);
      writeNpy(folder.path + "/a.npy", array);
      const Array back = readArray(folder.path + "/a.npy");
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(std::memcmp(back.data(), array.data(),
                            static_cast<size_t>(array.elements() * bytes(type))),
                0);
    }
  }
}

Memory packed(const PackedConstant& constant, const TensorType& source, const void* data) {
  Packing packing;
  packing.add(constant, source, data);
  return packing.make(2);
}

TEST(Pack, panelsWithATail) {
  // [5 x 3] in panels of 2 columns: element (p, k, l) is source[k, 2 p + l], 0 beyond the last column.
  std::vector<float> source(15);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  const Expr column = var("d0") * 2 + var("d2");
  const PackedConstant panels{
      "p", "w", {DType::F32, {2, 5, 2}}, {var("d1"), column}, lt(column, 3)};
  const Memory memory = packed(panels, {DType::F32, {5, 3}}, source.data());
  const float* elements = reinterpret_cast<const float*>(memory.data());
  for (int p = 0; p < 2; ++p) {
    for (int k = 0; k < 5; ++k) {
      for (int l = 0; l < 2; ++l) {
        const int at = 2 * p + l;
        EXPECT_EQ(elements[(p * 5 + k) * 2 + l],
                  at < 3 ? source[static_cast<size_t>(k * 3 + at)] : 0);
      }
    }
  }
}

TEST(Pack, panelsOfAMatrixAndOfItsTranspose) {
  // Several chunks of rows, rows that are no multiple of a tile, a last panel that is not full.
  constexpr int64_t k = 1003, n = 133, width = 16, panels = (n + width - 1) / width;
  std::vector<float> source(k * n);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<float>(i);
  const Expr column = var("d0") * width + var("d2"), row = var("d1");
  for (const bool transposed : {false, true}) {
    const TensorType type{DType::F32, {transposed ? n : k, transposed ? k : n}};
    const std::vector<Expr> index =
        transposed ? std::vector<Expr>{column, row} : std::vector<Expr>{row, column};
    const PackedConstant constant{"p", "w", {DType::F32, {panels, k, width}}, index, lt(column, n)};
    const Memory memory = packed(constant, type, source.data());
    const float* elements = reinterpret_cast<const float*>(memory.data());
    int64_t wrong = 0;
    for (int64_t at = 0; at < panels * k * width; ++at) {
      const int64_t c = at / (k * width) * width + at % width, r = at / width % k;
      const int64_t from = transposed ? c * k + r : r * n + c;
      wrong += elements[at] != (c < n ? source[static_cast<size_t>(from)] : 0);
    }
    EXPECT_EQ(wrong, 0) << (transposed ? "transposed" : "as it is");
  }
}

TEST(Hash, everyByteOfALongTextCounts) {
  std::string text(5003, 'a');
  const auto hashOf = [&] { return Hasher().add(std::string_view(text)).finish(); };
  const Hash before = hashOf();
  std::set<Hash> seen{before};
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = 'b';
    seen.insert(hashOf());
    text[i] = 'a';
  }
  EXPECT_EQ(seen.size(), text.size() + 1);
  EXPECT_EQ(hashOf(), before);
}
