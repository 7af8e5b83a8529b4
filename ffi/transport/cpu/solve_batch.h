// Solves the problems of a batch on several threads.
#ifndef JAXMATCH_TRANSPORT_CPU_SOLVE_BATCH_H_
#define JAXMATCH_TRANSPORT_CPU_SOLVE_BATCH_H_

#include <atomic>

#include "common/cpu/thread_pool.h"
#include "transport/decode.h"

namespace jaxmatch::transport {

// `nanoseconds`: estimated time of one problem, without a constant overhead.
inline ffi::Error solve_batch(ffi::ThreadPool& pool, const Attributes& given, const Batch& batch,
                              double nanoseconds) {
  const SolveTransport solve = pick_transport_solver();
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    ScopedArena arena;
    for (int64_t b = first; b < last; ++b) {
      if (!solve(problem_at(batch.first, b), &arena)) out_of_memory = true;
    }
  };
  for_each_range(pool, batch.size, 1e4 + nanoseconds, solve_range);
  if (!out_of_memory) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    given.error("no memory for the workspace").message());
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_SOLVE_BATCH_H_
