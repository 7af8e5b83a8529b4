/* Preloaded by tests/test_native_errors.py: of what one library allocates, only so much succeeds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void* __libc_malloc(size_t);

static atomic_uintptr_t first, last; /* the library's code */
static atomic_long left, refused;

static int find(struct dl_phdr_info* info, size_t size, void* name) {
  (void)size;
  if (!strstr(info->dlpi_name, name)) return 0;
  for (int k = 0; k < info->dlpi_phnum; ++k) {
    if (info->dlpi_phdr[k].p_type != PT_LOAD || !(info->dlpi_phdr[k].p_flags & PF_X)) continue;
    first = info->dlpi_addr + info->dlpi_phdr[k].p_vaddr;
    last = first + info->dlpi_phdr[k].p_memsz;
  }
  return 1;
}

/* From now on `count` allocations of that library succeed; returns how many failed since the last
   call. A library of no such name: -1. */
long allow_allocations(const char* library, long count) {
  if (!dl_iterate_phdr(find, (void*)library)) return -1;
  left = count;
  return atomic_exchange(&refused, 0);
}

static int refuse(void* caller) {
  const uintptr_t at = (uintptr_t)caller;
  if (at < first || at >= last || atomic_fetch_sub(&left, 1) > 0) return 0;
  atomic_fetch_add(&refused, 1);
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t size) {
  return refuse(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  static void* (*real)(size_t, size_t);
  if (!real) real = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  return refuse(__builtin_return_address(0)) ? NULL : real(alignment, size);
}
