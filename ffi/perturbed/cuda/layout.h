// Layout of the workspace of jaxmatch_perturbed_assignment on CUDA.
#ifndef JAXMATCH_CUDA_PERTURBED_LAYOUT_H_
#define JAXMATCH_CUDA_PERTURBED_LAYOUT_H_

#include <cstdint>

#include "assignment/cuda/sizes.h"
#include "common/device_arena.h"
#include "common/sizes.h"

namespace jaxmatch::perturbed {

// Arrays for the noisy problems that are solved at once, and for those of their results that the
// call does not return.
struct NoisyProblems {
  float *cost, *leave;
  uint8_t *row_mask, *col_mask;
  int32_t* row4col;
  float *row_dual, *col_dual, *gap;
  int32_t* copy;
  int64_t copy_words;  // int32 words of one problem for the copy of its costs
  int64_t bytes;       // of all arrays

  // `each` describes one of the `count` problems. Its pointers only tell which operands are
  // present.
  NoisyProblems(const assignment::AssignmentOperands& each, int64_t count, char* base) {
    DeviceArena arena{base};
    copy_words = assignment::workspace_words(each);
    arena.take(cost, count * each.n * each.m);
    arena.take(leave, each.unmatched_cost ? count * each.n : 0);
    arena.take(row_mask, each.row_mask ? count * each.n : 0);
    arena.take(col_mask, each.col_mask ? count * each.m : 0);
    arena.take(row4col, count * each.m);
    arena.take(row_dual, count * each.n);
    arena.take(col_dual, count * each.m);
    arena.take(gap, count);
    arena.take(copy, count * copy_words);
    bytes = arena.used;
  }
};

constexpr Size kSizes[] = {
    {"perturbed.workspace",  // arguments: n, m, whether there are row masks, column masks and
                             // unmatched costs, and the number of samples solved at once
     [](const int64_t* a) {
       const auto each =
           assignment::example(a[0], a[1], Dtype::kF32, a[2] != 0, a[3] != 0, a[4] != 0);
       return words(NoisyProblems(each, a[5], nullptr).bytes);
     }},
};

}  // namespace jaxmatch::perturbed

#endif  // JAXMATCH_CUDA_PERTURBED_LAYOUT_H_
