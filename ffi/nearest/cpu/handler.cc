// The target jaxmatch_nearest on the CPU.
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "nearest/cpu/search.h"
#include "nearest/decode.h"

namespace jaxmatch::nearest {
namespace {

template <class Real, Metric kMetric, int kDims>
void solve_in(ffi::ThreadPool& pool, const NearestProblem& p) {
  const Tree<kDims> tree(pool, p);
  for_each_range(pool, p.n, 2000, [&](int64_t first, int64_t last) {
    Search<Real, kMetric, kDims> search(p, tree);
    Poll poll;
    for (int64_t i = first; i < last; ++i) poll.after(20 * (10 + search.solve(i)));
  });
}

template <class Real, Metric kMetric>
void solve_by(ffi::ThreadPool& pool, const NearestProblem& p) {
  return p.dims <= 2 ? solve_in<Real, kMetric, 2>(pool, p) : solve_in<Real, kMetric, 3>(pool, p);
}

template <class Real>
void solve(ffi::ThreadPool& pool, const NearestProblem& p) {
  switch (p.metric) {
    case Metric::kSqeuclidean:
      return solve_by<Real, Metric::kSqeuclidean>(pool, p);
    case Metric::kEuclidean:
      return solve_by<Real, Metric::kEuclidean>(pool, p);
    case Metric::kL1:
      return solve_by<Real, Metric::kL1>(pool, p);
    case Metric::kCosine:
      return solve_by<Real, Metric::kCosine>(pool, p);
  }
}

ffi::Error NearestTarget(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                         ffi::Dictionary attributes) {
  Attributes given("jaxmatch_nearest", attributes);
  const auto batch = decode_nearest(args, rets, given);
  if (!batch.has_value()) return batch.error();
  if (batch->first.n == 0) return ffi::Error::Success();
  for (int64_t b = 0; b < batch->size; ++b) {
    const NearestProblem p = problem_at(batch->first, b);
    p.dtype == Dtype::kF32 ? solve<float>(pool, p) : solve<double>(pool, p);
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::nearest

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_nearest, jaxmatch::nearest::NearestTarget,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
