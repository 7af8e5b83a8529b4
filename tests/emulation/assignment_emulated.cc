// The CUDA kernels for assignments, run on the CPU: one C function for
// tests/test_assignment_emulated.py.
#include <algorithm>

#include "cuda_emulator.h"
// The emulator comes first.
#include "assignment_kernel.cuh"
#include "assignment_plan.h"

namespace jaxmatch {
char shared_memory[227 << 10] __attribute__((aligned(16)));

namespace {

using Kernel = void (*)(AssignmentBatch);

template <class Costs>
Kernel warp_kernel(int columns_per_lane) {
  switch (columns_per_lane) {
    case 1:
      return assignment_warp_kernel<Costs, 1>;
    case 2:
      return assignment_warp_kernel<Costs, 2>;
    default:
      return assignment_warp_kernel<Costs, 4>;
  }
}

template <class Costs>
Kernel block_kernel(int warps) {
  if (warps <= 8) return assignment_block_kernel<Costs, 2, 8>;
  if (warps <= 12) return assignment_block_kernel<Costs, 1, 12>;
  return assignment_block_kernel<Costs, 2, 16>;
}

// As WarpKernel() and BlockKernel() in ffi/cuda.
Kernel kernel_of(const Plan& plan, Dtype dtype) {
  const int warps = plan.threads / 32;
  switch (dtype) {
    case Dtype::kS32:
      return plan.alone ? warp_kernel<Integers>(plan.columns_per_lane)
                        : block_kernel<Integers>(warps);
    case Dtype::kF64:
      return plan.alone ? warp_kernel<Doubles>(plan.columns_per_lane)
                        : block_kernel<Doubles>(warps);
    case Dtype::kS64:
      return assignment_block_kernel<LongIntegers, 2, 16>;
    default:
      return plan.alone ? warp_kernel<Floats>(plan.columns_per_lane) : block_kernel<Floats>(warps);
  }
}

}  // namespace
}  // namespace jaxmatch

// Solves a batch. Returns the bytes of shared memory that the plan asks for; -1: too many.
extern "C" int64_t emulate_assignment(const jaxmatch::AssignmentOperands* operands, void* workspace,
                                      int64_t workspace_words, const char* kernel, unsigned seed) {
  using namespace jaxmatch;
  AssignmentBatch b{*operands, workspace, workspace_words, {}, {}};
  const Plan plan = make_plan(b, kernel, int(sizeof shared_memory));
  if (plan.bytes > int(sizeof shared_memory)) return -1;
  // Nothing is zero by luck; the second seed begins with NaN.
  std::memset(shared_memory, seed % 2 ? 0x5a : 0xff, sizeof shared_memory);
  const Kernel run = kernel_of(plan, b.cost_dtype);
  emulator::launch(unsigned(plan.blocks), plan.threads, seed, [&] { run(b); });
  return plan.bytes;
}

// What a launch would ask for on a GPU with `most_bytes` of shared memory.
extern "C" int64_t plan_assignment(const jaxmatch::AssignmentOperands* operands,
                                   int64_t workspace_words, int most_bytes) {
  using namespace jaxmatch;
  AssignmentBatch b{*operands, nullptr, workspace_words, {}, {}};
  return make_plan(b, nullptr, most_bytes).bytes;
}
