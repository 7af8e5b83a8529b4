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

template <int kArcs, class G, class V>
__global__ void __launch_bounds__(kGridCutThreads, 1)
    grid_cut_kernel(const __grid_constant__ GridCutOperands o,
                    const __grid_constant__ GridCutPlan plan) {
  if (plan.control != nullptr) {
    // Clearing the control words by a separate kernel takes longer.
    for (int64_t b = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; b < o.batch;
         b += int64_t(gridDim.x) * blockDim.x) {
      plan.control[b] = GridCutControl{};
    }
    cooperative_groups::this_grid().sync();
  }
  cut_grids<kArcs, G, V>(o, plan, grid_cut_shared);
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
    const GridTiling fewest = plan_grid_tiles(o_.shape, kArcs, 8, 1, room);
    const int blocks = std::min(gpu_.multiprocessors, GridBarrier::kMostBlocks);
    const GridTeams teams = GridTeams::of(o_.batch, fewest.tiles(), blocks);
    const bool alone = teams.blocks == 1 || o_.shape.cells() <= kCellsOfBlock;
    return fewest.tiles() == 1 && alone ? one_block_each(fewest) : by_teams(teams, room);
  }

 private:
  static const void* kernel() {
    return reinterpret_cast<const void*>(grid_cut_kernel<kArcs, G, V>);
  }

  ffi::Error one_block_each(const GridTiling& tiling) {
    GridCutPlan plan{tiling, tiling, {}, o_.batch};
    // A single block needs no exchanges to compute exact distances, so it computes them after every
    // push round.
    plan.tuning.rounds = plan.tuning.first_rounds = 1, plan.tuning.sweeps = 16;
    // With two cells per thread, more blocks fit on a multiprocessor at a time.
    const int cells_of_thread = o_.batch > 2 * gpu_.multiprocessors ? 2 : 1;
    const int threads = std::min(
        kGridCutThreads,
        std::max(64, (tiling.cells() + 32 * cells_of_thread - 1) / (32 * cells_of_thread) * 32));
    const int64_t shared = int64_t(sizeof(GridCutShared)) + tiling.bytes(8);
    JAXMATCH_CUDA_CHECK(allow_shared_memory(kernel(), gpu_.shared_bytes));
    grid_cut_kernel<kArcs, G, V>
        <<<unsigned(o_.batch), threads, size_t(shared), stream_>>>(o_, plan);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
    return ffi::Error::Success();
  }

  ffi::Error by_teams(const GridTeams& teams, int64_t room) {
    const GridCutLayout layout = GridCutLayout::of(o_.shape, kArcs, teams.blocks, room);
    if (layout.bytes > scratch_bytes_) {
      return ffi::Error::InvalidArgument("jaxmatch_grid_cut: the scratch is too small");
    }
    GridCutPlan plan{layout.narrow, layout.wide,    {},
                     teams.count,   layout.blocks,  reinterpret_cast<GridCutControl*>(control_),
                     scratch_,      scratch_bytes_, layout.messages,
                     layout.stored};
    // If blocks have several tiles, computing distances costs as much as push rounds, so it is done
    // less often.
    if (layout.narrow.tiles() > layout.blocks) plan.tuning.rounds = 8;
    const int64_t shared =
        int64_t(sizeof(GridCutShared)) + std::max(plan.narrow.bytes(4), plan.wide.bytes(8));
    GridCutOperands o = o_;
    void* arguments[] = {&o, &plan};
    JAXMATCH_CUDA_CHECK(launch_cooperative(stream_, kernel(), int(teams.count) * layout.blocks,
                                           kGridCutThreads, arguments, shared, gpu_.shared_bytes));
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
