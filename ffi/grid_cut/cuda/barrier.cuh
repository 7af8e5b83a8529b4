// All blocks of a cooperative launch meet and learn whether any of them has something left.
#ifndef JAXMATCH_GRID_CUT_CUDA_BARRIER_CUH_
#define JAXMATCH_GRID_CUT_CUDA_BARRIER_CUH_

#include <cstdint>

#include "grid_cut/cuda/sizes.h"

namespace jaxmatch::grid_cut {

#ifndef JAXMATCH_EMULATED
__device__ inline int poll_arrivals(const int* at) {
  int x;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}
#endif

// What blocks tell each other when they meet.
struct GridVote {
  bool any, other;
};

// Arrivals in the lower bits of a word, above them how many answered yes to each of two questions.
// The words are used in turn; the one after the next is cleared while nobody can be there.
class GridBarrier {
 public:
  static constexpr int kWords = 4;
  static constexpr int kBits = 10, kMostBlocks = (1 << kBits) - 1;

  // `words` are zero at launch, `left` is shared memory. A block that is alone needs no words.
  __device__ GridBarrier(int* words, int blocks, int* left)
      : words_(words), blocks_(blocks), left_(left) {}

  // What was written before, all blocks see after. Answers may differ by thread.
  __device__ GridVote barrier_reduce(GridVote mine) {
    mine = {__syncthreads_or(mine.any) != 0, __syncthreads_or(mine.other) != 0};
    if (blocks_ == 1) return mine;
    if (threadIdx.x == 0) {
      if (blockIdx.x == 0) words_[(turn_ + 2) % kWords] = 0;
      __threadfence();
      int* const word = words_ + turn_ % kWords;
      atomicAdd(word, (mine.other << 2 * kBits) + (mine.any << kBits) + 1);
      int arrived = 0;
      while (((arrived = poll_arrivals(word)) & kMostBlocks) < blocks_) {
      }
      *left_ = arrived >> kBits;
    }
    ++turn_;
    __syncthreads();
    const int left = *left_;
    __syncthreads();  // before the next meeting writes it
    return {(left & kMostBlocks) != 0, left >> kBits != 0};
  }
  __device__ bool barrier_reduce(bool any) { return barrier_reduce(GridVote{any, false}).any; }
  __device__ bool is_alone() const { return blocks_ == 1; }

 private:
  int* words_;
  int blocks_;
  int* left_;
  int turn_ = 0;
};

// What all blocks find out together; zero at first.
struct GridCutControl {
  int32_t barrier[GridBarrier::kWords];
  unsigned long long most[6];  // doubles that are not negative, whose bits are ordered like them
  unsigned long long sums[4];  // of source and sink: of the lower and the upper 32 bits
  // Where the time goes, for measurements: cycles of the first thread's clock, and how many rounds
  // of pushes there were, relabellings, and meetings while their distances settled.
  int32_t begin, push, relabel, end;
  int32_t rounds, relabellings, distance_rounds, unused;

  __device__ void report(const GridCutControl& by) {
    begin = by.begin, push = by.push, relabel = by.relabel, end = by.end;
    rounds = by.rounds, relabellings = by.relabellings, distance_rounds = by.distance_rounds;
  }
};
static_assert(sizeof(GridCutControl) == 4 * kControlWords);

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_BARRIER_CUH_
