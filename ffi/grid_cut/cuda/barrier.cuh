// The barrier for the blocks of a team, which also reduces two flags. A team is a part of a
// cooperative launch whose blocks solve one grid together.
#ifndef JAXMATCH_GRID_CUT_CUDA_BARRIER_CUH_
#define JAXMATCH_GRID_CUT_CUDA_BARRIER_CUH_

#include <cstdint>

#include "common/cuda/memory_order.cuh"
#include "grid_cut/cuda/sizes.h"

namespace jaxmatch::grid_cut {

// Two flags, reduced by "or" at a barrier.
struct GridVote {
  bool any, other;
};

// The lowest kBits bits of a word count the blocks that have arrived. Above them are the numbers of
// blocks that have set the first and the second flag. So one atomic addition announces an arrival
// and both flags. Barriers use the words in rotation. In each barrier, block 0 of the team clears
// the word of the barrier after the next. No block uses this word now: all have left the previous
// barrier that used it, and none can reach the next barrier that uses it before block 0 does.
// GridTeam (assignment/large/cuda/team.cuh) never clears its words, because they also count the
// rounds of termination detection.
class GridBarrier {
 public:
  static constexpr int kWords = 4;
  static constexpr int kBits = 10, kMostBlocks = (1 << kBits) - 1;

  // `words` are zero before the first barrier; `block` is the index of this block in its team.
  // `left` is a word in shared memory for the reduced flags. A single block needs no words.
  __device__ GridBarrier(int* words, int block, int blocks, int* left)
      : words_(words), block_(block), blocks_(blocks), left_(left) {}

  // Writes before the barrier are visible to all blocks of the team after it. Flags may differ
  // between threads.
  __device__ GridVote barrier_reduce(GridVote mine) {
    mine = {__syncthreads_or(mine.any) != 0, __syncthreads_or(mine.other) != 0};
    if (blocks_ == 1) return mine;
    if (threadIdx.x == 0) {
      if (block_ == 0) words_[(turn_ + 2) % kWords] = 0;
      __threadfence();
      int* const word = words_ + turn_ % kWords;
      atomicAdd(word, (mine.other << 2 * kBits) + (mine.any << kBits) + 1);
      int arrived = 0;
      while (((arrived = load_acquire(word)) & kMostBlocks) < blocks_) {
      }
      *left_ = arrived >> kBits;
    }
    ++turn_;
    __syncthreads();
    const int left = *left_;
    __syncthreads();  // all threads have read *left_ before the next barrier writes it
    return {(left & kMostBlocks) != 0, left >> kBits != 0};
  }
  __device__ bool barrier_reduce(bool any) { return barrier_reduce(GridVote{any, false}).any; }
  __device__ bool is_alone() const { return blocks_ == 1; }

 private:
  int* words_;
  int block_, blocks_;
  int* left_;
  int turn_ = 0;
};

// Control words of a problem, initially zero: the state of the barrier, sums and maxima over all
// blocks of the team, the queue, and times.
struct GridCutControl {
  int32_t barrier[GridBarrier::kWords];
  unsigned long long most[6];  // maxima, as bits of doubles >= 0, which sort like the doubles
  unsigned long long sums[4];  // sums of the lower and upper 32 bits: of excess, then of deficit
  // For benchmarks: cycles of the first thread's clock; numbers of push rounds, of global
  // relabellings, and of exchanges of distances.
  int32_t begin, push, relabel, end;
  int32_t rounds, relabellings, distance_rounds;
  // The queue: the problem that the team solves next, and, in the words of the first problem only,
  // how many problems teams have taken after their first ones.
  int32_t next, taken;

  __device__ void report(const GridCutControl& by) {
    begin = by.begin, push = by.push, relabel = by.relabel, end = by.end;
    rounds = by.rounds, relabellings = by.relabellings, distance_rounds = by.distance_rounds;
  }
};
static_assert(sizeof(GridCutControl) == 4 * kControlWords);

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_BARRIER_CUH_
