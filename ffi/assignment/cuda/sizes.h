// Limits and workspace sizes of the CUDA kernels for batches of assignments. Python queries them.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_SIZES_H_
#define JAXMATCH_CUDA_ASSIGNMENT_SIZES_H_

#include <algorithm>
#include <cstdint>

#include "assignment/cpu/problem.h"
#include "assignment/cuda/auction_plan.h"
#include "assignment/cuda/plan.h"
#include "common/sizes.h"

namespace jaxmatch::assignment {

// Number of int32 words that the workspace needs for the copy of one problem's costs. It is 0 if no
// copy is needed or if the copy fits in shared memory.
inline int64_t workspace_words(const AssignmentOperands& o) {
  const auto [rows, cols] = Sides(o);
  if (!may_copy(o)) return 0;
  const int64_t longs = size_of(o.cost_dtype) == 8 ? 2 : 1;
  // The state of a problem takes at most 42 bytes of shared memory for each row and column. The
  // limit `most` on the copy is lower for problems that one warp solves, because many of these
  // share a multiprocessor.
  const int pack = cols <= 32 ? 1 : cols <= 64 ? 2 : 4;
  const int64_t copy = 4 * longs * rows * copied_stride(cols, pack, true);
  const int64_t most = cols <= 128 ? 48 << 10 : 72 << 10;
  if (copy <= most && copy + 42 * (rows + cols) <= 80 << 10) return 0;
  return longs * copied_costs(o);
}

// Operands of problems with n rows and m columns. Pointers only show which operands are present.
inline AssignmentOperands example(int64_t n, int64_t m, Dtype dtype, bool row_mask, bool col_mask,
                                  bool unmatched_cost) {
  static const uint8_t there = 1;
  AssignmentOperands o{};
  o.n = n;
  o.m = m;
  o.cost_dtype = dtype;
  o.row_mask = row_mask ? &there : nullptr;
  o.col_mask = col_mask ? &there : nullptr;
  o.unmatched_cost = unmatched_cost ? &there : nullptr;
  return o;
}
constexpr Dtype dtype_of_bytes(int64_t bytes, bool integral) {
  return bytes == 2 ? Dtype::kF16 : bytes == 4 ? Dtype::kF32 : integral ? Dtype::kS64 : Dtype::kF64;
}

constexpr Size kSizes[] = {
    {"assignment.points.cached_bytes", constant<kCachedBytes>},
    {"assignment.longest_side",  // arguments: bytes of a cost, whether it is an integer
     [](const int64_t* a) { return longest_side(dtype_of_bytes(a[0], a[1] != 0)); }},
    {"assignment.workspace",  // arguments: n, m, bytes of a cost, which optional operands are
                              // present
     [](const int64_t* a) {
       const Dtype dtype = dtype_of_bytes(a[2], false);
       return workspace_words(example(a[0], a[1], dtype, a[3] != 0, a[4] != 0, a[5] != 0));
     }},
    {"assignment.auction",  // arguments: n, m, bytes of a cost, whether there is an unmatched cost,
                            // and a start dual
     [](const int64_t* a) {
       AssignmentOperands o =
           example(a[0], a[1], dtype_of_bytes(a[2], false), false, false, a[3] != 0);
       if (a[4] != 0) o.start_dual = &o;
       return has_auction(o) ? auction_words(o) : int64_t(0);
     }},
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_SIZES_H_
