// Native calls that Ctrl-C can end.
//
// During a native call, Python's own handler of SIGINT only sets a flag, which the interpreter
// reads after the call. So the first call that lasts longer than kPatience installs another handler
// in front of Python's. This handler counts signals and passes them on. Solvers poll the count
// (common/cpu/poll.h). If there is a new signal for which Python would raise KeyboardInterrupt, the
// call ends within milliseconds. Only a signal in the first milliseconds of the first long call is
// missed.
#ifndef JAXMATCH_CPU_INTERRUPT_H_
#define JAXMATCH_CPU_INTERRUPT_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/cpu/poll.h"

namespace jaxmatch {

// The scope of one call. Each thread that works on the call points to this scope
// (InterruptibleThread).
class InterruptScope {
 public:
  // An execution of a compiled program. `run` is the number that XLA gives to the execution, or 0
  // for a call outside of any program. After one call of an execution is interrupted, its later
  // calls are interrupted too.
  struct Execution {
    int64_t run = 0;
    uint32_t seen = 0;  // number of signals at the last check
    bool interrupted = false;
    std::chrono::steady_clock::time_point begun{};
  };

  explicit InterruptScope(int64_t run);
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Throws Interrupted if Ctrl-C must end the call.
  void poll();

  // Whether the last call that this thread made was interrupted.
  static bool& last_interrupted() {
    static thread_local bool ended = false;
    return ended;
  }

  // The scope of the call that this thread works on, or null.
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

// While this object lives, its thread polls on behalf of the call `scope`. If `scope` is null,
// polls do nothing.
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
