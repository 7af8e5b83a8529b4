// Distribution of a batch over a thread pool, in the floating-point mode that exact results need.
#ifndef JAXMATCH_CPU_THREAD_POOL_H_
#define JAXMATCH_CPU_THREAD_POOL_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "common/cpu/interrupt.h"

namespace jaxmatch {

// A scope in which floats round to nearest, denormals are kept and floating-point exceptions are
// masked. XLA runs its threads with denormals flushed to zero. The previous mode is restored at the
// end of the scope.
class ExactFloats {
 public:
#if defined(__x86_64__)
  ExactFloats() : saved_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~ExactFloats() { _mm_setcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  ExactFloats() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(uint64_t{0}));
  }
  ~ExactFloats() { asm volatile("msr fpcr, %0" ::"r"(saved_)); }

 private:
  uint64_t saved_;
#endif
  ExactFloats(const ExactFloats&) = delete;
  ExactFloats& operator=(const ExactFloats&) = delete;
};

// A reference to a callable f(first, last). Code that takes a RangeWork is compiled only once, not
// for each type of callable.
class RangeWork {
 public:
  template <class F>
  RangeWork(const F& f) : callable_(&f), call_(call<F>) {}
  void operator()(int64_t first, int64_t last) const { call_(callable_, first, last); }

 private:
  template <class F>
  static void call(const void* f, int64_t first, int64_t last) {
    (*static_cast<const F*>(f))(first, last);
  }

  const void* callable_;
  void (*call_)(const void*, int64_t, int64_t);
};

// Calls work(first, last) on disjoint ranges that make up [0, count), on the calling thread and on
// idle threads of `pool`. `item_ns` is an estimate of the time of one item, in nanoseconds. Tasks
// do not wait for each other: every thread takes the next range when it is idle, and the caller
// waits only for ranges that a thread has begun. If `work` throws on any thread, ranges that have
// not begun are skipped, and the exception is rethrown to the caller once all threads have left
// `work`. All threads poll for Ctrl-C on behalf of the caller's native call, before each range and
// in `work`.
//
// `Pool` needs num_threads(), and Schedule(f), which calls f on one of the pool's threads or in
// place.
template <class Pool>
void for_each_range(Pool& pool, int64_t count, double item_ns, RangeWork work) {
  constexpr double kMinTaskNs = 20'000;
  const int64_t threads = std::max<int64_t>(1, pool.num_threads());
  const int64_t grain = std::max<int64_t>(
      1, std::min(count / (8 * threads), int64_t(kMinTaskNs / std::max(item_ns, 1e-3))));
  const int64_t ranges = (count + grain - 1) / grain;
  const int64_t helpers = std::min(threads, ranges) - 1;
  InterruptScope* const scope = InterruptScope::current();
  if (helpers <= 0 || double(count) * item_ns < 2 * kMinTaskNs) {
    ExactFloats mode;
    if (scope) scope->poll();
    work(int64_t{0}, count);
    return;
  }

  // May outlive this call, because a task may start after all ranges are done. Such a task does
  // nothing.
  struct Shared {
    std::atomic<int64_t> next{0};
    std::atomic<int64_t> done{0};
    std::atomic<bool> failed{false};
    std::mutex mutex;
    std::condition_variable all_done;
    std::exception_ptr thrown;  // the first exception; guarded by the mutex
  };
  auto shared = std::make_shared<Shared>();
  // `work` refers to a callable of the caller. A task uses it only for a range that it has taken,
  // and this call does not return before that range is done.
  auto run = [shared, count, grain, ranges, scope, work]() noexcept {
    ExactFloats mode;
    InterruptibleThread polls(scope);
    for (int64_t k; (k = shared->next.fetch_add(1)) < ranges;) {
      try {
        if (!shared->failed) {
          if (scope) scope->poll();
          work(k * grain, std::min(count, (k + 1) * grain));
        }
      } catch (...) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        if (!shared->failed.exchange(true)) shared->thrown = std::current_exception();
      }
      if (shared->done.fetch_add(1) + 1 == ranges) {
        std::lock_guard<std::mutex> lock(shared->mutex);
        shared->all_done.notify_all();
      }
    }
  };
  try {
    for (int64_t h = 0; h < helpers; ++h) pool.Schedule([run] { run(); });
  } catch (const std::bad_alloc&) {
    // There is no memory for a task. The caller and the tasks that are already scheduled do the
    // work.
  }
  run();
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->all_done.wait(lock, [&] { return shared->done.load() == ranges; });
  if (shared->thrown) std::rethrow_exception(std::exchange(shared->thrown, nullptr));
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_THREAD_POOL_H_
