// The state of one solve, in shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_STATE_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_STATE_CUH_

#include <type_traits>

#include "assignment/cuda/canonical.cuh"
#include "common/reals.h"

namespace jaxmatch::assignment {

enum class Outcome { kSolved, kInfeasible, kTooWide };

// Where the costs are: in shared memory with aligned packs; in any memory with aligned packs; or in
// any memory, without alignment.
enum class Place { kShared, kAligned, kAnywhere };

// Invariants of a solve, except inside refine_prices() (u_i = min_j C_ij - v_j, stored for matched
// rows):
//   - a matched pair is tight: C_ij - v_j = u_i; a dropped row has leave_i <= u_i;
//   - v only decreases, so lower bounds on reduced costs stay valid, and dropped rows stay dropped;
//   - where columns may stay unmatched, v_j <= 0, with equality if the column was never matched. A
//     warm start may put v_j lower; settle_columns.cuh then restores equality at the end.
// `kPack`: number of columns that a load reads. `kPacks`: number of packs that each thread holds in
// a search.
template <class ArithmeticType, class FormType, int kPack, int kPacks, bool kIsOneWarp,
          Place kPlace>
struct State {
  using Arithmetic = ArithmeticType;
  using F = FormType;
  using Key = typename Arithmetic::Key;
  using Raw = typename FormType::Raw;
  using Costs = typename FormType::Costs;
  // Columns come in packs: K adjacent columns that belong to one thread.
  static constexpr int K = kPack, kSearchPacks = kPacks;
  static constexpr bool kOneWarp = kIsOneWarp;
  using G = Group<kIsOneWarp>;
  using Raws = Pack<Raw, K>;
  using Keys = Pack<Key, K>;

  const F& f;
  const Group<kIsOneWarp> group;
  Scale scale;
  const int rows, cols;
  const Raw* const costs;
  const unsigned stride_bytes;
  const bool cols_optional;
  Key *const v, *const u;
  Key* const leave;  // null where every row must be matched
  Key* const reach;  // the distances of settled columns during a search
  Index *const row4col, *const col4row, *const free_rows, *const pred;
  int* const control;

  __device__ State(const F& form, const Scale& scale_)
      : f(form),
        group(form.group),
        scale(scale_),
        rows(form.rows),
        cols(form.cols),
        costs(kPlace == Place::kShared ? form.template shared<Raw>(form.b.shared.costs)
                                       : form.costs),
        stride_bytes(unsigned(form.stride) * unsigned(sizeof(Raw))),
        cols_optional(form.b.unmatched_cost || form.rows < form.cols),
        v(form.template shared<Key>(form.b.shared.v)),
        u(form.template shared<Key>(form.b.shared.u)),
        leave(form.b.unmatched_cost ? form.template shared<Key>(form.b.shared.leave) : nullptr),
        reach(form.template shared<Key>(form.b.shared.reach)),
        row4col(form.template shared<Index>(form.b.shared.row4col)),
        col4row(form.template shared<Index>(form.b.shared.col4row)),
        free_rows(form.template shared<Index>(form.b.shared.free_rows)),
        pred(form.template shared<Index>(form.b.shared.pred)),
        control(form.template shared<int>(form.b.shared.control)) {}

  // Address of column j of row 0, for load().
  __device__ const Raw* start(int j) const {
    // Stays within the last pack that holds a column, because the buffer may end behind it.
    return costs + min(j, kPlace == Place::kAnywhere ? cols - 1 : (cols - 1) / K * K);
  }
  // Loads the pack of row i that begins at column j; `start` is start(j). Beyond the last column
  // the values are arbitrary.
  __device__ Raws load(const Raw* start, int i, int j) const {
    // In shared memory, 32 bits are enough for offsets.
    using Offset = std::conditional_t<kPlace == Place::kShared, unsigned, uint64_t>;
    const auto* here = reinterpret_cast<const Raw*>(reinterpret_cast<const char*>(start) +
                                                    Offset(unsigned(i)) * stride_bytes);
    if constexpr (kPlace != Place::kAnywhere) return *reinterpret_cast<const Raws*>(here);
    Raws raws;
    const int last = max(cols - 1 - j, 0);
#pragma unroll
    for (int k = 0; k < K; ++k) raws.x[k] = here[min(k, last)];
    return raws;
  }
  __device__ Keys duals(int j) const { return *reinterpret_cast<const Keys*>(v + j); }
  __device__ Key read(Raw raw) const { return Arithmetic::template read<Costs>(raw, scale); }
  __device__ Key less(Raw raw, Key dual) const {
    return Arithmetic::template less<Costs>(raw, dual, scale);
  }
  __device__ bool fits(Key x) const { return Arithmetic::fits(x, scale); }
  __device__ bool fits_dual(Key x) const { return Arithmetic::fits_dual(x, scale); }
  __device__ Key entry(int i, int j) const { return read(costs[int64_t(i) * f.stride + j]); }
};

// The least and second least reduced cost of a row, and the column of the least.
template <class Key>
struct TwoLeast {
  Key least, next;
  int col;
};

// Called by one thread. Walks a path from its end, column `j`, back to row `root`, and matches each
// column to the row before it. The loop is bounded, since a path contains every row at most once.
template <class S>
__device__ void flip_path(const S& s, int root, int j) {
  for (int left = s.rows; left > 0; --left) {
    const int i = s.pred[j], before = s.col4row[i];
    s.row4col[j] = Index(i);
    s.col4row[i] = Index(j);
    if (i == root) return;
    j = before;
  }
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_STATE_CUH_
