// The kernel: solves the grids of a batch, from their capacities to their results.
#ifndef JAXMATCH_GRID_CUT_CUDA_KERNEL_CUH_
#define JAXMATCH_GRID_CUT_CUDA_KERNEL_CUH_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "common/status.h"
#include "grid_cut/cuda/convert.cuh"
#include "grid_cut/cuda/region_push_relabel.cuh"

namespace jaxmatch::grid_cut {

// How a launch solves a batch: each team of `blocks` consecutive blocks solves one problem at a
// time. Teams do not wait for each other.
struct GridCutPlan {
  GridTiling narrow, wide;  // for 32-bit numbers, and for 64-bit numbers
  GridCutTuning tuning;
  int64_t teams;
  int blocks = 1;
  // Device memory. If `control` is null there is none: each team is one block with one problem.
  GridCutControl* control = nullptr;  // [batch]
  char* scratch = nullptr;
  // Offsets in bytes: from the scratch of a problem to the scratch of the next problem, and within
  // it. The parts of sums come first: one double or int64 of each block.
  int64_t stride = 0, messages = 0, stored = 0;

  __device__ GridCutControl* control_of(int64_t problem) const {
    return control == nullptr ? nullptr : control + problem;
  }
  __device__ char* scratch_of(int64_t problem) const { return scratch + problem * stride; }
};

// The beginning of shared memory; the tile follows.
struct alignas(16) GridCutShared {
  GridCutControl control;
  long long sums[33];
  int64_t problem;  // of this team
  int left;
};

template <int kArcs, class G, class V>
class GridCutKernel {
 public:
  // Members must not hold each other's addresses: an object whose address is taken stays in memory
  // instead of registers.
  __device__ GridCutKernel(const GridCutOperands& o, const GridCutPlan& plan,
                           const GridCapacities<G>& g, GridBarrier& barrier,
                           GridNumbers<kArcs, G>& numbers, int block, char* memory)
      : o_(o),
        plan_(plan),
        g_(g),
        shared_(*reinterpret_cast<GridCutShared*>(memory)),
        tile_memory_(memory + sizeof(GridCutShared)),
        block_(block),
        barrier_(barrier),
        numbers_(numbers) {}

  __device__ void run() {
    using Kind = typename GridNumbers<kArcs, G>::Kind;
    if (threadIdx.x == 0) shared_.control = GridCutControl{};
    __syncthreads();
    // Integers are usually small, so 32-bit numbers are tried first, without a survey of the
    // capacities. solve() returns false if capacities do not fit.
    for (Kind kind = GridNumbers<kArcs, G>::kReal ? survey() : Kind::kNarrow;; kind = survey()) {
      if (kind == Kind::kInvalid) return fail(kInvalidCapacity);
      if (kind == Kind::kOverflow) return fail(kOverflow);
      if (kind == Kind::kNarrow ? solve<int32_t>(plan_.narrow) : solve<int64_t>(plan_.wide)) return;
    }
  }

 private:
  using Sum = std::conditional_t<std::is_floating_point_v<G>, double, int64_t>;

  __device__ void fail(Status why) {
    const int64_t cells = g_.shape.cells();
    for (int64_t i = int64_t(block_) * blockDim.x + threadIdx.x; i < cells;
         i += int64_t(plan_.blocks) * blockDim.x) {
      side()[i] = false;
    }
    if (block_ == 0 && threadIdx.x == 0) {
      finish(why, std::is_floating_point_v<V> ? V(NAN) : V(-1));
    }
  }
  // Pointers into device memory are computed where they are needed, to save registers.
  __device__ int64_t problem() const { return shared_.problem; }
  __device__ bool* side() const { return o_.side + problem() * g_.shape.cells(); }
  __device__ void finish(Status status, V value) const {
    o_.status[problem()] = status;
    static_cast<V*>(o_.value)[problem()] = value;
  }

  __device__ auto survey() {
    const int64_t start = clock64();
    const auto kind = numbers_.survey();
    if (threadIdx.x == 0) shared_.control.begin = int32_t(clock64() - start);
    return kind;
  }

  // Returns false if the numbers do not fit T, or if their units are too coarse for the cut found.
  template <class T>
  __device__ bool solve(const GridTiling& tiling) {
    char* const memory = plan_.scratch_of(problem());
    const GridCutScratch scratch{memory + plan_.messages, memory + plan_.stored};
    GridCutSolve<kArcs, T> solver(tiling, g_.shape, barrier_, scratch, plan_.tuning,
                                  &shared_.control, block_, plan_.blocks, tile_memory_);
    if (!solver.run([&](const auto& t, const auto& global) { return numbers_.fill(t, global); })) {
      return false;
    }
    const int64_t start = clock64();
    // The capacity of the cut, from the given capacities. Every thread adds in a fixed order.
    Sum mine = 0;
    double about = 0;   // for 64-bit integers: rounded sum; `mine` may wrap around
    double direct = 0;  // for 64-bit integers: sum of the flows source -> cell -> sink
    bool endless = false;
    bool* const side = this->side();
    const auto add = [&](G capacity) {
      mine = wrapping_sum(mine, Sum(capacity));
      if constexpr (std::is_same_v<G, int64_t>) about += double(capacity);
      if constexpr (std::is_floating_point_v<G>) endless |= capacity == G(INFINITY);
    };
    solver.each_result([&](int64_t cell, GridPlace place, int a) {
      const auto& tile = solver.tile();
      const bool here = tile.height(a) < kGridFar;
      side[cell] = here;
      add(here ? g_.sink[cell] : g_.source[cell]);
      if constexpr (std::is_same_v<G, int64_t>) {
        direct += double(min(g_.source[cell], g_.sink[cell]));
      }
      if (!here) return;
      numbers_.each_neighbour(place, cell, [&](int k, int64_t other) {
        if (tile.height(a + tile.offset[k]) >= kGridFar) {
          add(g_.template arc<kArcs>(cell, other, k));
        }
      });
    });
    const Sum value = total(mine, &endless);
    if constexpr (std::is_floating_point_v<G>) {
      if (!endless && !numbers_.is_fine(value)) return false;
    }
    bool wraps = false;
    if constexpr (std::is_same_v<G, int64_t>) {
      bool nothing = false;
      const double size = total(about, &nothing);
      // An upper bound on the flow through arcs between cells, even though both sums are rounded.
      const double beside = size - total(direct, &nothing) + size * 0x1p-40 + 1;
      if (!numbers_.is_fine(beside)) return false;
      wraps = size >= 0x1p62 && (value < 0 || size >= 0x1.8p63);
    }
    if (block_ == 0 && threadIdx.x == 0 && plan_.control != nullptr) {
      shared_.control.end = int32_t(clock64() - start);
      shared_.control.relabellings = solver.relabellings();
      plan_.control[problem()].report(shared_.control);
    }
    if (wraps || (!endless && !fits(value))) {
      fail(kOverflow);  // total() has a barrier, so all sides have been written
    } else if (block_ == 0 && threadIdx.x == 0) {
      finish(kOptimal, V(value));
    }
    return true;
  }

  __device__ static bool fits(Sum value) {
    if constexpr (std::is_floating_point_v<V>) {
      return V(value) < V(INFINITY);
    } else {
      return !std::is_same_v<V, int32_t> || value <= Sum(INT32_MAX);
    }
  }
  // The sum over all threads of the team, in a fixed order. `endless` becomes true for all
  // threads if it was true for any of them.
  template <class S>
  __device__ S total(S mine, bool* endless) {
    S* const sums = reinterpret_cast<S*>(shared_.sums);
    mine = over_warp_sum(mine);
    __syncthreads();
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
    __syncthreads();
    const int warps = int(blockDim.x / 32);
    if (threadIdx.x == 0) {
      S sum = 0;
      for (int w = 0; w < warps; ++w) sum = wrapping_sum(sum, sums[w]);
      sums[32] = sum;
      if (!barrier_.is_alone()) __stcg(parts<S>() + block_, sum);
    }
    *endless = barrier_.barrier_reduce(*endless);
    if (barrier_.is_alone()) return sums[32];
    S sum = 0;
    if (threadIdx.x < 32) {
      for (int b = threadIdx.x; b < plan_.blocks; b += 32) {
        sum = wrapping_sum(sum, __ldcg(parts<S>() + b));
      }
      sum = over_warp_sum(sum);
      if (threadIdx.x == 0) sums[32] = sum;
    }
    barrier_.barrier_reduce(false);  // all have read the parts before the next total() writes them
    return sums[32];
  }
  template <class S>
  __device__ S* parts() const {
    return reinterpret_cast<S*>(plan_.scratch_of(problem()));
  }
  __device__ static double wrapping_sum(double a, double b) { return a + b; }
  __device__ static int64_t wrapping_sum(int64_t a, int64_t b) {
    return int64_t(uint64_t(a) + uint64_t(b));
  }

  const GridCutOperands& o_;
  const GridCutPlan& plan_;
  const GridCapacities<G>& g_;
  GridCutShared& shared_;
  char* const tile_memory_;
  const int block_;
  GridBarrier& barrier_;
  GridNumbers<kArcs, G>& numbers_;
};

// Solves the problems of this block's team. If there is device memory, all control words must be
// zero.
template <int kArcs, class G, class V>
__device__ inline void cut_grids(const GridCutOperands& o, const GridCutPlan& plan, char* memory) {
  GridCutShared& shared = *reinterpret_cast<GridCutShared*>(memory);
  const int block = int(blockIdx.x) % plan.blocks;
  if (threadIdx.x == 0) shared.problem = int(blockIdx.x) / plan.blocks;
  __syncthreads();
  while (shared.problem < o.batch) {
    GridCutControl* const control = plan.control_of(shared.problem);
    const GridCapacities<G> g = grid_of<G>(o, shared.problem);
    GridBarrier barrier(control ? control->barrier : nullptr, block, plan.blocks, &shared.left);
    GridNumbers<kArcs, G> numbers(g, barrier, control, &shared.control, block, plan.blocks);
    GridCutKernel<kArcs, G, V>(o, plan, g, barrier, numbers, block, memory).run();
    if (o.batch <= plan.teams) return;
    // Problems differ in difficulty, so the team takes its next problem only now.
    GridCutControl& mine = plan.control[shared.problem];
    if (block == 0 && threadIdx.x == 0) {
      __stcg(&mine.next, int32_t(plan.teams) + atomicAdd(&plan.control->taken, 1));
    }
    barrier.barrier_reduce(false);
    if (threadIdx.x == 0) shared.problem = __ldcg(&mine.next);
    __syncthreads();
  }
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_KERNEL_CUH_
