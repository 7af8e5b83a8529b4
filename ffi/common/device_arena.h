// Divides a buffer into arrays, or measures how large a buffer the arrays need.
#ifndef JAXMATCH_DEVICE_ARENA_H_
#define JAXMATCH_DEVICE_ARENA_H_

#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch {

struct DeviceArena {
  char* base;  // null to measure the size only
  int64_t used = 0;

  template <class T>
  JAXMATCH_HOST_DEVICE T* take(int64_t count) {
    const int64_t at = used;
    used += (count * int64_t(sizeof(T)) + 255) / 256 * 256;
    return base ? reinterpret_cast<T*>(base + at) : nullptr;
  }
  // Like the other take(), but takes T from the pointer that it sets.
  template <class T>
  JAXMATCH_HOST_DEVICE void take(T*& part, int64_t count) {
    part = take<T>(count);
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_DEVICE_ARENA_H_
