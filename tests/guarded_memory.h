#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>

namespace tektite {

/// Memory between pages that nobody may touch: it begins right behind the one or, in whole lines, ends right before the other.
class GuardedMemory {
 public:
  GuardedMemory(size_t bytes, bool atEnd) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inside = (bytes + page - 1) / page * page;
    size_ = inside + 2 * page;
    all_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all_ == MAP_FAILED) throw std::bad_alloc();
    char* first = static_cast<char*>(all_) + page;
    mprotect(first, inside, PROT_READ | PROT_WRITE);
    data_ = atEnd ? first + inside - (bytes + 63) / 64 * 64 : first;
  }
  ~GuardedMemory() { munmap(all_, size_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* all_;
  size_t size_;
  char* data_;
};

}  // namespace tektite
