// The problems of a batch. (Not in transport/cpu/problem.h: the linker would keep one copy for all
// instruction sets.)
#ifndef JAXMATCH_TRANSPORT_BATCH_H_
#define JAXMATCH_TRANSPORT_BATCH_H_

#include "common/host_device.h"
#include "transport/cpu/problem.h"

namespace jaxmatch::transport {

// Problem `b` of a batch, whose first is p.
JAXMATCH_HOST_DEVICE inline TransportProblem problem_of(TransportProblem p, int64_t b) {
  const int64_t real = size_of(p.result_dtype), mass = size_of(p.mass_dtype);
  const int64_t entries = p.n + p.m > 0 ? p.n + p.m - 1 : 0;
  const auto skip = [b](auto*& array, int64_t bytes) {
    if (array) array = decltype(+array)(uintptr_t(array) + uintptr_t(b * bytes));
  };
  skip(p.cost, p.n * p.m * size_of(p.cost_dtype));
  const int64_t real_rows = p.last_row ? p.n - 1 : p.n, real_cols = p.last_row ? p.m - 1 : p.m;
  const int64_t point = p.dims * size_of(p.cost_dtype);
  skip(p.row_points, real_rows * point);
  skip(p.col_points, real_cols * point);
  skip(p.last_row, p.m * size_of(p.cost_dtype));
  skip(p.last_col, real_rows * size_of(p.cost_dtype));
  skip(p.supply, p.n * mass);
  skip(p.demand, p.m * mass);
  skip(p.row_mask, p.n);
  skip(p.col_mask, p.m);
  skip(p.moved, mass);
  skip(p.start_dual, p.m * real);
  skip(p.rows, entries * 4);
  skip(p.cols, entries * 4);
  skip(p.mass, entries * mass);
  skip(p.value, real);
  skip(p.row_dual, p.n * real);
  skip(p.col_dual, p.m * real);
  skip(p.gap, real);
  skip(p.status, 4);
  skip(p.counts, kNumCounts * 4);
  return p;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_BATCH_H_
