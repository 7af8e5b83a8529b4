// Native calls that Ctrl-C ends.
//
// While a program waits for a native call, Python's own handler of SIGINT only sets a flag, which
// the interpreter reads after the call. So the first call that lasts longer than kPatience puts a
// handler in front of it, which counts signals and passes them on. Solvers poll
// (common/cpu/poll.h): once there is a new signal, and Python would raise KeyboardInterrupt for it,
// the call ends within milliseconds. Only a signal in the first milliseconds of the first long call
// is not seen.
#ifndef JAXMATCH_CPU_INTERRUPT_H_
#define JAXMATCH_CPU_INTERRUPT_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/cpu/poll.h"

namespace jaxmatch {

// The scope of one call. Threads that help with the call point at it (InterruptibleThread).
class InterruptScope {
 public:
  // Of an execution of a program, to which XLA gives the number `run`; 0 outside of one. Once one
  // of its calls was interrupted, all further ones are.
  struct Execution {
    int64_t run = 0;
    uint32_t seen = 0;  // signals
    bool interrupted = false;
    std::chrono::steady_clock::time_point begun{};
  };

  explicit InterruptScope(int64_t run);
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Throws Interrupted.
  void poll();

  // Whether the last call that this thread made was interrupted.
  static bool& last_interrupted() {
    static thread_local bool ended = false;
    return ended;
  }

  // The scope of this thread, or null.
  static InterruptScope*& current() {
    static thread_local InterruptScope* scope = nullptr;
    return scope;
  }

 private:
  static constexpr std::chrono::milliseconds kPatience{5};

  const Execution execution_;
  std::atomic<uint32_t> seen_;
  std::atomic<bool> interrupted_, counts_{false};
};

// Within this scope the thread polls for the call `scope`, which may be null: then for none.
class InterruptibleThread {
 public:
  explicit InterruptibleThread(InterruptScope* scope) : before_(InterruptScope::current()) {
    InterruptScope::current() = scope;
  }
  ~InterruptibleThread() { InterruptScope::current() = before_; }
  InterruptibleThread(const InterruptibleThread&) = delete;
  InterruptibleThread& operator=(const InterruptibleThread&) = delete;

 private:
  InterruptScope* const before_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_INTERRUPT_H_
