// Sparse assignment on CUDA, a team of blocks for each problem: an auction with epsilon scaling, on
// rows and columns alone or on the doubled graph (costs.cuh).
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNEL_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNEL_CUH_

#include "sparse_assignment/cuda/auction.cuh"
#include "sparse_assignment/cuda/finish.cuh"

namespace jaxmatch::sparse_assignment {

// True if all pointers and indices stay within the arrays. That the two directions name the same
// edges is not checked: a copy of an edge that is missing makes a result worse, never wrong.
template <class Team>
__device__ __noinline__ bool is_walkable(const Team& team, const SparseProblem& p) {
  const auto are_pointers = [&](const int32_t* ptr, int64_t count) {
    bool wrong = ptr[0] != 0 || ptr[count] > p.capacity;
    team.each(count, [&](int64_t k) { wrong |= ptr[k] > ptr[k + 1]; });
    return !team.any(wrong);
  };
  const bool rows = are_pointers(p.row_ptr, p.n), cols = are_pointers(p.col_ptr, p.m);
  if (!rows || !cols || p.row_ptr[p.n] != p.col_ptr[p.m]) return false;
  bool wrong = false;
  team.each(p.row_ptr[p.n], [&](int64_t k) {
    wrong |= uint32_t(p.col_ind[k]) >= uint32_t(p.m) || uint32_t(p.row_ind[k]) >= uint32_t(p.n);
  });
  return !team.any(wrong);
}

// Lanes for each vertex, a power of two.
__device__ inline int width_for(int64_t edges, int64_t vertices) {
  int width = 4;
  while (width < kWarpSize && width * vertices < edges) width *= 2;
  return width;
}

// Sets the prices from duals, if they are given and finite. Returns whether they are.
template <class Team>
__device__ __noinline__ bool start_prices(const Team& team, const SparseProblem& p,
                                          const Workspace& w, const Scaling& c) {
  bool usable = p.start_dual != nullptr;
  const auto units = [&](int64_t j) {
    const double dual = real_at(p.start_dual, p.result_dtype, j);
    return ldexp(p.maximize ? -dual : dual, -c.exponent);
  };
  team.each(c.vertices, [&](int64_t y) {
    w.price[y] = 0;
    if (p.start_dual && y < p.m && (!p.col_mask || p.col_mask[y])) {
      usable &= fabs(units(y)) < ldexp(1.0, min(c.bits + 12, 62));
    }
  });
  usable = !team.any(!usable);
  if (usable) {
    team.each(p.m, [&](int64_t j) {
      if (!p.col_mask || p.col_mask[j]) w.price[j] = Price(int64_t(units(j))) << c.shift;
    });
  }
  return usable;
}

template <class Team>
__device__ void solve_sparse(Team team, const SparseProblem& p, const Workspace& w) {
  // Epsilon begins at so many powers of two below the mean excess of costs; later after a warm
  // start.
  constexpr int kFirstBits = 4, kFirstWarmBits = 10;
  team.one([&] { p.counts[kBids] = p.counts[kRounds] = 0; });
  if (!is_walkable(team, p)) return write_failure(team, p, kInvalidGraph);
  const int width = width_for(p.row_ptr[p.n], p.n > p.m ? p.n : p.m);
  const CostReader<Team> reader{team, p, w};
  const CostSummary found = reader.summarize(width);
  if (found.invalid) return write_failure(team, p, kInvalidCost);
  int64_t rows = 0, cols = 0;
  team.each(p.n, [&](int64_t i) { rows += reader.has_row(i); });
  team.each(p.m, [&](int64_t j) { cols += reader.has_col(j); });
  rows = team.sum(rows);
  cols = team.sum(cols);
  const bool stays = p.unmatched_cost || p.unmatched_col_cost;
  const int64_t terms = stays ? rows + cols : min(rows, cols);
  int64_t bids = 0;
  int32_t turn = 0;
  for (bool doubled : {false, true}) {
    if (!doubled && (stays || rows != cols || p.n != p.m)) continue;
    Scaling c;
    if (!reader.choose(c, found, doubled)) return write_failure(team, p, kOverflow);
    team.sync();
    bool rounded = reader.write_units(c, width);
    if (doubled) rounded |= reader.write_stays(c, rows, cols);
    const double least = doubled ? found.least : found.least_edge,
                 most = doubled ? found.most : found.most_edge;
    const double range = ldexp(most - least, -c.exponent);
    const bool warm = start_prices(team, p, w, c);
    Auction<Team> auction{team, Graph{p, w, c}, w, width, turn, bids};
    const int bits = range > 0 && range < __builtin_huge_val() ? ilogb(range) + 1 : 0;
    const int mean = reader.mean_excess(c, width, bits);
    const bool done = auction.hold(mean - (warm ? kFirstWarmBits : kFirstBits), bits);
    turn = auction.turn;
    bids = auction.bids;
    team.one([&] {
      p.counts[kBids] = int32_t(min(bids, int64_t(INT32_MAX)));
      p.counts[kRounds] = turn;
    });
    if (done) return Finish<Team>{team, auction.g, p, w, width}.run(rounded, terms);
  }
  write_failure(team, p, kUnfinished);
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads, kManyThreads / kThreads)
    sparse_kernel(const __grid_constant__ SparseBatch batch) {
  using Memory = Shared<kThreads>;
  Memory& shared = *reinterpret_cast<Memory*>(assignment::shared_memory);
  const int64_t k = blockIdx.x / unsigned(batch.blocks);
  if (threadIdx.x == 0) {
    const SparseProblem& first = batch.first;
    shared.barriers = 0;
    shared.problem = problem_of(first, k);
    shared.workspace =
        Workspace(batch.workspace + k * batch.workspace_bytes, first.n, first.m, first.capacity);
    if (batch.state_in_shared) shared.workspace.move_state(shared.state(), first.capacity);
  }
  __barrier_sync_count(0, kThreads);
  const team::TeamOf<Memory, kThreads> team(shared, batch.blocks,
                                            int(blockIdx.x % unsigned(batch.blocks)));
  solve_sparse(team, shared.problem, shared.workspace);
}

template <int kThreads>
SparseKernel pick_sparse_kernel() {
  return sparse_kernel<kThreads>;
}

}  // namespace jaxmatch::sparse_assignment

#define JAXMATCH_INSTANCE(kThreads)                     \
  namespace jaxmatch::sparse_assignment {               \
  template SparseKernel pick_sparse_kernel<kThreads>(); \
  }                                                     \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNEL_CUH_
