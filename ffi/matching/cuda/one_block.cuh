// Small graphs: one block per graph, with matching and search trees in shared memory.
#ifndef JAXMATCH_MATCHING_CUDA_ONE_BLOCK_CUH_
#define JAXMATCH_MATCHING_CUDA_ONE_BLOCK_CUH_

#include <cstdint>

#include "common/status.h"
#include "matching/operands.h"

namespace jaxmatch::matching {

// Disjoint trees grow from all free rows at once, level by level, as for large graphs. The matching
// is then augmented along each path found. Both steps are repeated until no tree finds a path. The
// vertices reached by the last search determine the vertex cover.
class SmallMatching {
 public:
  static constexpr int64_t bytes(int64_t n, int64_t m) { return 4 * (4 * n + 3 * m + 8); }

  __device__ SmallMatching(const BipartiteCsr& graph, int32_t* memory) : g_(graph) {
    col4row_ = memory;
    leaf_ = col4row_ + g_.n;  // for each root: the free column that its tree has reached
    root_ = leaf_ + g_.n;     // for each row in a tree: the root
    queue_ = root_ + g_.n;    // rows in the order of the search
    row4col_ = queue_ + g_.n;
    parent_ = row4col_ + g_.m;  // for each column: the row that reached it
    claim_ = parent_ + g_.m;
    count_ = claim_ + g_.m;  // length of the queue
  }

  __device__ bool is_valid() {
    bool bad = g_.row_ptr[0] != 0 || g_.col_ptr[0] != 0 || g_.row_ptr[g_.n] != g_.col_ptr[g_.m];
    const auto check_pointers = [&](const int32_t* ptr, int32_t count) {
      for (int k = threadIdx.x; k < count; k += blockDim.x) {
        bad |= ptr[k] > ptr[k + 1] || ptr[k] < 0 || ptr[k + 1] > g_.capacity;
      }
    };
    check_pointers(g_.row_ptr, g_.n);
    check_pointers(g_.col_ptr, g_.m);
    if (__syncthreads_or(bad)) return false;
    for (int32_t k = threadIdx.x; k < g_.row_ptr[g_.n]; k += blockDim.x) {
      bad |= uint32_t(g_.col_ind[k]) >= uint32_t(g_.m) || uint32_t(g_.row_ind[k]) >= uint32_t(g_.n);
    }
    return !__syncthreads_or(bad);
  }

  __device__ void begin(const int32_t* start, bool greedy) {
    each(g_.n, [&](int i) { col4row_[i] = kNone; });
    each(g_.m, [&](int j) {
      row4col_[j] = kNone;
      claim_[j] = INT32_MAX;
    });
    __syncthreads();
    if (start) take_over(start);
    if (greedy) {
      each(g_.n, [&](int i) {
        if (col4row_[i] >= 0) return;
        for (int32_t k = g_.row_ptr[i]; k < g_.row_ptr[i + 1]; ++k) {
          const int32_t j = g_.col_ind[k];
          if (atomicCAS(row4col_ + j, kNone, i) != kNone) continue;
          col4row_[i] = j;
          break;
        }
      });
      __syncthreads();
    }
  }

  __device__ void solve() {
    while (grow_trees()) {
      each(g_.n, [&](int i) {
        if (leaf_[i] >= 0) augment(i);
      });
      __syncthreads();
    }
  }

  __device__ void write(const MatchingResults& r) {
    if (threadIdx.x == 0) count_[0] = 0;
    __syncthreads();
    int size = 0;
    each(g_.n, [&](int i) {
      r.col4row[i] = col4row_[i];
      r.row_cover[i] = col4row_[i] >= 0 && root_[i] < 0;
      size += col4row_[i] >= 0;
    });
    each(g_.m, [&](int j) {
      r.row4col[j] = row4col_[j];
      r.col_cover[j] = parent_[j] >= 0;
    });
    if (size > 0) atomicAdd(count_, size);
    __syncthreads();
    if (threadIdx.x == 0) {
      *r.cardinality = count_[0];
      *r.status = kOptimal;
    }
  }
  __device__ void write_invalid(const MatchingResults& r) {
    each(g_.n, [&](int i) {
      r.col4row[i] = kNone;
      r.row_cover[i] = false;
    });
    each(g_.m, [&](int j) {
      r.row4col[j] = kNone;
      r.col_cover[j] = false;
    });
    if (threadIdx.x == 0) {
      *r.cardinality = -1;
      *r.status = kInvalidGraph;
    }
  }

 private:
  static constexpr int32_t kNone = -1;

  template <class F>
  __device__ static void each(int count, F f) {
    for (int k = threadIdx.x; k < count; k += blockDim.x) f(k);
  }

  // Keeps those pairs of the caller's col4row, `start`, that are edges. If several rows have the
  // same column, the lowest row keeps it.
  __device__ void take_over(const int32_t* start) {
    each(g_.n, [&](int i) {
      const int32_t j = start[i];
      if (j < 0 || j >= g_.m) return;
      bool edge = false;
      for (int32_t k = g_.row_ptr[i]; k < g_.row_ptr[i + 1]; ++k) edge |= g_.col_ind[k] == j;
      if (edge) atomicMin(claim_ + j, i);
    });
    __syncthreads();
    each(g_.m, [&](int j) {
      const int32_t i = claim_[j];
      if (i == INT32_MAX) return;
      row4col_[j] = i;
      col4row_[i] = j;
    });
    __syncthreads();
  }

  // Grows all trees. Returns true if any tree has reached a free column.
  __device__ bool grow_trees() {
    if (threadIdx.x == 0) count_[0] = 0;
    __syncthreads();
    each(g_.n, [&](int i) {
      leaf_[i] = root_[i] = kNone;
      if (col4row_[i] >= 0 || g_.row_ptr[i] == g_.row_ptr[i + 1]) return;
      root_[i] = i;
      queue_[atomicAdd(count_, 1)] = i;
    });
    each(g_.m, [&](int j) { parent_[j] = kNone; });
    __syncthreads();
    bool found = false;
    for (int first = 0, last = count_[0]; first < last;) {
      __syncthreads();
      for (int k = first + threadIdx.x; k < last; k += blockDim.x) found |= grow(queue_[k]);
      __syncthreads();
      first = last;
      last = count_[0];
    }
    return __syncthreads_or(found);
  }
  __device__ bool grow(int32_t row) {
    const int32_t root = root_[row];
    for (int32_t k = g_.row_ptr[row]; k < g_.row_ptr[row + 1]; ++k) {
      if (*reinterpret_cast<volatile int32_t*>(leaf_ + root) >= 0) return false;
      const int32_t j = g_.col_ind[k];
      if (atomicCAS(parent_ + j, kNone, row) != kNone) continue;
      const int32_t mate = row4col_[j];
      if (mate >= 0) {
        root_[mate] = root;
        queue_[atomicAdd(count_, 1)] = mate;
      } else if (atomicCAS(leaf_ + root, kNone, j) == kNone) {
        return true;
      }
    }
    return false;
  }
  __device__ void augment(int32_t root) {
    for (int32_t j = leaf_[root];;) {
      const int32_t i = parent_[j], next = col4row_[i];
      row4col_[j] = i;
      col4row_[i] = j;
      if (i == root) return;
      j = next;
    }
  }

  BipartiteCsr g_;
  int32_t *col4row_, *leaf_, *root_, *queue_, *row4col_, *parent_, *claim_, *count_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_ONE_BLOCK_CUH_
