// How solvers notice that the user has pressed Ctrl-C. This header uses nothing from the C++
// standard library, because some solvers are compiled once per instruction set (see
// assignment/cpu/problem.h).
#ifndef JAXMATCH_CPU_POLL_H_
#define JAXMATCH_CPU_POLL_H_

#include <cstdint>

namespace jaxmatch {

// Thrown to end a solve. write_interrupted() (common/cpu/interruptible.h) then writes the results
// of the call.
struct Interrupted {};

// Throws Interrupted if the user has pressed Ctrl-C since the call began. Takes about 20 ns.
void poll_interrupt();

// Polls once per kBetween operations of about a nanosecond each.
class Poll {
 public:
  void after(int64_t operations) {
    left_ -= operations;
    if (left_ > 0) return;
    left_ = kBetween;
    poll_interrupt();
  }

 private:
  static constexpr int64_t kBetween = int64_t{1} << 18;

  int64_t left_ = kBetween;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_POLL_H_
