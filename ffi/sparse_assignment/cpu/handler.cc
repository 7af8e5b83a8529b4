// The target jaxmatch_sparse_assignment on CPU: solves the problems of a batch on several threads.
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "sparse_assignment/cpu/solve.h"
#include "sparse_assignment/decode.h"

namespace jaxmatch::sparse_assignment {
namespace {

using Solve = void (*)(const SparseProblem&, double part);

Solve solver_for(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16:
      return solve_sparse<BFloat16>;
    case Dtype::kF16:
      return solve_sparse<Float16>;
    case Dtype::kF32:
      return solve_sparse<float>;
    case Dtype::kF64:
      return solve_sparse<double>;
    case Dtype::kS32:
      return solve_sparse<int32_t>;
    case Dtype::kS64:
      return solve_sparse<int64_t>;
  }
  return nullptr;
}

ffi::Error SparseAssignment(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                            ffi::Dictionary attributes) {
  Attributes given("jaxmatch_sparse_assignment", attributes);
  const auto batch = decode_sparse(args, rets, given);
  if (!batch.has_value()) return batch.error();
  const double part = given.flag("precise") ? kPrecisePart : kPart;
  if (given.failed()) return given.error();
  const Solve solve = solver_for(batch->first.cost_dtype);
  const double edges = double(batch->first.capacity),
               vertices = double(batch->first.n + batch->first.m);
  for_each_range(pool, batch->size, 1000 + 100 * (edges + vertices),
                 [&](int64_t first, int64_t last) {
                   for (int64_t b = first; b < last; ++b) solve(problem_of(batch->first, b), part);
                 });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::sparse_assignment

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_sparse_assignment, jaxmatch::sparse_assignment::SparseAssignment,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
