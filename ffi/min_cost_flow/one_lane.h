// The thread that solves a network on the CPU. A warp that solves one together has the same members
// (cuda/warp_lanes.cuh).
#ifndef JAXMATCH_MIN_COST_FLOW_ONE_LANE_H_
#define JAXMATCH_MIN_COST_FLOW_ONE_LANE_H_

#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/cpu/poll.h"

namespace jaxmatch::min_cost_flow {

class OneLane {
 public:
  static constexpr bool kAlone = true;

  explicit OneLane(HostArena& memory) : memory_(memory) {}

  // Calls f(i) for all i below `count`; each lane takes some. Ends with sync().
  template <class F>
  void each(int32_t count, const F& f) const {
    for (int32_t i = 0; i < count; ++i) f(i);
  }
  // The lane that does what cannot be shared.
  bool leads() const { return true; }
  void sync() const {}
  // The value of the first lane.
  template <class T>
  T from_leader(T x) const {
    return x;
  }
  template <class T>
  T sum(T x) const {
    return x;
  }
  template <class T>
  T max(T x) const {
    return x;
  }
  bool any(bool x) const { return x; }
  // The number that belongs to the least key.
  template <class P>
  int32_t best(P /*key*/, int32_t number) const {
    return number;
  }
  // Memory that all lanes see. Hot memory is read often.
  template <class T>
  T* take(int64_t count) {
    return memory_.take<T>(count);
  }
  template <class T>
  T* take_hot(int64_t count) {
    return memory_.take<T>(count);
  }
  void restart() { memory_.reset(); }
  HostArena& memory() { return memory_; }
  void poll() const { poll_interrupt(); }

 private:
  HostArena& memory_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_ONE_LANE_H_
