// Arrays in an arena.
//
// Solvers include this file once per instruction set, inside that set's namespace (see
// assignment/cpu/problem.h).

// Allocates arrays in the arena, aligned to cache lines. Solvers run their allocations twice. The
// first run has no base: it only measures the total size, `used`, and every array is null.
struct Stack {
  char* base = nullptr;
  size_t used = 0;
  template <class T>
  T* take(int64_t count) {
    T* array = base ? reinterpret_cast<T*>(base + used) : nullptr;
    used += (size_t(count) * sizeof(T) + 63) / 64 * 64;
    return array;
  }
};

bool reserve(Arena* arena, size_t bytes, Stack* stack) {
  if (bytes + 64 > arena->capacity) {
    if (arena->owned) free(arena->base);
    arena->base = static_cast<char*>(malloc(bytes + 64));
    arena->owned = arena->base != nullptr;
    arena->capacity = arena->owned ? bytes + 64 : 0;
    if (!arena->owned) return false;
  }
  stack->base = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(arena->base) + 63) / 64 * 64);
  stack->used = 0;
  return true;
}
