// All blocks of a cooperative launch meet and learn whether any of them has something left.
#ifndef JAXMATCH_CUDA_GRID_CUT_BARRIER_CUH_
#define JAXMATCH_CUDA_GRID_CUT_BARRIER_CUH_

namespace jaxmatch {

#ifndef JAXMATCH_EMULATED
__device__ inline int poll_arrivals(const int* at) {
  int x;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(x) : "l"(at) : "memory");
  return x;
}
#endif

// Arrivals in the lower half of a word, above them how many had something left. The words are used
// in turn; the one after the next is cleared while nobody can be there.
class GridBarrier {
 public:
  static constexpr int kWords = 4;

  // `words` are zero at launch, `left` is shared memory. A block that is alone needs no words.
  __device__ GridBarrier(int* words, int blocks, int* left)
      : words_(words), blocks_(blocks), left_(left) {}

  // What was written before, all blocks see after. `any` may differ by thread.
  __device__ bool meet(bool any) {
    any = __syncthreads_or(any);
    if (blocks_ == 1) return any;
    if (threadIdx.x == 0) {
      if (blockIdx.x == 0) words_[(turn_ + 2) % kWords] = 0;
      __threadfence();
      int* const word = words_ + turn_ % kWords;
      atomicAdd(word, any ? (1 << 16) + 1 : 1);
      int arrived = 0;
      while (((arrived = poll_arrivals(word)) & 0xffff) < blocks_) {
      }
      *left_ = arrived >> 16;
    }
    ++turn_;
    __syncthreads();
    any = *left_ != 0;
    __syncthreads();  // before the next meeting writes it
    return any;
  }
  __device__ bool is_alone() const { return blocks_ == 1; }

 private:
  int* words_;
  int blocks_;
  int* left_;
  int turn_ = 0;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GRID_CUT_BARRIER_CUH_
