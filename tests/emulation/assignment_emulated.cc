// The CUDA kernels for assignments, run on the CPU: one C function for
// tests/emulation/test_assignment_emulated.py.
#include <algorithm>

#include "cuda_emulator.h"

inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  return *at += x, *at - x;
}

// The emulator comes first.
#include "assignment/cuda/auction.cuh"
#undef JAXMATCH_INSTANCE
#include "assignment/cuda/block.cuh"
#undef JAXMATCH_INSTANCE
#include "assignment/cuda/pick.h"
#include "assignment/cuda/plan.h"
#include "assignment/cuda/warp.cuh"

namespace jaxmatch {
char shared_memory[227 << 10] __attribute__((aligned(16)));
}  // namespace jaxmatch

// Solves a batch. Returns the plan's bytes of shared memory, or -1 if they exceed the limit.
extern "C" int64_t emulate_assignment(const jaxmatch::assignment::AssignmentOperands* operands,
                                      void* workspace, int64_t workspace_costs, const char* kernel,
                                      unsigned seed) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  AssignmentBatch b{*operands, workspace, workspace_costs, {}, {}, false, nullptr, false};
  const Plan plan = make_plan(b, kernel, int(sizeof shared_memory));
  std::vector<uint64_t> words;  // as the range is aligned
  if (!plan.one_warp && has_auction(b, kernel) && workspace_costs >= copied_costs(b)) {
    words.resize(size_t(b.batch * auction_words(b) / 2));
    b.auction = reinterpret_cast<uint32_t*>(words.data());
    AuctionBatch auction = make_auction(b, 1);
    auction.always = asks_for(kernel, "auction");
    std::memset(shared_memory, seed % 2 ? 0x5a : 0xff, sizeof shared_memory);
    const AuctionKernel play = auction_kernel(b.cost_dtype);
    emulator::launch(unsigned(b.batch), kAuctionThreads, seed, [&] { play(auction); });
    b.gathered = true;
  }
  if (plan.bytes > int(sizeof shared_memory)) return -1;
  // Fills the memory, so that nothing is zero by chance; with even seeds it holds NaN.
  std::memset(shared_memory, seed % 2 ? 0x5a : 0xff, sizeof shared_memory);
  const AssignmentKernel run = plan.one_warp ? warp_kernel(plan.columns_per_lane, b.cost_dtype)
                                             : block_kernel(plan.threads / 32, b.cost_dtype);
  emulator::launch(unsigned(plan.blocks), plan.threads, seed, [&] { run(b); });
  return plan.bytes;
}

// Bytes of shared memory of a launch on a GPU that has `most_bytes` of it.
extern "C" int64_t plan_assignment(const jaxmatch::assignment::AssignmentOperands* operands,
                                   int64_t workspace_costs, int most_bytes) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  AssignmentBatch b{*operands, nullptr, workspace_costs, {}, {}, false, nullptr, false};
  return make_plan(b, nullptr, most_bytes).bytes;
}

// Holds the auction of each problem alone. `counts`: rounds, and rows that were scanned.
extern "C" void emulate_auction(const jaxmatch::assignment::AssignmentOperands* operands,
                                void* workspace, int64_t workspace_costs, uint32_t* words,
                                int32_t* counts, unsigned seed, bool always) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  AuctionBatch b =
      make_auction({*operands, workspace, workspace_costs, {}, {}, false, words, false}, 1);
  b.counts = counts;
  b.always = always;
  std::memset(shared_memory, seed % 2 ? 0x5a : 0xff, sizeof shared_memory);
  const AuctionKernel play = auction_kernel(b.cost_dtype);
  emulator::launch(unsigned(b.batch), kAuctionThreads, seed, [&] { play(b); });
}
