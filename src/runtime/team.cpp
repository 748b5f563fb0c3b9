#include "runtime/team.h"

#include <algorithm>
#include <chrono>
#include <climits>

#include "support/parallel.h"

namespace tektite {
namespace {

constexpr int kSpins =
    4000;  // about 100 us of polling: longer than the gap between two inferences in a row
constexpr int kYields = 64;     // then what we wait for probably isn't running at all
constexpr int kPatience = 120;  // about 3 us of polling before a thread without tiles takes others'
constexpr std::chrono::microseconds kNap{50};
constexpr int kClosed = INT_MIN / 2;
constexpr uint32_t kUnits = 64, kMostUnits = 0xffff;  // of a thread, of a list

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Polls for a while, then lets others have the core. Has it come?
template <class Until>
bool polled(int spins, Until until) {
  for (int spin = 0; spin < spins; ++spin) {
    if (until()) return true;
    pause();
  }
  for (int i = 0; i < kYields; ++i) {
    if (until()) return true;
    std::this_thread::yield();
  }
  return false;
}

template <class T, class Until>
void waitOn(const std::atomic<T>& value, int spins, Until until) {
  if (polled(spins, [&] { return until(value.load(std::memory_order_acquire)); })) return;
  for (T now; !until(now = value.load(std::memory_order_acquire));)
    value.wait(now, std::memory_order_acquire);
}

uint64_t wordOf(uint32_t list, uint32_t next, uint32_t end) {
  return uint64_t{list} << 32 | next << 16 | end;
}

}  // namespace

Hand::Hand(Team* team, int thread, uint32_t list, uint64_t due)
    : TileDealer{nullptr, [](TileDealer* d) { static_cast<Hand*>(d)->waitForTiles(); }},
      team_(team),
      thread_(thread),
      list_(list),
      due_(due) {
  if (team)
    deal = [](TileDealer* d, int64_t total, int64_t* first) {
      return static_cast<Hand*>(d)->nextTiles(total, first);
    };
}

int64_t Hand::nextTiles(int64_t total, int64_t* first) {
  if (total <= 0) return 0;
  const int threads = team_->threads_;
  if (!open_) {
    open_ = true;
    const int64_t most = std::min(kUnits * static_cast<uint32_t>(threads), kMostUnits);
    tiles_ = total <= most ? 1 : (total + most - 1) / most;
    units_ = static_cast<uint32_t>(tiles_ == 1 ? total : (total + tiles_ - 1) / tiles_);
    list_++;
    due_ += units_;
  }
  uint32_t at = 0, count = 0;
  const auto taken = [&] {
    held_ += count;
    *first = at * tiles_;
    return std::min(total, (at + int64_t{count}) * tiles_) - *first;
  };
  if (take(thread_, at, count)) return taken();
  finish();
  bool done = allDone();
  for (int i = 0; i < kPatience && !done; ++i) {
    pause();
    done = allDone();
  }
  for (int i = 1; i < threads && !done; ++i)
    if (take((thread_ + i) % threads, at, count)) return taken();
  open_ = false;
  return 0;
}

/// Takes units of a list that are left in a thread's run: of its own the first, of another's the last.
bool Hand::take(int owner, uint32_t& at, uint32_t& count) {
  const uint32_t threads = static_cast<uint32_t>(team_->threads_),
                 number = static_cast<uint32_t>(owner);
  std::atomic<uint64_t>& word = team_->seats_[number].word;
  uint64_t now = word.load(std::memory_order_acquire);
  for (;;) {
    const uint32_t list = static_cast<uint32_t>(now >> 32);
    if (static_cast<int32_t>(list - list_) > 0) return false;  // others are past this list
    const bool begun = list == list_;
    const uint32_t next = begun ? now >> 16 & 0xffff : units_ * number / threads,
                   end = begun ? now & 0xffff : units_ * (number + 1) / threads;
    if (next == end) return false;
    const bool own = owner == thread_;
    count = own ? (end - next + 3) / 4 : (end - next + 1) / 2;
    at = own ? next : end - count;
    const uint64_t left = own ? wordOf(list_, next + count, end) : wordOf(list_, next, at);
    if (word.compare_exchange_weak(now, left, std::memory_order_acq_rel, std::memory_order_acquire))
      return true;
  }
}

void Hand::finish() {
  if (!team_ || held_ == 0) return;
  std::atomic<uint64_t>& done = team_->seats_[static_cast<size_t>(thread_)].done;
  done.store(done.load(std::memory_order_relaxed) + held_, std::memory_order_release);
  held_ = 0;
}

bool Hand::allDone() const {
  uint64_t done = 0;
  for (const Team::Seat& seat : team_->seats_) done += seat.done.load(std::memory_order_acquire);
  return done >= due_;
}

void Hand::waitForTiles() {
  if (!team_ || polled(team_->spins_, [this] { return allDone(); })) return;
  while (!allDone()) std::this_thread::sleep_for(kNap);
}

Team::Team(int threads)
    : threads_(std::max(threads, 1)),
      spins_(threads_ > hardwareThreads() ? 1 : kSpins),
      seats_(static_cast<size_t>(threads_)),
      inside_(kClosed) {
  for (int i = 1; i < threads_; ++i) others_.emplace_back([this, i] { serve(i); });
}

Team::~Team() {
  stop_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& other : others_) other.join();
}

void Team::serve(int thread) {
  uint64_t last = 0;  // run that it was in
  for (uint32_t seen = 0;;) {
    waitOn(epoch_, spins_, [&](uint32_t epoch) { return epoch != seen; });
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    int others = inside_.load(std::memory_order_acquire);
    while (others >= 0 &&
           !inside_.compare_exchange_weak(others, others + 1, std::memory_order_acquire)) {
    }
    if (others < 0) continue;  // too late for this one
    if (runs_ != last) {       // else it came before the epoch was told
      last = runs_;
      if (work_) {
        work_(context_, thread);
        came_.fetch_add(1, std::memory_order_acq_rel);
        came_.notify_all();
      } else {
        Hand hand(this, thread, list_, due_);
        share_(context_, hand);
      }
    }
    inside_.fetch_sub(1, std::memory_order_acq_rel);
    inside_.notify_all();
  }
}

void Team::open() {
  runs_++;
  came_.store(0, std::memory_order_relaxed);
  inside_.store(0, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
}

void Team::close() {
  inside_.fetch_add(kClosed, std::memory_order_acq_rel);
  waitOn(inside_, spins_, [](int others) { return others == kClosed; });
}

void Team::run(Work work, void* context) {
  if (threads_ == 1) return work(context, 0);
  work_ = work;
  context_ = context;
  open();
  work(context, 0);
  waitOn(came_, spins_, [this](int came) { return came == threads_ - 1; });
  close();
}

void Team::share(Share work, void* context) {
  Hand alone, hand(this, 0, list_, due_);
  if (threads_ == 1) return work(context, alone);
  work_ = nullptr;
  share_ = work;
  context_ = context;
  open();
  work(context, hand);
  hand.waitForTiles();
  close();
  list_ = hand.list_;  // who came until then counts from where this run began
  due_ = hand.due_;
}

}  // namespace tektite
