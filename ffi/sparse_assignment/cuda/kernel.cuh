// The kernel of sparse assignment, which solves each problem with a team of blocks.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNEL_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNEL_CUH_

#include "sparse_assignment/cuda/auction.cuh"
#include "sparse_assignment/cuda/finish.cuh"
#include "sparse_assignment/cuda/waves.cuh"
#include "sparse_assignment/operands.h"

namespace jaxmatch::sparse_assignment {

// True if all pointers and indices stay within the arrays. (Reader::write_costs() checks that both
// directions give each column the same number of edges.)
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

// The number of lanes that share the edges of a vertex, a power of two.
__device__ inline int width_for(int64_t edges, int64_t vertices) {
  int width = 4;
  while (width < kWarpSize && width * vertices < edges) width *= 2;
  return width;
}

// Frees all vertices, and sets the price of each column j to price(j).
template <class Team, class Price>
__device__ void free_all(const Team& team, const Workspace& w, const Canonical& c,
                         const Price& price) {
  team.each(c.rows, [&](int64_t i) { w.pair[i] = kFree; });
  team.one([&] { w.control->wrong = 0; });
  team.each(c.cols, [&](int64_t j) {
    w.owner[j] = kNone;
    w.best[j] = w.claim[j] = ~uint64_t(0);
    w.price[j] = price(j);
  });
  team.sync();
}

// Pairs rows by the given edges. Of rows that share a column, the last one gets it. Bids will free
// the rows whose edge is not tight.
template <class Team>
__device__ void pair_rows(const Team& team, const SparseProblem& p, const Workspace& w,
                          const Canonical& c) {
  team.each(c.rows, [&](int64_t i) {
    const int32_t k = p.start_edge[i];
    if (k < c.first[i] || k >= c.first[i + 1] || w.cost[k] == kNever) return;
    w.pair[i] = k;
    atomicMax(&w.owner[c.col[k]], int32_t(i));
  });
  team.sync();
  team.each(c.rows, [&](int64_t i) {
    if (w.pair[i] != kFree && w.owner[c.col[w.pair[i]]] != int32_t(i)) w.pair[i] = kFree;
  });
  team.sync();
}

// Starts with all vertices free. If all vertices must be matched and no dual is too large, sets the
// prices to the given start duals, and takes the given pairs. Returns whether there are such pairs.
template <class Team>
__device__ __noinline__ bool start_state(const Team& team, const SparseProblem& p,
                                         const Workspace& w, const Canonical& c) {
  constexpr double kMost = 0x1p59;
  bool usable = p.start_dual != nullptr && c.all_matched;
  const auto units = [&](int64_t j) {
    return real_at(p.start_dual, p.result_dtype, j) * c.units.scale;
  };
  if (usable) {
    bool wrong = false;
    team.each(c.cols, [&](int64_t j) { wrong |= !(fabs(units(j)) < kMost); });
    usable = !team.any(wrong);
  }
  free_all(team, w, c, [&](int64_t j) { return usable ? int64_t(rint(units(j))) : 0; });
  const bool pairs = usable && p.start_edge != nullptr && !c.transposed;
  if (pairs) pair_rows(team, p, w, c);
  return pairs;
}

// If columns may stay unmatched, the prices of free columns must be 0. Exact bids match most rows.
// Path searches then match rows that need only small search trees; such a search is cheap. Price
// updates match many of the remaining rows at once; an update is expensive. If all rows and columns
// must be matched, an auction comes first instead of searches, and its prices leave little to do.
// If the problem starts with pairs, their prices are nearly optimal, and there is no auction
// either. Costs near the largest that fit may take the prices of an auction, or given ones, out of
// range. Then all begins again without them.
template <class Team>
__device__ Status match_rows(Team team, const Canonical& c, const Workspace& w, int width,
                             bool has_pairs, char* tables, int32_t slots, int64_t& bids_made,
                             int64_t& rounds) {
  constexpr int32_t kRounds = 256, kMoreRounds = 1024, kRoundsAfterAuction = 64;
  Bids<Team> bids{team, c, w, width};
  Waves<Team> waves{team, c, w, width, tables, slots};
  Status status = kOptimal;
  for (bool by_auction = c.all_matched && !has_pairs;; by_auction = has_pairs = false) {
    Updates updates;
    if (by_auction) status = Auction<Team>{team, c, w, width, bids, updates}.run();
    if (status == kOptimal) {
      bids.reduce(by_auction || has_pairs ? kRoundsAfterAuction : kRounds);
      if (!by_auction && !has_pairs) {
        int32_t count = list_free(team, c, w);
        if (count > 0) waves.play(count, false);
        count = list_free(team, c, w);
        if (count > waves.kFewSearches) {
          bids.reduce(kMoreRounds);
        } else if (count > 0 && !w.control->wrong) {
          waves.play(count, true);
        }
      }
      status = w.control->wrong ? kInfeasible : match_by_updates(team, c, w, width, updates);
    }
    rounds += updates.count;
    if (status != kOverflow || !(by_auction || has_pairs)) break;
    free_all(team, w, c, [](int64_t) { return 0; });
    status = kOptimal;
  }
  bids_made = bids.bids;
  rounds += bids.turn + waves.steps;
  return status;
}

template <class Team>
__device__ void solve_sparse(Team team, const SparseProblem& p, const Workspace& w, char* tables,
                             int32_t slots) {
  team.one([&] { p.counts[kBids] = p.counts[kRounds] = 0; });
  if (!is_walkable(team, p)) return write_failure(team, p, kInvalidGraph);
  const int width = width_for(p.row_ptr[p.n], p.n < p.m ? p.n : p.m);
  Canonical c;
  Status status = Reader<Team>{team, p, w, width, c}.read();
  if (status != kOptimal) return write_failure(team, p, status);
  const bool has_pairs = start_state(team, p, w, c);
  int64_t bids = 0, rounds = 0;
  status = match_rows(team, c, w, width, has_pairs, tables, slots, bids, rounds);
  team.one([&] {
    p.counts[kBids] = int32_t(min(bids, int64_t(INT32_MAX)));
    p.counts[kRounds] = int32_t(min(rounds, int64_t(INT32_MAX)));
  });
  if (status != kOptimal) return write_failure(team, p, status);
  Finish<Team>{team, c, p, w}.run();
}

template <int kThreads>
__global__ void __launch_bounds__(kThreads, kManyThreads / kThreads)
    sparse_kernel(const __grid_constant__ SparseBatch batch) {
  using Memory = Shared<kThreads>;
  Memory& shared = *reinterpret_cast<Memory*>(shared_memory);
  const int64_t k = blockIdx.x / unsigned(batch.blocks);
  if (threadIdx.x == 0) {
    const SparseProblem& first = batch.first;
    shared.barriers = 0;
    shared.problem = problem_at(first, k);
    shared.workspace =
        Workspace(batch.workspace + k * batch.workspace_bytes, first.n, first.m, first.capacity);
    if (batch.state_in_shared) {
      shared.workspace.move_state(shared.tables() + Memory::bytes_of_tables(batch.slots));
    }
  }
  __barrier_sync_count(0, kThreads);
  const team::TeamOf<Memory, kThreads> team(shared, batch.blocks,
                                            int(blockIdx.x % unsigned(batch.blocks)));
  solve_sparse(team, shared.problem, shared.workspace, shared.tables(), batch.slots);
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
