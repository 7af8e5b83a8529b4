// What a libstdc++ that was compiled for a newer glibc needs, and glibc 2.28 does not have.
#include <stdint.h>
#include <sys/random.h>

// glibc 2.32: whether the process has one thread only. False is always right: counts of references
// are then updated atomically.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// glibc 2.36: for std::random_device, which nothing here uses.
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
