// The shared memory of the kernel for small problems.
#ifndef JAXMATCH_CUDA_TRANSPORT_SMALL_MEMORY_H_
#define JAXMATCH_CUDA_TRANSPORT_SMALL_MEMORY_H_

#include "transport/cuda/workspace.h"

namespace jaxmatch::transport {

// Which part of the workspace is in shared memory. Some arrays take the place of others that are no
// longer needed.
struct SmallMemory {
  static constexpr int64_t kShort = 32;
  int64_t n, m;

  JAXMATCH_HOST_DEVICE int64_t nodes() const { return n + m; }
  JAXMATCH_HOST_DEVICE bool has_flow() const { return n <= kShort && m <= kShort; }
  JAXMATCH_HOST_DEVICE int64_t before_flow() const { return 3 * nodes() + nodes() / 2 + 1; }
  JAXMATCH_HOST_DEVICE int64_t bytes() const {
    return (before_flow() + (has_flow() ? n * m : 0)) * int64_t(sizeof(int64_t));
  }
  JAXMATCH_HOST_DEVICE void place(Workspace& w, int64_t* at) const {
    w.supply = at;
    w.demand = at + n;
    w.price = at + nodes();
    w.rest = w.price;
    w.real = reinterpret_cast<double*>(at + 2 * nodes());
    w.row_dual = w.real;
    w.col_dual = w.real + n;
    w.shadow = reinterpret_cast<float*>(at + 3 * nodes());
    w.flow = has_flow() ? at + before_flow() : reinterpret_cast<int64_t*>(w.pool[0]);
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SMALL_MEMORY_H_
