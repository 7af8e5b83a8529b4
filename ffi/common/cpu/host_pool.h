// Threads for handlers that are called without XLA and its thread pool.
#ifndef JAXMATCH_CPU_HOST_POOL_H_
#define JAXMATCH_CPU_HOST_POOL_H_

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace jaxmatch {

// One thread for each core that the process may use; the caller's thread is one of them. The other
// threads start with the first task. They live as long as the process and are never joined, because
// nothing may wait for a thread while the process exits.
class HostPool {
 public:
  using Task = void (*)(void*);

  static HostPool& get() {
    static HostPool* const pool = new HostPool;
    return *pool;
  }

  // 1 in a forked process, which has none of its parent's threads.
  int64_t num_threads() const { return getpid() == process_ ? threads_.load() : 1; }

  // Gives the task to another thread, or runs it in place if there is no other thread.
  void schedule(Task task, void* data) {
    if (num_threads() == 1 || !enqueue(task, data)) task(data);
  }

 private:
  struct Item {
    Task task;
    void* data;
  };

  HostPool() : process_(getpid()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int64_t cores = sched_getaffinity(0, sizeof set, &set) == 0
                              ? CPU_COUNT(&set)
                              : int64_t(std::thread::hardware_concurrency());
    threads_ = std::max<int64_t>(cores, 1);
  }

  bool enqueue(Task task, void* data) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!start_workers()) return false;
      queue_.push_back({task, data});
    }
    has_work_.notify_one();
    return true;
  }

  // Starts the missing workers, or as many of them as the system permits. Returns whether there is
  // at least one worker.
  bool start_workers() {
    try {
      for (; started_ < threads_ - 1; ++started_) std::thread([this] { work(); }).detach();
    } catch (const std::system_error&) {
      threads_ = started_ + 1;
    }
    return started_ > 0;
  }

  void work() {
    for (;;) {
      Item item;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        has_work_.wait(lock, [this] { return !queue_.empty(); });
        item = queue_.front();
        queue_.pop_front();
      }
      item.task(item.data);
    }
  }

  const pid_t process_;
  std::atomic<int64_t> threads_;  // written under the mutex, read without it
  int64_t started_ = 0;
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<Item> queue_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_HOST_POOL_H_
