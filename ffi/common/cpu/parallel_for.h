// Loops of one large problem, distributed over threads.
#ifndef JAXMATCH_CPU_PARALLEL_FOR_H_
#define JAXMATCH_CPU_PARALLEL_FOR_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/thread_pool.h"
#include "common/handler.h"

namespace jaxmatch {

// Calls f(first, last) on ranges that make up [0, count), on the threads of a pool or in place.
class Spread {
 public:
  // Without a pool, loops run in place.
  explicit Spread(ffi::ThreadPool* pool)
      : pool_(pool), threads_(pool != nullptr ? std::max<int64_t>(1, pool->num_threads()) : 1) {}
  int64_t threads() const { return threads_; }

  template <class F>
  void operator()(int64_t count, double item_ns, const F& f) const {
    if (threads_ == 1) return f(int64_t{0}, count);
    for_each_range(*pool_, count, item_ns, f);
  }

 private:
  ffi::ThreadPool* pool_;
  int64_t threads_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_PARALLEL_FOR_H_
