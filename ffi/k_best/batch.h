// The problems of a batch. (Not in k_best/cpu/problem.h: the linker would keep one copy for all
// instruction sets.)
#ifndef JAXMATCH_K_BEST_BATCH_H_
#define JAXMATCH_K_BEST_BATCH_H_

#include "common/host_device.h"
#include "k_best/cpu/problem.h"

namespace jaxmatch::k_best {

// Problem `b` of a batch, whose first is p.
JAXMATCH_HOST_DEVICE inline KBestProblem problem_of(KBestProblem p, int64_t b) {
  const int64_t real = size_of(p.result_dtype);
  const auto skip = [b](auto*& array, int64_t bytes) {
    if (array) array = decltype(+array)(uintptr_t(array) + uintptr_t(b * bytes));
  };
  skip(p.cost, p.n * p.m * size_of(p.cost_dtype));
  skip(p.row_mask, p.n);
  skip(p.col_mask, p.m);
  skip(p.col4row, p.k * p.n * 4);
  skip(p.row4col, p.k * p.m * 4);
  skip(p.value, p.k * real);
  skip(p.found, 4);
  skip(p.row_dual, p.n * real);
  skip(p.col_dual, p.m * real);
  skip(p.gap, real);
  skip(p.status, 4);
  skip(p.counts, kNumCounts * 4);
  return p;
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_K_BEST_BATCH_H_
