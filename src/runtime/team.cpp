#include "runtime/team.h"

#include <algorithm>
#include <chrono>

#include "support/parallel.h"

namespace tektite {
namespace {

constexpr int kSpins =
    4000;  // about 100 us of polling: longer than the gap between two inferences in a row
constexpr int kYields = 64;     // then what we wait for probably isn't running at all
constexpr int kPatience = 120;  // about 3 us of polling before a thread without tiles takes others'
constexpr std::chrono::microseconds kNap{50};
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

void Hand::divide(int64_t total) {
  const uint32_t threads = static_cast<uint32_t>(team_->threads_),
                 number = static_cast<uint32_t>(thread_);
  const int64_t most = std::min(kUnits * threads, kMostUnits);
  total_ = total;
  tiles_ = total <= most ? 1 : (total + most - 1) / most;
  units_ = static_cast<uint32_t>((total + tiles_ - 1) / tiles_);
  ownFirst_ = units_ * number / threads;
  ownEnd_ = units_ * (number + 1) / threads;
}

int64_t Hand::nextTiles(int64_t total, int64_t* first) {
  if (total <= 0) return 0;
  if (!open_) {
    if (total != total_) divide(total);
    open_ = own_ = true;
    list_++;
    due_ += units_;
  }
  uint32_t at = 0, count = 0;
  const auto taken = [&] {
    held_ += count;
    *first = at * tiles_;
    return std::min(total, (at + int64_t{count}) * tiles_) - *first;
  };
  if (own_ && take(thread_, at, count)) return taken();
  finish();
  bool done = allDone();
  for (int i = 0; i < kPatience && !done; ++i) {
    pause();
    done = allDone();
  }
  const int threads = team_->threads_;
  for (int i = 1; i < threads && !done; ++i)
    if (take((thread_ + i) % threads, at, count)) return taken();
  open_ = false;
  return 0;
}

/// Takes units of a list that are left in a thread's run: of its own the first, of another's the last.
bool Hand::take(int owner, uint32_t& at, uint32_t& count) {
  const bool own = owner == thread_;
  const uint32_t threads = static_cast<uint32_t>(team_->threads_),
                 number = static_cast<uint32_t>(owner),
                 begin = own ? ownFirst_ : units_ * number / threads,
                 last = own ? ownEnd_ : units_ * (number + 1) / threads;
  std::atomic<uint64_t>& word = team_->seats_[number].word;
  uint64_t now = word.load(std::memory_order_acquire);
  for (;;) {
    const uint32_t list = static_cast<uint32_t>(now >> 32);
    if (static_cast<int32_t>(list - list_) > 0) return false;  // others are past this list
    const bool begun = list == list_;
    const uint32_t next = begun ? now >> 16 & 0xffff : begin, end = begun ? now & 0xffff : last;
    if (next == end) return false;
    count = own ? (end - next + 3) / 4 : (end - next + 1) / 2;
    at = own ? next : end - count;
    const uint64_t left = own ? wordOf(list_, next + count, end) : wordOf(list_, next, at);
    if (word.compare_exchange_weak(now, left, std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      if (own) own_ = next + count != end;  // nobody adds to it
      return true;
    }
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
      seats_(static_cast<size_t>(threads_)) {
  for (int i = 1; i < threads_; ++i) others_.emplace_back([this, i] { serve(i); });
}

Team::~Team() {
  stop_ = true;
  call_.run.store((call_.run.load(std::memory_order_relaxed) | 1) + 1);
  call_.run.notify_all();
  for (std::thread& other : others_) other.join();
}

void Team::serve(int thread) {
  std::atomic<uint32_t>& in = seats_[static_cast<size_t>(thread)].run;
  for (uint32_t seen = 1;;) {
    waitOn(call_.run, spins_, [&](uint32_t run) { return run != seen && run % 2 == 0; });
    seen = call_.run.load(std::memory_order_acquire);
    if (stop_) return;
    in.store(
        seen);  // before it looks whether the run is still on: settle() does these in the other order
    const Share work = call_.work.load(std::memory_order_acquire);
    void* const context = call_.context.load(std::memory_order_acquire);
    Hand hand(this, thread, call_.list.load(std::memory_order_acquire),
              call_.due.load(std::memory_order_acquire));
    if (seen % 2 == 0 && call_.run.load() == seen) work(context, hand);
    in.store(0, std::memory_order_release);
  }
}

void Team::settle() {
  if (threads_ == 1) return;
  call_.run.store(call_.run.load(std::memory_order_relaxed) | 1);
  for (const Seat& seat : seats_) {
    const auto out = [&] { return seat.run.load() == 0; };
    if (polled(spins_, out)) continue;
    while (!out()) std::this_thread::sleep_for(kNap);
  }
}

void Team::run(Work work, void* context) {
  struct All {
    Work work;
    void* context;
    int threads;
    std::atomic<int> there{0};
  } all{work, context, threads_};
  share(
      [](void* of, Hand& hand) {
        All& a = *static_cast<All*>(of);
        if (!hand.deal) return a.work(a.context, 0);
        for (int64_t mine; hand.deal(&hand, a.threads, &mine) > 0;) {
          a.there++;  // nobody gets a second one before all have their first
          while (a.there < a.threads) std::this_thread::yield();
          a.work(a.context, static_cast<int>(mine));
        }
      },
      &all);
  settle();
}

void Team::share(Share work, void* context) {
  Hand alone, hand(this, 0, list_, due_);
  if (threads_ == 1) return work(context, alone);
  const uint32_t between = call_.run.load(std::memory_order_relaxed) | 1;
  call_.run.store(between, std::memory_order_relaxed);  // who reads one of these sees that, too
  call_.work.store(work, std::memory_order_release);
  call_.context.store(context, std::memory_order_release);
  call_.list.store(list_, std::memory_order_release);
  call_.due.store(due_, std::memory_order_release);
  call_.run.store(between + 1);
  call_.run.notify_all();
  work(context, hand);
  hand.waitForTiles();
  list_ = hand.list_;
  due_ = hand.due_;
}

}  // namespace tektite
