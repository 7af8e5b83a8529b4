// The memory of the kernel for small problems, and the size of the workspace.
#ifndef JAXMATCH_CUDA_TRANSPORT_SMALL_MEMORY_H_
#define JAXMATCH_CUDA_TRANSPORT_SMALL_MEMORY_H_

#include "common/sizes.h"
#include "transport/cuda/workspace.h"

namespace jaxmatch::transport {

// The memory of one small problem. Some arrays reuse the memory of arrays that are no longer
// needed.
struct SmallMemory {
  int64_t n, m;

  JAXMATCH_HOST_DEVICE int64_t nodes() const { return n + m; }
  JAXMATCH_HOST_DEVICE bool shares_flow() const {
    constexpr int64_t kShort = 16;
    return n <= kShort && m <= kShort;
  }
  // The size of the shared memory, in words of 8 bytes.
  JAXMATCH_HOST_DEVICE int64_t shared_words() const {
    return before_flow() + (shares_flow() ? n * m : 0);
  }
  // Bytes of the workspace: for the Control struct, costs that are computed or converted, and flows
  // that do not fit into shared memory.
  JAXMATCH_HOST_DEVICE int64_t workspace_bytes() const {
    return control_bytes() + 2 * n * m * int64_t(sizeof(int64_t));
  }
  JAXMATCH_HOST_DEVICE void place(Workspace& w, int64_t* shared, char* workspace) const {
    w.supply = shared;
    w.demand = shared + n;
    w.price = shared + nodes();
    w.rest = w.price;
    w.real = reinterpret_cast<double*>(shared + 2 * nodes());
    w.row_dual = w.real;
    w.col_dual = w.real + n;
    w.shadow = reinterpret_cast<float*>(shared + 3 * nodes());
    w.control = reinterpret_cast<Control*>(workspace);
    w.key = reinterpret_cast<uint64_t*>(workspace + control_bytes());
    w.flow = shares_flow() ? shared + before_flow() : reinterpret_cast<int64_t*>(w.key) + n * m;
  }

 private:
  JAXMATCH_HOST_DEVICE int64_t before_flow() const { return 3 * nodes() + nodes() / 2 + 1; }
  JAXMATCH_HOST_DEVICE static int64_t control_bytes() {
    return (int64_t(sizeof(Control)) + 15) / 16 * 16;
  }
};

JAXMATCH_HOST_DEVICE inline int64_t workspace_bytes(int64_t n, int64_t m) {
  const int64_t bytes = Workspace(nullptr, n, m).bytes,
                small = is_small(n, m) ? SmallMemory{n, m}.workspace_bytes() : 0;
  return bytes > small ? bytes : small;
}

constexpr Size kSizes[] = {
    {"transport.workspace",  // arguments: n, m
     [](const int64_t* a) { return words(workspace_bytes(a[0], a[1])); }},
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SMALL_MEMORY_H_
