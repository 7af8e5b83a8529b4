// An arena for the arrays of one problem, reused for the next problem.
#ifndef JAXMATCH_CPU_HOST_ARENA_H_
#define JAXMATCH_CPU_HOST_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <tuple>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace jaxmatch {

// A large graph is accessed at random. With pages of 4 KiB most accesses miss the TLB, and the page
// faults at the first accesses take longer than some whole solves. Therefore an arena requests huge
// pages for large blocks, where the system has them. Only one thread at a time may use an arena.
class HostArena {
 public:
  HostArena() = default;
  ~HostArena() { free_all(); }
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  // Returns an uninitialised array of T, a type without a constructor. Throws std::bad_alloc if
  // memory runs out.
  template <class T>
  T* take(int64_t count) {
    const size_t bytes = (size_t(count) * sizeof(T) + kLine - 1) / kLine * kLine;
    if (bytes > left_) grow(bytes);
    std::byte* const taken = next_;
    next_ += bytes;
    left_ -= bytes;
    return reinterpret_cast<T*>(taken);
  }
  template <class T>
  T* take(int64_t count, T value) {
    T* const array = take<T>(count);
    std::fill_n(array, count, value);
    return array;
  }

  // Releases all arrays. The next problem starts with a single block. It has as many bytes as all
  // blocks had together, or `least_bytes` if that is more.
  void reset(size_t least_bytes = 0) {
    const size_t had = total_bytes();
    if (blocks_.size() > 1 || had < least_bytes) {
      free_all();
      grow(std::max(had, least_bytes));
    }
    if (!blocks_.empty()) std::tie(next_, left_) = blocks_.front();
  }

 private:
  using Block = std::pair<std::byte*, size_t>;
  static constexpr size_t kLine = 64, kLeastBlock = size_t{1} << 14;
  static constexpr size_t kHugePage = size_t{1} << 21, kMostAhead = size_t{1} << 26;

  void grow(size_t bytes) {
    // Takes more than requested: untouched memory costs nothing, and many arrays in one block share
    // huge pages.
    bytes = std::max(bytes, std::min(std::max(total_bytes() / 2, kLeastBlock), kMostAhead));
    const bool is_large = bytes >= 2 * kHugePage;
    const size_t alignment = is_large ? kHugePage : kLine;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    blocks_.reserve(blocks_.size() + 1);
    void* const base = std::aligned_alloc(alignment, bytes);
    if (base == nullptr) throw std::bad_alloc();
#if defined(__linux__)
    if (is_large) madvise(base, bytes, MADV_HUGEPAGE);
#endif
    blocks_.emplace_back(static_cast<std::byte*>(base), bytes);
    std::tie(next_, left_) = blocks_.back();
  }
  size_t total_bytes() const {
    size_t sum = 0;
    for (const Block& block : blocks_) sum += block.second;
    return sum;
  }
  void free_all() {
    for (const Block& block : blocks_) std::free(block.first);
    blocks_.clear();
    next_ = nullptr;
    left_ = 0;
  }

  std::vector<Block> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_HOST_ARENA_H_
