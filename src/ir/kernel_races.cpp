#include "ir/kernel_races.h"

#include <algorithm>

#include "support/check.h"

namespace tektite::code {
namespace {

/// The entry that was running at a time.
template <class T>
const T& at(const std::vector<std::pair<uint32_t, T>>& list, uint32_t time) {
  const auto it = std::upper_bound(list.begin(), list.end(), time,
                                   [](uint32_t t, const auto& x) { return t < x.first; });
  TEKTITE_CHECK(it != list.begin(), "nothing ran at {}", time);
  return std::prev(it)->second;
}

}  // namespace

uint32_t Races::tick() {
  TEKTITE_CHECK(clock_ < 0xfffffff0u, "a run of more than 2^32 iterations");
  return ++clock_;
}

void Races::update() {
  innermost_ =
      std::max({tile_, loops_.empty() ? 0 : loops_.back().iteration, inThread_ ? threadStart_ : 0});
}

void Races::beginList() {
  list_ = tile_ = tick();
  tiles_.clear();
  update();
}

void Races::beginTile(int64_t group) {
  tile_ = tick();
  tiles_.emplace_back(tile_, group);
  alone_ = false;
  threads_.clear();
  epoch_ = tile_;
  update();
}

void Races::beginIteration() {
  loops_.back().iteration = tick();
  update();
}

void Races::endLoop() {
  loops_.pop_back();
  tick();
  update();
}

void Races::beginThread(ThreadId id) {
  thread_ = id;
  inThread_ = true;
  threadStart_ = tick();
  threads_.emplace_back(threadStart_, id);
  update();
}

void Races::endThread() {
  inThread_ = false;
  tick();
  update();
}

bool Races::concurrentSlow(uint32_t then, bool registers) const {
  if (then < tile_) return !(alone_ && at(tiles_, then) == tiles_.back().second);
  for (const Frame& f : loops_)
    if (then >= f.start && then < f.iteration) return true;
  if (!inThread_ || then < epoch_ || then >= threadStart_ || threads_.empty() ||
      then < threads_.front().first)
    return false;
  const ThreadId other = at(threads_, then);
  if (other == thread_) return false;
  const bool wholeWarp = other.lane < 0 || thread_.lane < 0;
  return !(registers && wholeWarp &&
           other.warp == thread_.warp);  // an instruction of a warp sees its lanes' registers
}

}  // namespace tektite::code
