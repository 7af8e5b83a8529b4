// What for_each_range does with work that throws and with pools that have no memory for a task:
// tests/common/test_native_errors.py compiles and runs this. Exits 0, or says what went wrong.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/cpu/thread_pool.h"
#include "common/thrown.h"

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

class Pool {
 public:
  explicit Pool(int threads, int tasks = 1 << 30) : tasks_(tasks) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { run(); });
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    news_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  int64_t num_threads() const { return int64_t(threads_.size()); }
  template <class F>
  void Schedule(F f) {
    if (tasks_-- <= 0) throw std::bad_alloc();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue_.emplace_back(f);
    }
    news_.notify_one();
  }

 private:
  void run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      news_.wait(lock, [&] { return over_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()> task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  int tasks_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

constexpr int64_t kCount = 1000;

// Every item once, with a pool that has no memory after so many tasks.
void works_without_tasks(int tasks) {
  Pool pool(4, tasks);
  std::vector<std::atomic<int>> seen(kCount);
  jaxmatch::for_each_range(pool, kCount, 1e4, [&](int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) ++seen[k];
  });
  for (const auto& times : seen) expect(times == 1, "every item is worked on once");
}

// Thrown at one item, on whichever thread has it; `work` is gone when the caller has it.
void throws(Pool& pool, int64_t at) {
  bool caught = false;
  {
    std::atomic<int> inside{0};
    try {
      jaxmatch::for_each_range(pool, kCount, 1e4, [&](int64_t first, int64_t last) {
        struct Here {
          std::atomic<int>& inside;
          explicit Here(std::atomic<int>& n) : inside(n) { ++inside; }
          ~Here() { --inside; }
        } here(inside);
        std::this_thread::yield();
        if (first <= at && at < last) throw std::runtime_error("item");
      });
    } catch (const std::runtime_error&) {
      caught = true;
      expect(inside == 0, "no thread is in the work any more");
    }
  }
  expect(caught, "what was thrown reaches the caller");
}

void says(const char* wanted, bool out_of_memory, const std::function<void()>& f) {
  try {
    f();
  } catch (...) {
    const jaxmatch::Thrown thrown = jaxmatch::Thrown::current("target");
    expect(!std::strcmp(thrown.message, wanted), wanted);
    expect(thrown.out_of_memory == out_of_memory, "out_of_memory");
  }
}

}  // namespace

int main() {
  for (int tasks = 0; tasks <= 4; ++tasks) works_without_tasks(tasks);
  Pool pool(4);
  for (int64_t at = 0; at < kCount; ++at) throws(pool, at);
  says("target: no memory for the workspace", true, [] { throw std::bad_alloc(); });
  says("target: a reason", false, [] { throw std::runtime_error("a reason"); });
  says("target: an exception of no known type", false, [] { throw 1; });
}
