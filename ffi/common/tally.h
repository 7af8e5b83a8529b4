// Counters that all threads of a launch share (common/cuda/grid.cuh). A step is the work between
// two barriers of the grid. kTallies tallies form a ring, and each step uses the next tally.
#ifndef JAXMATCH_TALLY_H_
#define JAXMATCH_TALLY_H_

#include <cstdint>

namespace jaxmatch {

// Counters of one step, zero when it begins. A thread reads all four in one load.
struct alignas(16) Tally {
  int32_t count, found, more, work;
};
constexpr int kTallies = 4;

}  // namespace jaxmatch

#endif  // JAXMATCH_TALLY_H_
