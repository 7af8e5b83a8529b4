// The k best assignments on CUDA, with one block for each problem. A node of the tree of
// subproblems has one child for each row that is not forced (k_best/cpu/tree.h). The children are
// divided among the warps, each of which searches for the best assignments of its children. All
// warps share the rest of the work.
#ifndef JAXMATCH_CUDA_K_BEST_KERNEL_CUH_
#define JAXMATCH_CUDA_K_BEST_KERNEL_CUH_

#include "k_best/cuda/costs.cuh"
#include "k_best/cuda/finish.cuh"
#include "k_best/cuda/levels.cuh"
#include "k_best/cuda/partition.cuh"
#include "k_best/cuda/search.cuh"
#include "k_best/operands.h"

namespace jaxmatch::k_best {

// The children that a warp handles: those whose place in their node's order of rows, modulo kWarps,
// is the warp's number.
struct Children {
  Block block;
  Shared& s;
  int64_t* next_key;  // [k] for each node, the least key among this warp's children
  int32_t* next_at;   // [k] place of the child with this key

  __device__ explicit Children(Block block)
      : block(block),
        s(block.s),
        next_key(block.s.workspace.next_key + int64_t(block.warp()) * block.s.most),
        next_at(block.s.workspace.next_at + int64_t(block.warp()) * block.s.most) {}

  // Recomputes the least key of this warp's children of node x.
  __device__ void renew(int32_t x) const {
    const int64_t* const key = s.keys_of(x);
    Least least{kNoKey, INT32_MAX};
    const int32_t own = (s.rows - block.warp() + kWarps - 1) / kWarps;
    block.each_lane(own, [&](int64_t k) {
      const int32_t t = int32_t(k) * kWarps + block.warp();
      least.include(key[t], t);
    });
    least.merge();
    if (block.lane() == 0) {
      next_key[x] = least.value;
      next_at[x] = least.at;
    }
    __syncwarp();
  }

  // This warp's child with the least key; among ties, the child of the first node.
  __device__ Child best() const {
    Least least{kNoKey, INT32_MAX};
    block.each_lane(s.size, [&](int64_t x) { least.include(next_key[x], int32_t(x)); });
    least.merge();
    if (least.value == kNoKey) return {kNoKey, INT32_MAX, INT32_MAX};
    return {least.value, least.at, next_at[least.at]};
  }

  __device__ void set_key(const Child& child, int64_t key) const {
    if (block.lane() == 0) s.keys_of(child.node)[child.at] = key;
    __syncwarp();
    renew(child.node);
  }
};

// Adds the costs that the searches found to the k least known costs. Once k costs are known, the
// greatest of them is the limit. Called by one warp.
__device__ inline void learn(Block block) {
  Shared& s = block.s;
  int64_t* const known = s.workspace.known;
  for (int w = 0; w < kWarps; ++w) {
    const int64_t cost = s.found[w];
    if (cost >= s.limit) continue;
    if (s.known < s.most) {
      if (block.lane() == 0) known[s.known] = cost;
    }
    Least most{kFar, INT32_MAX};  // the greatest known cost, negated
    if (s.known >= s.most - 1) {
      __syncwarp();
      block.each_lane(s.most, [&](int64_t k) { most.include(-known[k], int32_t(k)); });
      most.merge();
    }
    if (s.known == s.most) {  // replaces the greatest known cost
      if (block.lane() == 0) known[most.at] = cost;
      __syncwarp();
      most = {kFar, INT32_MAX};
      block.each_lane(s.most, [&](int64_t k) { most.include(-known[k], int32_t(k)); });
      most.merge();
    }
    __syncwarp();
    if (block.lane() == 0) {
      if (s.known < s.most) ++s.known;
      if (s.known == s.most) s.limit = -most.value;
    }
    __syncwarp();
  }
}

// Lists the assignments after the best one.
__device__ inline void list_others(Block block, WarpSearch& search) {
  Shared& s = block.s;
  const Children children(block);
  const int warp = block.warp();
  for (;;) {
    if (warp == 0) learn(block);
    const Child own = children.best();
    if (block.lane() == 0) s.best[warp] = own;
    block.sync();
    int first = 0;
    for (int w = 1; w < kWarps; ++w) first = s.best[w].before(s.best[first]) ? w : first;
    const Child next = s.best[first];
    if (next.key == kNoKey) return;
    const bool lists = !is_bound(next.key);
    const int32_t y = s.size;
    int64_t found = kFar;
    if (own.key != kNoKey && is_bound(own.key)) {
      found = search.find_child(own, s.limit);
      children.set_key(own, found < kFar ? exact_key(found) : kNoKey);
    } else if (lists && warp == first) {
      search.find_child(own, kFar);
      search.make_node(own, y);
      children.set_key(own, kNoKey);
    }
    if (block.lane() == 0) s.found[warp] = found;
    block.sync();
    if (!lists) continue;
    const bool complete = y + 1 == s.most;
    if (!complete) {
      Partition(block, y).run();
      children.renew(y);
    }
    block.sync();
    block.one([&] { s.size = y + 1; });
    block.sync();
    if (complete) return;
  }
}

// Lists the best assignments, at most `s.most` of them, for the costs in the matrix `s.costs`.
__device__ inline void list_all(Block block) {
  Shared& s = block.s;
  WarpSearch search(block);
  if (block.warp() == 0) {
    const bool exists = search.find_best();
    if (block.lane() == 0) s.exists = exists;
  }
  block.one([&] {
    s.size = s.known = 1;
    s.workspace.known[0] = 0;
    s.limit = s.most == 1 ? 0 : kFar;
  });
  if (block.lane() == 0) s.found[block.warp()] = kFar;
  block.sync();
  if (s.exists && s.most > 1) {
    Partition(block, 0).run();
    Children(block).renew(0);
    block.sync();
    list_others(block, search);
  }
  if (block.lane() == 0) {
    for (int k = 0; k < kNumCounts; ++k) atomicAdd(&s.counts[k], search.counts[k]);
  }
  block.sync();
}

// Solves with the lowest level of costs alone (common/cost_levels.inc.h) and forbids all other
// costs. Then allows one more level each time, until there are k assignments or no more levels.
// A unit large enough for the costs of a high level would round the costs below them away. So
// before each solve, draw_near() replaces the costs of a high level, where it can, by a smaller
// number that still outweighs all lower levels. If the best assignment has a cost that
// draw_near() may have lowered, its duals do not prove that it is optimal for the given costs. They
// are then computed again without draw_near().
__device__ inline void solve_levels(Block block) {
  Shared& s = block.s;
  find_levels(block);
  bool duals = false;
  for (int end = 1;;) {
    const bool drawn = set_map(block, end, !duals);
    convert_costs(block);
    list_all(block);
    if (duals) return write_duals(block);
    if ((!s.exists || s.size < s.most) && end < s.levels.count) {
      ++end;
      continue;
    }
    if (!s.exists) return write_failure(block, kInfeasible);
    write_solution(block);
    if (!drawn || !first_pays(block)) return;
    duals = true;
    block.one([&] { s.most = 1; });
    block.sync();
  }
}

__device__ inline void solve_k_best(Block block) {
  Shared& s = block.s;
  find_form(block);
  const Status status = check_costs(block);
  block.one([&] { s.counts[kSearches] = s.counts[kScans] = 0; });
  block.sync();
  if (status != kOptimal) {
    write_failure(block, status);
  } else {
    solve_levels(block);
  }
  block.one([&] {
    for (int k = 0; k < kNumCounts; ++k) s.problem.counts[k] = s.counts[k];
  });
}

// Decides which arrays go to shared memory, of which a block may use `most` bytes. Returns how many
// bytes a block uses.
inline int64_t plan_shared_memory(const Bounds& size, int64_t most, KBestBatch* batch) {
  int64_t bytes = sizeof(Shared);
  const auto fits = [&](int64_t more) {
    const bool yes = bytes + more <= most;
    if (yes) bytes += more;
    return yes;
  };
  Memory state(nullptr), costs(nullptr);
  State().take(state, size);
  take_costs(costs, size);
  batch->state_in_shared = fits(state.bytes());
  batch->costs_in_shared = fits(costs.bytes());
  return bytes;
}

__global__ void __launch_bounds__(kThreads, 2)
    k_best_kernel(const __grid_constant__ KBestBatch batch) {
  Shared& s = *reinterpret_cast<Shared*>(shared_memory);
  if (threadIdx.x == 0) {
    const KBestProblem& p = batch.first;
    const Bounds size(p.n, p.m, p.k);
    s.problem = problem_at(p, blockIdx.x);
    s.workspace = Workspace(batch.workspace + blockIdx.x * batch.workspace_bytes, size);
    s.state = s.workspace.state;
    s.costs = s.workspace.costs;
    Memory shared(reinterpret_cast<char*>(&s + 1));
    if (batch.state_in_shared) s.state.take(shared, size);
    if (batch.costs_in_shared) s.costs = take_costs(shared, size);
  }
  __barrier_sync_count(0, kThreads);
  solve_k_best(Block{s});
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_KERNEL_CUH_
