// Memory of one thread for solvers that are compiled once per instruction set.
#ifndef JAXMATCH_CPU_ARENA_H_
#define JAXMATCH_CPU_ARENA_H_

#include <cstddef>

namespace jaxmatch {

// Reused for successive problems; it only grows. HostArena cannot take its place: it uses the
// standard library.
struct Arena {
  char* base;
  size_t capacity;
  bool owned;  // false while it is the caller's stack buffer
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_ARENA_H_
