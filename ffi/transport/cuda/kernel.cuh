// Exact transport on CUDA, one problem per block: an auction supplies prices and most of a plan,
// and the network simplex method finishes.
#ifndef JAXMATCH_CUDA_TRANSPORT_KERNEL_CUH_
#define JAXMATCH_CUDA_TRANSPORT_KERNEL_CUH_

#include "transport/batch.h"
#include "transport/cuda/auction.cuh"
#include "transport/cuda/finish.cuh"
#include "transport/cuda/kernels.h"
#include "transport/cuda/simplex.cuh"

namespace jaxmatch::transport {

// Sets the column prices of the auction, if duals are given and finite. Returns whether they are.
template <class C>
__device__ bool start_warm(const Block& b, const C& c, const Workspace& w) {
  const TransportProblem& p = c.p;
  const double sign = double(c.normal);
  const auto dual = [&](int64_t j) {
    return sign * (p.result_dtype == Dtype::kF32
                       ? double(static_cast<const float*>(p.start_dual)[j])
                       : static_cast<const double*>(p.start_dual)[j]);
  };
  bool usable = p.start_dual != nullptr;
  b.each(p.m, [&](int64_t j) {
    w.v[j] = 0;
    if (p.start_dual) usable &= fabs(dual(j)) < 0x1p20;
  });
  usable = !b.any(!usable);
  if (usable) b.each(p.m, [&](int64_t j) { w.v[j] = float(dual(j)); });
  b.sync();
  return usable;
}

template <class C>
__device__ void solve_transport(const Block& b, C& c, const Workspace& w) {
  const TransportProblem& p = c.p;
  b.one([&] { p.counts[kBids] = p.counts[kPivots] = 0; });
  const CostSummary found = summarize_costs(b, c);
  const Masses masses = read_masses(b, p, w);
  b.sync();
  const Status status = found.invalid ? kInvalidCost : masses.status;
  if (status != kOptimal) return write_failure(b, p, status);
  int64_t used_rows = 0, used_cols = 0;
  b.each(p.n, [&](int64_t i) { used_rows += w.supply[i] > 0; });
  b.each(p.m, [&](int64_t j) { used_cols += w.demand[j] > 0; });
  used_rows = b.sum(used_rows);
  used_cols = b.sum(used_cols);
  if (used_rows == 0) return write_empty(b, c, w);
  if (!choose_unit(c, found, used_rows < used_cols ? used_rows : used_cols)) {
    return write_failure(b, p, kOverflow);
  }
  Auction<C> auction{b, c, w};
  auction.run(start_warm(b, c, w));
  const Plan plan{b, w};
  list_plan(plan, c);
  const Tree<C> tree(b, c, w);
  tree.grow(plan.sort());
  Simplex<C> simplex{tree, b, w};
  simplex.run();
  b.one([&] {
    p.counts[kBids] = int32_t(auction.bids < INT32_MAX ? auction.bids : INT32_MAX);
    p.counts[kPivots] = simplex.pivots;
  });
  if (has_forbidden(tree, true)) return write_failure(b, p, kInfeasible);
  release_forbidden(tree);
  write_solution(tree, masses, are_whole(b, c));
}

template <class Type>
__global__ void __launch_bounds__(kThreads, 1)
    transport_kernel(const __grid_constant__ TransportBatch batch) {
  Shared& shared = *reinterpret_cast<Shared*>(assignment::shared_memory);
  const Block b{shared, int(threadIdx.x)};
  for (int64_t k = blockIdx.x; k < batch.size; k += gridDim.x) {
    const TransportProblem p = problem_of(batch.first, k);
    const Workspace w(batch.workspace + k * batch.workspace_bytes, p.n, p.m);
    Costs<Type> c{p, w.supply, w.demand};
    solve_transport(b, c, w);
    b.sync();
  }
}

template <class Type>
TransportKernel pick_transport_kernel() {
  return transport_kernel<Type>;
}

}  // namespace jaxmatch::transport

#define JAXMATCH_INSTANCE(Type)                           \
  namespace jaxmatch::transport {                         \
  template TransportKernel pick_transport_kernel<Type>(); \
  }                                                       \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_TRANSPORT_KERNEL_CUH_
