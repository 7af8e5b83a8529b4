// Memory of one thread for solvers that are compiled once per instruction set.
#ifndef JAXMATCH_CPU_ARENA_H_
#define JAXMATCH_CPU_ARENA_H_

#include <stdlib.h>

#include <cstddef>

namespace jaxmatch {

// The memory is reused for successive problems, and only grows. Solvers that are compiled once per
// instruction set cannot use HostArena, because it needs the C++ standard library.
struct Arena {
  char* base;
  size_t capacity;
  bool owned;  // false while `base` is the caller's stack buffer
};

// An arena that frees the memory it owns, even if an exception ends the solve.
struct ScopedArena : Arena {
  ScopedArena() : Arena{nullptr, 0, false} {}
  ScopedArena(char* buffer, size_t size) : Arena{buffer, size, false} {}
  ~ScopedArena() {
    if (owned) free(base);
  }
  ScopedArena(const ScopedArena&) = delete;
  ScopedArena& operator=(const ScopedArena&) = delete;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_ARENA_H_
