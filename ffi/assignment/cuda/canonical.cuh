// Brings a problem into canonical form: applies masks, chooses the orientation, copies the costs if
// necessary.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_CANONICAL_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_CANONICAL_CUH_

#include <cuda_pipeline_primitives.h>

#include "assignment/cuda/arithmetic.cuh"
#include "assignment/cuda/batch.h"
#include "common/cuda/group.cuh"
#include "costs/cuda/stored.cuh"

namespace jaxmatch::assignment {

using Index = int16_t;
constexpr int kNone = -1;     // partner of a row or column that is not matched yet
constexpr int kDropped = -2;  // partner of a row that stays unmatched, at its unmatched cost

// Canonical form: at least as many columns as rows, unless rows may stay unmatched at a cost; only
// unmasked rows and columns; costs of 32 or 64 bits. The costs of other problems are copied in this
// form to shared memory or to the workspace.
template <class CostsType, bool kIsOneWarp>
struct CanonicalForm {
  using Costs = CostsType;
  using Raw = typename Costs::Raw;
  static constexpr bool kOneWarp = kIsOneWarp;

  const AssignmentBatch& b;
  Group<kIsOneWarp> group;
  const int64_t problem;
  const int base;  // byte offset of this problem in shared memory
  int rows, cols;
  bool transposed, copied;
  bool whole;        // the costs can be copied unchanged, in aligned chunks of 16 bytes
  const Raw* dense;  // first unmasked cost, if each row is contiguous and of type Raw; else null
  const Raw* costs;  // the costs in canonical form
  int stride;        // number of costs from one row of `costs` to the next
  bool aligned;      // every pack of columns is aligned

  template <class T>
  __device__ T* shared(int offset) const {
    return reinterpret_cast<T*>(shared_memory + base + offset);
  }
  __device__ int problem_row(int k) const {
    return b.row_mask ? shared<Index>(b.shared.row_ids)[k] : k;
  }
  __device__ int problem_col(int k) const {
    return b.col_mask ? shared<Index>(b.shared.col_ids)[k] : k;
  }
  __device__ int row_id(int i) const { return transposed ? problem_col(i) : problem_row(i); }
  __device__ int col_id(int j) const { return transposed ? problem_row(j) : problem_col(j); }

  static_assert(sizeof(CostRange) == 4 * kAuctionPrices && alignof(CostRange) <= 8);
  // Words that the auction has written for this problem (batch.h), from word `at` on.
  template <class T>
  __device__ T* auction(int64_t at) const {
    return reinterpret_cast<T*>(b.auction + problem * auction_words(b) + at);
  }
  __device__ float auction_price(int j) const { return auction<float>(kAuctionPrices)[j]; }

  // Loads the cost of unmasked row k and unmasked column l of the original problem.
  __device__ Raw load(int k, int l) const {
    const int64_t at = (problem * b.n + problem_row(k)) * b.m + problem_col(l);
    return Costs::load(b.cost, at, b.cost_dtype);
  }
};

// Called by one warp. Lists the indices of the true entries of a mask, in order. Returns their
// number.
__device__ inline int list_used(const uint8_t* mask, int size, Index* ids) {
  constexpr int kAhead = 8;  // loads in flight at once
  const int lane = threadIdx.x % kWarpSize;
  int count = 0;
  for (int first = 0; first < size; first += kAhead * kWarpSize) {
    bool used[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int k = first + a * kWarpSize + lane;
      used[a] = k < size && mask[k];
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const unsigned all = __ballot_sync(kAllLanes, used[a]);
      if (used[a]) {
        ids[count + __popc(all & lanes_below(lane))] = Index(first + a * kWarpSize + lane);
      }
      count += __popc(all);
    }
  }
  return count;
}

// Reads the masks and chooses the canonical form. `pack` is the number of columns that are read at
// once. Returns false if the problem does not need this thread.
template <class F>
__device__ bool choose_orientation(F& f, int pack) {
  using Raw = typename F::Raw;
  constexpr bool kOneWarp = F::kOneWarp;
  const AssignmentBatch& b = f.b;
  int n = int(b.n), m = int(b.m), first_row = 0, first_col = 0;
  f.copied = sizeof(Raw) == 4 && b.cost_dtype < Dtype::kF32;
  if (b.row_mask || b.col_mask) {
    int* control = f.template shared<int>(b.shared.control);
    const Index* row_ids = f.template shared<Index>(b.shared.row_ids);
    const Index* col_ids = f.template shared<Index>(b.shared.col_ids);
    const int warp = f.group.warp(), warps = f.group.warps();
    if (b.row_mask && warp == 0) {
      const int used = list_used(b.row_mask + f.problem * n, n, const_cast<Index*>(row_ids));
      if (f.group.lane() == 0) control[kRowCount] = used;
    }
    if (b.col_mask && warp == (warps > 1 ? 1 : 0)) {
      const int used = list_used(b.col_mask + f.problem * m, m, const_cast<Index*>(col_ids));
      if (f.group.lane() == 0) control[kColCount] = used;
    }
    f.group.sync();
    if (b.row_mask) {
      n = control[kRowCount];
      first_row = n ? row_ids[0] : 0;
      f.copied |= n && row_ids[n - 1] - first_row + 1 != n;
    }
    if (b.col_mask) {
      m = control[kColCount];
      first_col = m ? col_ids[0] : 0;
      f.copied |= m && col_ids[m - 1] - first_col + 1 != m;
    }
  }
  f.transposed = !b.unmatched_cost && n > m;
  f.dense = nullptr;
  if (!f.copied) {
    f.dense = static_cast<const Raw*>(b.cost) + (f.problem * b.n + first_row) * b.m + first_col;
  }
  f.copied |= f.transposed;
  f.rows = f.transposed ? m : n;
  f.cols = f.transposed ? n : m;
  f.whole = !f.copied && n == b.n && m == b.m && m % pack == 0 && n * m * sizeof(Raw) % 16 == 0 &&
            reinterpret_cast<uintptr_t>(f.dense) % 16 == 0;
  // A single warp copies the costs whenever the plan reserves room for them in shared memory.
  f.copied |= kOneWarp && b.shared.costs >= 0;
  if (f.copied) {
    f.stride = f.whole ? f.cols : int(copied_stride(f.cols, pack, b.shared.costs >= 0));
    f.costs = b.shared.costs >= 0 ? f.template shared<Raw>(b.shared.costs)
                                  : static_cast<Raw*>(b.workspace) + f.problem * b.workspace_costs;
  } else {
    f.stride = int(b.m);
    f.costs = f.dense;
  }
  const unsigned bytes = max(unsigned(pack * sizeof(Raw)), 16u);
  f.aligned = f.stride % pack == 0 && reinterpret_cast<uintptr_t>(f.costs) % bytes == 0;
  const int width = max((f.cols + kWarpSize - 1) / kWarpSize, 1);
  f.group.size = min(f.group.size, kWarpSize * width);
  return f.group.thread < f.group.size;
}

// Copies costs to the workspace without transposing them. This block copies every `blocks`-th row,
// from row `block` on.
template <class F>
__device__ void copy_rows(const F& f, int block, int blocks) {
  constexpr int kAhead = 4;  // loads in flight at once
  auto* costs = const_cast<typename F::Raw*>(f.costs);
  const auto& g = f.group;
  for (int i = g.warp() * blocks + block; i < f.rows; i += g.warps() * blocks) {
    for (int first = g.lane(); first < f.cols; first += kAhead * kWarpSize) {
      typename F::Raw raw[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        raw[a] = f.load(i, min(first + a * kWarpSize, f.cols - 1));
      }
      // Stores past the end of the row go to the last column again, with the same value.
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        costs[int64_t(i) * f.stride + min(first + a * kWarpSize, f.cols - 1)] = raw[a];
      }
    }
  }
}

// Copies the costs to shared memory. Unless 16-bit costs must be converted, copies are asynchronous
// and bypass registers, so all loads are in flight at once.
template <class F>
__device__ void copy_to_shared(const F& f) {
  using Raw = typename F::Raw;
  const AssignmentBatch& b = f.b;
  const auto& g = f.group;
  Raw* costs = f.template shared<Raw>(b.shared.costs);
  if (f.rows == 0 || f.cols == 0) return;  // masks may exclude all rows or columns
  if (f.whole) {
    constexpr int kChunk = 16 / sizeof(Raw);
    const Raw* from = static_cast<const Raw*>(b.cost) + f.problem * b.n * b.m;
    for (int k = g.thread * kChunk; k < f.rows * f.cols; k += g.size * kChunk) {
      __pipeline_memcpy_async(costs + k, from + k, 16);
    }
  } else {
    // Consecutive threads copy consecutive costs of the original problem.
    const int across = f.transposed ? f.rows : f.cols, down = f.transposed ? f.cols : f.rows;
    const int to_next = f.transposed ? f.stride : 1, to_below = f.transposed ? 1 : f.stride;
    const int step_down = g.size / across, step_across = g.size % across;
    int k = g.thread / across, l = g.thread % across;
    Raw* to = costs + k * to_below + l * to_next;
    const int step_to = step_down * to_below + step_across * to_next;
    const int wrap_to = to_below - across * to_next;
    const Raw* from = f.dense ? f.dense + k * b.m + l : nullptr;
    const int64_t step_from = step_down * b.m + step_across, wrap_from = b.m - across;
#pragma unroll 2
    while (k < down) {
      if (f.dense) {
        __pipeline_memcpy_async(to, from, sizeof(Raw));
      } else if (b.cost_dtype < Dtype::kF32) {  // 16 bits
        *to = f.load(k, l);
      } else {
        const int64_t at = (f.problem * b.n + f.problem_row(k)) * b.m + f.problem_col(l);
        __pipeline_memcpy_async(to, static_cast<const Raw*>(b.cost) + at, sizeof(Raw));
      }
      const bool wraps = l + step_across >= across;
      k += step_down + wraps;
      l += step_across - (wraps ? across : 0);
      to += step_to + (wraps ? wrap_to : 0);
      from += step_from + (wraps ? wrap_from : 0);
    }
  }
  __pipeline_commit();
  __pipeline_wait_prior(0);
}

// Transposes costs into the workspace, through square tiles in shared memory. This block handles
// every `blocks`-th tile, from tile `block` on.
template <class F>
__device__ void transpose_tiles(const F& f, int block, int blocks) {
  using Raw = typename F::Raw;
  constexpr int kAhead = 8, kPitch = kWarpSize + 1;
  auto* costs = const_cast<Raw*>(f.costs);
  const auto& g = f.group;
  Raw* tile = f.template shared<Raw>(f.b.shared.tiles) + g.warp() * kWarpSize * kPitch;
  const int lane = g.lane(), warps = min(g.warps(), kTileBytes / (kTileEntries * int(sizeof(Raw))));
  const int tiles = (f.cols + kWarpSize - 1) / kWarpSize;
  const int bands = (f.rows + kWarpSize - 1) / kWarpSize;
  for (int t = g.warp() * blocks + block; g.warp() < warps && t < tiles * bands;
       t += warps * blocks) {
    const int j0 = t / bands * kWarpSize, i0 = t % bands * kWarpSize;
    const int i = min(i0 + lane, f.rows - 1);
    for (int first = 0; first < kWarpSize; first += kAhead) {
      Raw raw[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) raw[a] = f.load(min(j0 + first + a, f.cols - 1), i);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) tile[(first + a) * kPitch + lane] = raw[a];
    }
    __syncwarp();
    for (int first = 0; first < kWarpSize; first += kAhead) {
      Raw raw[kAhead];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) raw[a] = tile[lane * kPitch + first + a];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        if (i0 + first + a < f.rows && j0 + lane < f.cols) {
          costs[int64_t(i0 + first + a) * f.stride + j0 + lane] = raw[a];
        }
      }
    }
    __syncwarp();
  }
}

// Copies the costs into canonical form if necessary. If several blocks work on the problem, each of
// them copies its part.
template <class F>
__device__ void gather_costs(const F& f, int block = 0, int blocks = 1) {
  if (!f.copied || f.b.gathered) return;
  if (f.b.shared.costs >= 0) {
    copy_to_shared(f);
  } else if (f.transposed) {
    transpose_tiles(f, block, blocks);
  } else {
    copy_rows(f, block, blocks);
  }
  f.group.sync();
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_CANONICAL_CUH_
