#include "ir/cache_model.h"

namespace tektite {

void CacheModel::flush() {
  for (Line& l : lines_) {
    if (l.dirty) written_ += kLine;
    l.dirty = false;
  }
}

void CacheModel::clear() {
  flush();
  where_.clear();
  lines_.clear();
  first_ = last_ = -1;
}

void CacheModel::unlink(int at) {
  Line& l = lines_[at];
  (l.before >= 0 ? lines_[l.before].after : first_) = l.after;
  (l.after >= 0 ? lines_[l.after].before : last_) = l.before;
}

void CacheModel::toFront(int at) {
  Line& l = lines_[at];
  l.before = -1;
  l.after = first_;
  (first_ >= 0 ? lines_[first_].before : last_) = at;
  first_ = at;
}

int CacheModel::find(uint64_t number) {
  if (first_ >= 0 && lines_[first_].number == number) return first_;
  int at;
  if (const auto it = where_.find(number); it != where_.end()) {
    at = it->second;
    unlink(at);
  } else if (static_cast<int64_t>(lines_.size()) < capacity_ || last_ < 0) {
    at = static_cast<int>(lines_.size());
    lines_.push_back({number});
    where_[number] = at;
  } else {
    at = last_;
    unlink(at);
    if (lines_[at].dirty) written_ += kLine;
    where_.erase(lines_[at].number);
    lines_[at] = {number};
    where_[number] = at;
  }
  toFront(at);
  return at;
}

void CacheModel::access(uint64_t address, int bytes, bool write) {
  Line& l = lines_[find(address / kLine)];
  const uint64_t touched = (bytes == kLine ? ~uint64_t{0} : (uint64_t{1} << bytes) - 1)
                           << address % kLine;
  if (write) {
    l.valid |= touched;
    l.dirty = true;
  } else if (touched & ~l.valid) {
    read_ += kLine;
    l.valid = ~uint64_t{0};
  }
}

}  // namespace tektite
