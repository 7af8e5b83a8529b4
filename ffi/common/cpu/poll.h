// How solvers notice that the user has pressed Ctrl-C. Nothing here comes from the C++ standard
// library, for solvers that are compiled once per instruction set.
#ifndef JAXMATCH_CPU_POLL_H_
#define JAXMATCH_CPU_POLL_H_

#include <cstdint>

namespace jaxmatch {

// Thrown where a solve must end. What the call then returns is in write_interrupted().
struct Interrupted {};

// Throws Interrupted if the user has pressed Ctrl-C since the call began. Takes about 20 ns.
void poll_interrupt();

// Polls after so many operations of about a nanosecond each.
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
