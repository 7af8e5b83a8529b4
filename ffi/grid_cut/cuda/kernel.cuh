// The kernel: solves one grid, from its capacities to its result.
#ifndef JAXMATCH_GRID_CUT_CUDA_KERNEL_CUH_
#define JAXMATCH_GRID_CUT_CUDA_KERNEL_CUH_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "common/status.h"
#include "grid_cut/cuda/convert.cuh"
#include "grid_cut/cuda/region_push_relabel.cuh"

namespace jaxmatch::grid_cut {

// Tilings for 32-bit numbers (narrow) and for 64-bit numbers (wide), and pointers to device memory.
// A single block needs no device memory.
struct GridCutPlan {
  GridTiling narrow, wide;
  GridCutScratch scratch;
  GridCutControl* control;
  double* partial;  // [blocks], double or int64: each block's part of a sum
  GridCutTuning tuning;
};

// The beginning of shared memory; the tile follows.
struct alignas(16) GridCutShared {
  GridCutControl control;
  long long sums[33];
  int left;
};

template <int kArcs, class G, class V>
class GridCutKernel {
 public:
  // Members must not hold each other's addresses: an object whose address is taken stays in memory
  // instead of registers.
  __device__ GridCutKernel(const GridCutOperands& o, const GridCutPlan& plan, int64_t problem,
                           const GridCapacities<G>& g, GridBarrier& barrier,
                           GridNumbers<kArcs, G>& numbers, int block, int blocks, char* memory)
      : plan_(plan),
        g_(g),
        value_(static_cast<V*>(o.value) + problem),
        side_(o.side + problem * g.shape.cells()),
        status_(o.status + problem),
        shared_(*reinterpret_cast<GridCutShared*>(memory)),
        tile_memory_(memory + sizeof(GridCutShared)),
        block_(block),
        blocks_(blocks),
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
         i += int64_t(blocks_) * blockDim.x) {
      side_[i] = false;
    }
    if (block_ != 0 || threadIdx.x != 0) return;
    *status_ = why;
    *value_ = std::is_floating_point_v<V> ? V(NAN) : V(-1);
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
    GridCutSolve<kArcs, T> solver(tiling, g_.shape, barrier_, plan_.scratch, plan_.tuning,
                                  &shared_.control, block_, blocks_, tile_memory_);
    if (!solver.run([&](const auto& t, const auto& global) { return numbers_.fill(t, global); })) {
      return false;
    }
    const int64_t start = clock64();
    // The capacity of the cut, from the given capacities. Every thread adds in a fixed order.
    Sum mine = 0;
    double about = 0;   // for 64-bit integers: rounded sum; `mine` may wrap around
    double direct = 0;  // for 64-bit integers: sum of the flows source -> cell -> sink
    bool endless = false;
    const auto add = [&](G capacity) {
      mine = wrapping_sum(mine, Sum(capacity));
      if constexpr (std::is_same_v<G, int64_t>) about += double(capacity);
      if constexpr (std::is_floating_point_v<G>) endless |= capacity == G(INFINITY);
    };
    solver.each_result([&](int64_t cell, GridPlace place, int a) {
      const auto& tile = solver.tile();
      const bool here = tile.height(a) < kGridFar;
      side_[cell] = here;
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
      plan_.control->report(shared_.control);
    }
    if (wraps || (!endless && !fits(value))) {
      fail(kOverflow);  // total() has a barrier, so all sides have been written
    } else if (block_ == 0 && threadIdx.x == 0) {
      *value_ = V(value);
      *status_ = kOptimal;
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
  // The sum over all threads of all blocks, in a fixed order. `endless` becomes true for all
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
      for (int b = threadIdx.x; b < blocks_; b += 32) {
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
    return reinterpret_cast<S*>(plan_.partial);
  }
  __device__ static double wrapping_sum(double a, double b) { return a + b; }
  __device__ static int64_t wrapping_sum(int64_t a, int64_t b) {
    return int64_t(uint64_t(a) + uint64_t(b));
  }

  const GridCutPlan& plan_;
  const GridCapacities<G>& g_;
  V* const value_;
  bool* const side_;
  int32_t* const status_;
  GridCutShared& shared_;
  char* const tile_memory_;
  const int block_, blocks_;
  GridBarrier& barrier_;
  GridNumbers<kArcs, G>& numbers_;
};

template <int kArcs, class G, class V>
__device__ inline void cut_grid(const GridCutOperands& o, const GridCutPlan& plan, int64_t problem,
                                int block, int blocks, char* memory) {
  GridCutShared& shared = *reinterpret_cast<GridCutShared*>(memory);
  const GridCapacities<G> g = grid_of<G>(o, problem);
  GridBarrier barrier(plan.control ? plan.control->barrier : nullptr, blocks, &shared.left);
  GridNumbers<kArcs, G> numbers(g, barrier, plan.control, &shared.control, block, blocks);
  GridCutKernel<kArcs, G, V>(o, plan, problem, g, barrier, numbers, block, blocks, memory).run();
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_KERNEL_CUH_
