// The target jaxmatch_sparse_assignment on the CPU: solves the problems of a batch on several
// threads.
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "sparse_assignment/cpu/solve.h"
#include "sparse_assignment/decode.h"

namespace jaxmatch::sparse_assignment {
namespace {

ffi::Error SparseAssignment(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                            ffi::Dictionary attributes) {
  Attributes given("jaxmatch_sparse_assignment", attributes);
  const auto batch = decode_sparse(args, rets, given);
  if (!batch.has_value()) return batch.error();
  const double part = given.flag("precise") ? kPrecisePart : kPart;
  if (given.failed()) return given.error();
  const double edges = double(batch->first.capacity),
               vertices = double(batch->first.n + batch->first.m);
  for_each_range(pool, batch->size, 1000 + 100 * (edges + vertices),
                 [&](int64_t first, int64_t last) {
                   for (int64_t b = first; b < last; ++b) {
                     solve_sparse(problem_at(batch->first, b), part);
                   }
                 });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::sparse_assignment

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_sparse_assignment, jaxmatch::sparse_assignment::SparseAssignment,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
