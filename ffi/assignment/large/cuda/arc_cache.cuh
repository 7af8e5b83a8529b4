// Cache of the arcs that a search can use. Each block caches the arcs of its own rows in shared
// memory. An arc leads from a row to one of its candidates, i.e. columns with small reduced costs.
//
// A search can use few of a row's 128 candidates, because the slacks of most exceed the bound of
// the search. The usable arcs are gathered once, and read whenever the label of the row's column
// has fallen. If a row's arcs do not fit into the cache, they are read from the row's candidate
// set.
#ifndef JAXMATCH_LARGE_CUDA_ARC_CACHE_CUH_
#define JAXMATCH_LARGE_CUDA_ARC_CACHE_CUH_

#include <algorithm>

#include "assignment/large/core/search.h"
#include "assignment/large/cuda/rows_of_warps.cuh"

namespace jaxmatch::assignment::large {

extern __shared__ __align__(16) char shared_memory[];

// Capacity of a block's cache: the number of rows, and of the arcs of all these rows.
struct ArcCacheSize {
  int rows = 0, arcs = 0;

  static constexpr int64_t kMostArcs = (1 << 16) - 1;  // row heads store indices of arcs in 16 bits
  static constexpr int kBytesOfCount = 8, kBytesOfArc = sizeof(int64_t) + sizeof(int32_t),
                       kBytesOfRow = sizeof(uint32_t);
  __host__ __device__ int64_t bytes() const {
    return kBytesOfCount + int64_t(arcs) * kBytesOfArc + int64_t(rows) * kBytesOfRow;
  }
  // The capacity of a cache of `bytes` bytes in one of `blocks` blocks that share `all_rows` rows:
  // room for every row of the block, then as many arcs as fit.
  __host__ static ArcCacheSize of(int64_t all_rows, int64_t blocks, int64_t bytes) {
    const int64_t most_groups =
        (all_rows + RowsOfWarps::kGroup * blocks - 1) / (RowsOfWarps::kGroup * blocks);
    const int64_t rows = most_groups * RowsOfWarps::kGroup;
    const int64_t arcs = (bytes - ArcCacheSize{int(rows), 0}.bytes()) / kBytesOfArc;
    return {int(rows), int(std::min({arcs, rows * kCandidates, kMostArcs}))};
  }
};

class ArcCache {
 public:
  // Uses shared memory from byte `first` on. The cache is empty until the first gather().
  __device__ ArcCache(ArcCacheSize cache_size, int first) : size_(cache_size), first_(first) {}

  // Gathers the arcs of all rows of the block. All threads of the block must call it, and
  // synchronise before they read arcs.
  template <class T>
  __device__ void gather(const LargeProblem<T>& p, const Search& search, const LabelLayout& layout,
                         RowsOfWarps rows) {
    __syncthreads();  // the old arcs are no longer read
    if (threadIdx.x == 0) used() = 0;
    __syncthreads();
    const Lanes g{int(threadIdx.x % Lanes::kCount)};
    const int warp = threadIdx.x / Lanes::kCount, warps = blockDim.x / Lanes::kCount;
    for (int slot = warp; slot < size_.rows; slot += kTogether * warps) {
      ClassCols col[kTogether];
      ClassKeys slack[kTogether];
      JAXMATCH_UNROLL
      for (int r = 0; r < kTogether; ++r) {
        const int64_t i = rows.row_of(slot + r * warps);
        const bool present = i < p.s.n && p.has_row(i);
        const int64_t at = (present ? i : 0) * kColumnClasses + g.lane;
        col[r] = p.s.core_col[at];
        slack[r] = p.s.core_key[at];
        const int64_t u = load_relaxed(p.s.u + (present ? i : 0));
        JAXMATCH_UNROLL
        for (int b = 0; b < kCandidatesPerClass; ++b) {
          slack[r].x[b] -= u;
          if (!present) col[r].x[b] = -1;
        }
      }
      JAXMATCH_UNROLL
      for (int r = 0; r < kTogether; ++r) {
        JAXMATCH_UNROLL
        for (int b = 0; b < kCandidatesPerClass; ++b) {
          slack[r].x[b] -= load_relaxed(p.s.v + greater(col[r].x[b], 0));
        }
      }
      JAXMATCH_UNROLL
      for (int r = 0; r < kTogether; ++r) {
        if (slot + r * warps < size_.rows) {
          keep(search, layout, rows, g, slot + r * warps, col[r], slack[r]);
        }
      }
    }
  }

  // Calls f(position of the column's label, step) for the arcs of row i, which were gathered for
  // this search.
  template <class T, class F>
  __device__ void for_each(const LargeProblem<T>& p, const Search& search,
                           const LabelLayout& layout, RowsOfWarps rows, Lanes g, int64_t i,
                           F f) const {
    const uint32_t head = heads()[rows.slot_of(i)];
    const int count = head & kNotCached;
    if (count == kNotCached) {
      return for_each_core_arc(p, search, g, i,
                               [&](int32_t j, int64_t step) { f(layout.position_of(j), step); });
    }
    const int64_t* const step = steps() + (head >> kCountBits);
    const int32_t* const position = positions() + (head >> kCountBits);
    for (int k = g.lane; k < count; k += g.kCount) f(position[k], step[k]);
  }

  // The cache's memory, which may be used for other data until the next gather().
  __device__ char* memory() const { return shared_memory + first_; }
  __device__ int64_t bytes() const { return size_.bytes(); }

 private:
  static constexpr int kTogether = 2;  // rows whose candidates a warp loads together
  // A row head packs the index of the first arc and the number of arcs.
  static constexpr int kCountBits = 16;
  static constexpr int kNotCached = (1 << kCountBits) - 1;

  // Stores the usable arcs of one row in contiguous places.
  __device__ void keep(const Search& search, const LabelLayout& layout, RowsOfWarps rows, Lanes g,
                       int slot, const ClassCols& col, const ClassKeys& slack) {
    const int64_t most = search.most_slack(), row = rows.row_of(slot);
    unsigned near[kCandidatesPerClass];
    int count = 0;
    JAXMATCH_UNROLL
    for (int b = 0; b < kCandidatesPerClass; ++b) {
      near[b] = __ballot_sync(0xffffffffu, col.x[b] >= 0 && slack.x[b] <= most);
      count += __popc(near[b]);
    }
    int at = g.lane == 0 ? take(count) : 0;
    at = __shfl_sync(0xffffffffu, at, 0);
    if (g.lane == 0) {
      heads()[slot] = at < 0 ? kNotCached : uint32_t(at) << kCountBits | uint32_t(count);
    }
    if (at < 0) return;
    JAXMATCH_UNROLL
    for (int b = 0; b < kCandidatesPerClass; ++b) {
      if (near[b] >> g.lane & 1) {
        const int mine = at + __popc(near[b] & ((1u << g.lane) - 1));
        steps()[mine] = search.step(slack.x[b], row, col.x[b]);
        positions()[mine] = int32_t(layout.position_of(col.x[b]));
      }
      at += __popc(near[b]);
    }
  }
  // Allocates places for `count` arcs. Returns the first place, or -1 if the arcs do not fit.
  __device__ int take(int count) {
    for (int before = 0; before + count <= size_.arcs;) {
      const int now = atomicCAS(&used(), before, before + count);
      if (now == before) return before;
      before = now;
    }
    return -1;
  }

  __device__ int32_t& used() const { return *reinterpret_cast<int32_t*>(memory()); }
  __device__ int64_t* steps() const {
    return reinterpret_cast<int64_t*>(memory() + ArcCacheSize::kBytesOfCount);
  }
  __device__ int32_t* positions() const { return reinterpret_cast<int32_t*>(steps() + size_.arcs); }
  __device__ uint32_t* heads() const {
    return reinterpret_cast<uint32_t*>(positions() + size_.arcs);
  }

  ArcCacheSize size_;
  int first_;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CUDA_ARC_CACHE_CUH_
