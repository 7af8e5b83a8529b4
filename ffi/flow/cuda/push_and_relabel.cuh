// Operations of all push-relabel methods: push, relabel, the gap heuristic.
#ifndef JAXMATCH_FLOW_CUDA_PUSH_AND_RELABEL_CUH_
#define JAXMATCH_FLOW_CUDA_PUSH_AND_RELABEL_CUH_

#include "flow/cuda/state.cuh"

namespace jaxmatch::flow {

#ifndef JAXMATCH_EMULATED
// Predicated atomic additions. Without a branch, a thread can issue several additions before it
// waits for the first result. Each returns the value before the addition, or zero if nothing was
// added.
__device__ inline uint64_t add_if(bool happens, uint64_t* at, uint64_t x) {
  uint64_t before;
  asm volatile(
      "{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.u64 %0, 0;\n"
      "@p atom.relaxed.gpu.global.add.u64 %0, [%1], %2; }"
      : "=&l"(before)
      : "l"(at), "l"(x), "r"(int(happens))
      : "memory");
  return before;
}
__device__ inline uint32_t add_if(bool happens, uint32_t* at, uint32_t x) {
  uint32_t before;
  asm volatile(
      "{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.u32 %0, 0;\n"
      "@p atom.relaxed.gpu.global.add.u32 %0, [%1], %2; }"
      : "=&r"(before)
      : "l"(at), "r"(x), "r"(int(happens))
      : "memory");
  return before;
}
#endif

// A node has one owner thread at a time. Only the owner takes excess from the node, takes residual
// capacity from its arcs, and changes its height. Any thread may add excess and residual capacity.
// So a push always finds at least the excess and residual capacity that its thread has read. This
// requires that the next owner sees everything that the previous owner took. So an owner waits for
// the results of its pushes before it gives the node away.
template <class Word>
class PushRelabelOps {
 public:
  __device__ PushRelabelOps(const FlowState& s, bool gap)
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

  // For a push, leave() updates the arc if `happens` is true, and arrive() updates the reverse arc.
  // leave() returns the old value of the arc, for overdrawn().
  __device__ uint64_t leave(bool happens, int32_t arc, Word amount) const {
    if constexpr (sizeof(Word) == 4) {
      // The lower half, `out`, stays non-negative, so nothing is borrowed from the upper half.
      const uint64_t x = uint64_t(uint32_t(amount));
      return add_if(happens, at(residual + arc), (x << 32) - x);
    } else {
      if (happens) add(&residual[arc].in, uint64_t(amount));
      return add_if(happens, at(&residual[arc].out), -uint64_t(amount));
    }
  }
  // True if a push took more than the residual capacity; `before` is the result of leave(). The
  // 32-bit test also looks at `in`, which may be slightly negative for a moment. This only makes
  // the compiler use both halves of the result. Otherwise it would add a move instruction that
  // waits for the result.
  __device__ static bool overdrawn(uint64_t before, Word amount) {
    if constexpr (sizeof(Word) == 4) {
      return int32_t(uint32_t(before)) < amount || int32_t(before >> 32) < -(1 << 30);
    } else {
      return int64_t(before) < amount;
    }
  }
  __device__ void arrive(int32_t reverse, Word amount) const {
    if constexpr (sizeof(Word) == 4) {
      const uint64_t x = uint64_t(uint32_t(amount));
      add(residual + reverse, x - (x << 32));
    } else {
      add(&residual[reverse].out, uint64_t(amount));
      add(&residual[reverse].in, -uint64_t(amount));
    }
  }
  // Adds excess to a node other than the target. Returns the previous excess, or zero if nothing
  // was added. A thread that adds excess and gets zero back has activated the node.
  __device__ Word gain(bool happens, int32_t v, Word amount) const {
    if constexpr (sizeof(Word) == 4) {
      return Word(add_if(happens, reinterpret_cast<uint32_t*>(excess + v), uint32_t(amount)));
    } else {
      return Word(add_if(happens, at(excess + v), uint64_t(amount)));
    }
  }
  // Takes `amount` from the excess of u and returns what remains.
  __device__ Word lose(int32_t u, Word amount) const {
    return amount == 0 ? __ldcg(excess + u) : Word(add_excess(u, -amount) - amount);
  }
  __device__ void report_overdraft() const { c_.overdrawn = 1; }

  // Gap heuristic: if no node has some height, nodes above it cannot reach the target. Returns the
  // lowest such height that is known.
  __device__ int32_t gap() const { return gap_ ? __ldcg(&c_.gap) : INT32_MAX; }
  // Raises the node's height. Returns true if the new height is below `unreached`, so that the node
  // may still be active.
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
  __device__ static uint64_t* at(T* x) {
    static_assert(sizeof(T) == 8, "");
    return reinterpret_cast<uint64_t*>(x);
  }
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

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_PUSH_AND_RELABEL_CUH_
