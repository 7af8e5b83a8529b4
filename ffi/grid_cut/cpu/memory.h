// Memory for the search on a grid.
#ifndef JAXMATCH_GRID_CUT_CPU_MEMORY_H_
#define JAXMATCH_GRID_CUT_CPU_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace jaxmatch::grid_cut {

// Memory for one problem, initially zero. A search touches little of it, at random places. Mapping
// small pages can take longer than the search itself, so a large GridMemory requests huge pages.
// The system zeroes a page only when it is first touched, whereas HostArena would have to write all
// pages. Throws std::bad_alloc.
class GridMemory {
 public:
  explicit GridMemory(int64_t bytes) : bytes_(size_t(bytes) + kSlack) {
#if defined(__linux__)
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) throw std::bad_alloc();
    next_ = align(static_cast<char*>(base_), is_large() ? kHugePage : kLine);
    if (is_large()) madvise(next_, size_t(bytes), MADV_HUGEPAGE);
#else
    base_ = std::calloc(1, bytes_);
    if (base_ == nullptr) throw std::bad_alloc();
    next_ = align(static_cast<char*>(base_), kLine);
#endif
  }
  ~GridMemory() {
#if defined(__linux__)
    munmap(base_, bytes_);
#else
    std::free(base_);
#endif
  }
  GridMemory(const GridMemory&) = delete;
  GridMemory& operator=(const GridMemory&) = delete;

  template <class T>
  static int64_t bytes_for(int64_t count) {
    return int64_t((size_t(count) * sizeof(T) + kLine - 1) / kLine * kLine);
  }
  template <class T>
  T* take(int64_t count) {
    T* const taken = reinterpret_cast<T*>(next_);
    next_ += bytes_for<T>(count);
    return taken;
  }

 private:
  static constexpr size_t kLine = 64, kHugePage = size_t{1} << 21, kSlack = kHugePage + kLine;

  bool is_large() const { return bytes_ - kSlack >= kHugePage / 2; }
  static char* align(char* at, size_t to) {
    return at + (to - reinterpret_cast<uintptr_t>(at) % to) % to;
  }

  size_t bytes_;
  void* base_;
  char* next_;
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_MEMORY_H_
