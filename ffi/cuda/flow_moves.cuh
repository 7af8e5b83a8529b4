// What all push-relabel methods have in common: pushes, relabels, the gap heuristic.
#ifndef JAXMATCH_CUDA_FLOW_MOVES_CUH_
#define JAXMATCH_CUDA_FLOW_MOVES_CUH_

#include "flow_state.cuh"

namespace jaxmatch {

// One thread at a time has a node: it alone takes from the node's excess and its arcs and changes
// its height; anybody may add. So no push can find less than its thread has seen, as long as all
// that one owner has taken is seen by the next one: an owner looks at what its own pushes returned
// before it gives the node away.
template <class Word>
class FlowMoves {
 public:
  __device__ FlowMoves(const FlowState& s, bool gap)
      : residual(s.residuals<Word>()),
        excess(s.excesses<Word>()),
        height(s.height),
        target(__ldcg(&s.control->target)),
        unreached(s.unreached()),
        c_(*s.control),
        width_(s.width),
        gap_(gap) {}

  ArcResidual<Word>* const residual;
  Word* const excess;
  int32_t* const height;
  const int32_t target, unreached;

  // The two ends of a push. What the arc held before is returned.
  __device__ Word leave(int32_t arc, Word amount) const {
    if constexpr (sizeof(Word) == 4) {
      // `out`, the lower half, is never negative: nothing is borrowed from the upper one.
      const uint64_t x = uint64_t(uint32_t(amount));
      return Word(uint32_t(add(residual + arc, (x << 32) - x)));
    } else {
      add(&residual[arc].in, uint64_t(amount));
      return Word(add(&residual[arc].out, -uint64_t(amount)));
    }
  }
  __device__ void arrive(int32_t partner, Word amount) const {
    if constexpr (sizeof(Word) == 4) {
      const uint64_t x = uint64_t(uint32_t(amount));
      add(residual + partner, x - (x << 32));
    } else {
      add(&residual[partner].out, uint64_t(amount));
      add(&residual[partner].in, -uint64_t(amount));
    }
  }
  // Returns whether the node, which is not the target, had none.
  __device__ bool gain(int32_t v, Word amount) const { return add_excess(v, amount) == 0; }
  // What is left to the owner.
  __device__ Word lose(int32_t u, Word amount) const {
    return amount == 0 ? __ldcg(excess + u) : Word(add_excess(u, -amount) - amount);
  }
  __device__ void report_overdraft() const { c_.overdrawn = 1; }

  // Nodes above a height that nobody has cannot reach the target.
  __device__ int32_t gap() const { return gap_ ? __ldcg(&c_.gap) : INT32_MAX; }
  // Gives the node a greater height; whether that is one it can be active with.
  __device__ bool relabel(int32_t u, int32_t before, int32_t now) const {
    now = min(now, unreached);
    __stcg(height + u, now);
    if (gap_) {
      if (now < unreached) atomicAdd(width_ + now, 1);
      if (atomicAdd(width_ + before, -1) == 1) atomicMin(&c_.gap, before);
    }
    return now < unreached;
  }

 private:
  template <class T>
  __device__ static uint64_t add(T* at, uint64_t x) {
    static_assert(sizeof(T) == 8, "");
    return atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)x);
  }
  __device__ Word add_excess(int32_t v, Word amount) const {
    if constexpr (sizeof(Word) == 4) {
      return atomicAdd(excess + v, amount);
    } else {
      return Word(add(excess + v, uint64_t(amount)));
    }
  }

  FlowControl& c_;
  int32_t* const width_;
  const bool gap_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_FLOW_MOVES_CUH_
