// The columns that one thread keeps in registers, in the order in which it reads packs of K
// adjacent columns. Used by searches and by the initialisation of a single warp (start_warp.cuh).
#ifndef JAXMATCH_CUDA_ASSIGNMENT_COLUMNS_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_COLUMNS_CUH_

#include "assignment/cuda/state.cuh"

namespace jaxmatch::assignment {

// A column and its row in one number: (row + 1) << 16 | column. The minimum of several pairs is a
// free column if there is one, otherwise a column of the row with the lowest index.
__device__ inline int pair_up(int row, int col) { return (row + 1) << 16 | col; }
__device__ inline int row_of(int pair) { return (pair >> 16) - 1; }
__device__ inline int col_of(int pair) { return pair & 0xffff; }
constexpr int kNoPair = INT32_MAX;

template <class S>
struct Columns {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  static constexpr int K = S::K, kPacks = S::kSearchPacks, N = K * kPacks;

  const S& s;
  const typename S::G& g;
  const typename S::Raw* start[kPacks];
  Key v[N];  // A::kFarDual in the padding
  int pair[N];

  __device__ Columns(const S& state, const typename S::G& group) : s(state), g(group) {
#pragma unroll
    for (int c = 0; c < kPacks; ++c) start[c] = s.start(first(c));
  }
  // first(c) is the index of the first column of this thread's pack c, and at(n) is the index of
  // this thread's n-th column.
  __device__ int first(int c) const { return (c * g.size + g.thread) * K; }
  __device__ int at(int n) const { return first(n / K) + n % K; }

  // Loads duals and pairs from shared memory.
  __device__ void load_state() {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const int j = at(n);
      v[n] = j < s.cols ? s.v[j] : A::kFarDual;
      pair[n] = j < s.cols ? pair_up(s.row4col[j], j) : kNoPair;
    }
  }

  // load() loads the costs of row i, reduce() computes C_ij - v_j from them, reduced() does both.
  __device__ void load(int i, typename S::Raws (&raws)[kPacks]) const {
#pragma unroll
    for (int c = 0; c < kPacks; ++c) raws[c] = s.load(start[c], i, first(c));
    if constexpr (kPacks > 1) keep_loads_together();
  }
  __device__ void reduce(const typename S::Raws (&raws)[kPacks], Key (&x)[N]) const {
#pragma unroll
    for (int n = 0; n < N; ++n) x[n] = s.less(raws[n / K].x[n % K], v[n]);
  }
  __device__ void reduced(int i, Key (&x)[N]) const {
    typename S::Raws raws[kPacks];
    load(i, raws);
    reduce(raws, x);
  }

  // The minimum of the pairs of this warp whose x equals `least`; kNoPair if there are none.
  __device__ int pair_with(const Key (&x)[N], Key least) const {
    int found[N];
#pragma unroll
    for (int n = 0; n < N; ++n) found[n] = x[n] == least ? pair[n] : kNoPair;
    return __reduce_min_sync(kAllLanes, least_of(found));
  }

  // Returns the minimum of x, and overwrites x. Comparisons form a tree, so that comparisons of one
  // level do not depend on each other.
  template <class T>
  __device__ static T least_of(T (&x)[N]) {
#pragma unroll
    for (int step = 1; step < N; step *= 2) {
#pragma unroll
      for (int n = 0; n + step < N; n += 2 * step) x[n] = lesser(x[n], x[n + step]);
    }
    return x[0];
  }
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_COLUMNS_CUH_
