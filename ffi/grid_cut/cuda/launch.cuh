// Launches the kernel for one combination of the types of capacities and values.
#ifndef JAXMATCH_GRID_CUT_CUDA_LAUNCH_CUH_
#define JAXMATCH_GRID_CUT_CUDA_LAUNCH_CUH_

#include <cooperative_groups.h>

#include <algorithm>
#include <cstdint>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "grid_cut/cuda/kernel.cuh"

namespace jaxmatch::grid_cut {

constexpr int kGridCutThreads = 1024;
extern __shared__ __align__(16) char grid_cut_shared[];

// All blocks solve the given problem. If `problem` is negative, each block solves one problem of
// the batch.
template <int kArcs, class G, class V>
__global__ void __launch_bounds__(kGridCutThreads, 1)
    grid_cut_kernel(const __grid_constant__ GridCutOperands o,
                    const __grid_constant__ GridCutPlan plan, int64_t problem) {
  const bool alone = problem < 0;
  if (!alone) {
    // The barrier words must start at zero. Clearing them by a separate kernel takes longer.
    if (blockIdx.x == 0 && threadIdx.x == 0) *plan.control = GridCutControl{};
    cooperative_groups::this_grid().sync();
  }
  cut_grid<kArcs, G, V>(o, plan, alone ? int64_t(blockIdx.x) : problem, alone ? 0 : int(blockIdx.x),
                        alone ? 1 : int(gridDim.x), grid_cut_shared);
}

template <class V>
__global__ void empty_grids_kernel(V* value, int32_t* status, int64_t batch) {
  for (int64_t b = threadIdx.x; b < batch; b += blockDim.x) {
    value[b] = 0;
    status[b] = kOptimal;
  }
}

template <int kArcs, class G, class V>
class Launch {
 public:
  Launch(cudaStream_t stream, const GridCutOperands& o, char* control, char* scratch,
         int64_t scratch_bytes)
      : stream_(stream),
        o_(o),
        control_(control),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes) {}

  ffi::Error run() {
    if (o_.batch == 0) return ffi::Error::Success();
    if (o_.shape.cells() == 0) {
      empty_grids_kernel<<<1, 256, 0, stream_>>>(static_cast<V*>(o_.value), o_.status, o_.batch);
      JAXMATCH_CUDA_CHECK(cudaGetLastError());
      return ffi::Error::Success();
    }
    JAXMATCH_CUDA_CHECK(gpu_.query());
    const int64_t room = gpu_.shared_bytes - int64_t(sizeof(GridCutShared));
    // A small grid runs on one block, a large one on the whole GPU.
    const GridTiling single = plan_grid_tiles(o_.shape, kArcs, 8, 1, room);
    if (single.tiles() == 1 && (o_.batch > 1 || o_.shape.cells() <= kCellsOfBlock)) {
      return small(single);
    }
    const int blocks = std::min(gpu_.multiprocessors, GridBarrier::kMostBlocks);
    for (int64_t b = 0; b < o_.batch; ++b) {
      const ffi::Error error = large(b, blocks, room);
      if (error.failure()) return error;
    }
    return ffi::Error::Success();
  }

 private:
  static const void* kernel() {
    return reinterpret_cast<const void*>(grid_cut_kernel<kArcs, G, V>);
  }

  ffi::Error small(const GridTiling& tiling) {
    GridCutTuning tuning;
    // A single block needs no exchanges to compute exact distances, so it computes them after every
    // push round.
    tuning.rounds = tuning.first_rounds = 1, tuning.sweeps = 16;
    GridCutPlan plan{tiling, tiling, {}, nullptr, nullptr, tuning};
    // With two cells per thread, more blocks fit on a multiprocessor at a time.
    const int cells_of_thread = o_.batch > 2 * gpu_.multiprocessors ? 2 : 1;
    const int threads = std::min(
        kGridCutThreads,
        std::max(64, (tiling.cells() + 32 * cells_of_thread - 1) / (32 * cells_of_thread) * 32));
    const int64_t shared = int64_t(sizeof(GridCutShared)) + tiling.bytes(8);
    JAXMATCH_CUDA_CHECK(allow_shared_memory(kernel(), gpu_.shared_bytes));
    grid_cut_kernel<kArcs, G, V>
        <<<unsigned(o_.batch), threads, size_t(shared), stream_>>>(o_, plan, -1);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
    return ffi::Error::Success();
  }

  ffi::Error large(int64_t problem, int most_blocks, int64_t room) {
    const GridCutLayout layout = GridCutLayout::of(o_.shape, kArcs, most_blocks, room);
    if (layout.bytes > scratch_bytes_) {
      return ffi::Error::InvalidArgument("jaxmatch_grid_cut: the scratch is too small");
    }
    char* const memory = scratch_ + problem * scratch_bytes_;
    GridCutTuning tuning;
    // If blocks have several tiles, computing distances costs as much as push rounds, so it is done
    // less often.
    if (layout.narrow.tiles() > layout.blocks) tuning.rounds = 8;
    GridCutPlan plan{layout.narrow,
                     layout.wide,
                     {memory + layout.messages, memory + layout.stored},
                     reinterpret_cast<GridCutControl*>(control_) + problem,
                     reinterpret_cast<double*>(memory),
                     tuning};
    const int64_t shared =
        int64_t(sizeof(GridCutShared)) + std::max(plan.narrow.bytes(4), plan.wide.bytes(8));
    GridCutOperands o = o_;
    void* arguments[] = {&o, &plan, &problem};
    JAXMATCH_CUDA_CHECK(launch_cooperative(stream_, kernel(), layout.blocks, kGridCutThreads,
                                           arguments, shared, gpu_.shared_bytes));
    return ffi::Error::Success();
  }

  cudaStream_t stream_;
  const GridCutOperands& o_;
  char* control_;
  char* scratch_;
  int64_t scratch_bytes_;
  GpuLimits gpu_;
};

template <class G, class V>
ffi::Error run_connected(cudaStream_t stream, const GridCutOperands& o, char* control,
                         char* scratch, int64_t bytes) {
  switch (o.connectivity) {
    case 4:
      return Launch<4, G, V>(stream, o, control, scratch, bytes).run();
    case 6:
      return Launch<6, G, V>(stream, o, control, scratch, bytes).run();
    default:
      return Launch<8, G, V>(stream, o, control, scratch, bytes).run();
  }
}

}  // namespace jaxmatch::grid_cut

#define JAXMATCH_INSTANCE(G, V)                                                               \
  namespace jaxmatch::grid_cut {                                                              \
  template ffi::Error run_connected<G, V>(cudaStream_t, const GridCutOperands&, char*, char*, \
                                          int64_t);                                           \
  }                                                                                           \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_GRID_CUT_CUDA_LAUNCH_CUH_
