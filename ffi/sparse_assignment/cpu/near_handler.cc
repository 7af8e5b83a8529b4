// The target jaxmatch_near_assignment on CPU: assignments between points, of which only pairs
// within a radius exist.
#include <cmath>
#include <vector>

#include "assignment/metric_names.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "sparse_assignment/cpu/near_pairs.h"
#include "sparse_assignment/cpu/solve.h"
#include "sparse_assignment/decode.h"
#include "sparse_assignment/numbers.h"

namespace jaxmatch::sparse_assignment {
namespace {

template <class T>
bool are_finite(const T* points, const uint8_t* mask, int64_t size, int64_t dims) {
  for (int64_t i = 0; i < size; ++i) {
    if (mask && !mask[i]) continue;
    for (int64_t k = 0; k < dims; ++k) {
      if (!std::isfinite(points[i * dims + k])) return false;
    }
  }
  return true;
}

template <class T>
void solve_near(const PointPairs<T>& pairs, SparseProblem p) {
  if (!are_finite(pairs.x, pairs.row_mask, p.n, pairs.dims) ||
      !are_finite(pairs.y, pairs.col_mask, p.m, pairs.dims) || !(pairs.radius >= 0)) {
    return write_failure(p, kInvalidCost);
  }
  Grid<T> grid(pairs);
  std::vector<int32_t> first{0}, cols;
  std::vector<T> costs;
  Poll poll;
  for (int64_t i = 0; i < p.n; ++i) {
    poll.after(1000 + 8 * (int64_t(cols.size()) - first.back()));
    if (pairs.has_row(i)) grid.pairs_of(i, &cols, &costs);
    if (cols.size() > JAXMATCH_LIMIT_MOST_GRAPH_EDGES) return write_failure(p, kOverflow);
    first.push_back(int32_t(cols.size()));
  }
  p.capacity = int64_t(cols.size());
  p.cost_dtype = sizeof(T) == 4 ? Dtype::kF32 : Dtype::kF64;
  p.row_ptr = first.data();
  p.col_ind = cols.data();
  p.cost = costs.data();
  solve_sparse(p, kPart);
}

template <class T>
PointPairs<T> pairs_of(const ffi::AnyBuffer& x, const ffi::AnyBuffer& y, const SparseProblem& p,
                       int64_t b, int64_t dims, assignment::Metric metric, double radius) {
  return {static_cast<const T*>(x.untyped_data()) + b * p.n * dims,
          static_cast<const T*>(y.untyped_data()) + b * p.m * dims,
          p.n,
          p.m,
          dims,
          p.row_mask,
          p.col_mask,
          metric,
          radius};
}

// Operands: the points [..., n, dims] and [..., m, dims], the radius, and the optional ones.
ffi::Error NearAssignment(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                          ffi::Dictionary attributes) {
  Attributes given("jaxmatch_near_assignment", attributes);
  const auto x = args.get<ffi::AnyBuffer>(0), y = args.get<ffi::AnyBuffer>(1);
  const auto radius = args.get<ffi::AnyBuffer>(2);
  const assignment::Metric metric = given.named("metric", assignment::kMetrics);
  if (!x.has_value() || !y.has_value() || !radius.has_value() || x->dimensions().size() < 2 ||
      y->dimensions().size() < 2 || x->element_type() != y->element_type() ||
      (x->element_type() != ffi::F32 && x->element_type() != ffi::F64) ||
      x->dimensions().back() != y->dimensions().back()) {
    return given.error("points that do not go together");
  }
  const auto rank = x->dimensions().size();
  const int64_t dims = x->dimensions().back(), n = x->dimensions()[rank - 2];
  const int64_t m = y->dimensions()[rank - 2];
  const auto batch = decode_options(args, rets, given, 0, n, m, batch_size(x->dimensions(), 2));
  if (!batch.has_value()) return batch.error();
  const Dtype real = batch->first.result_dtype;
  if (radius->element_type() != (real == Dtype::kF32 ? ffi::F32 : ffi::F64) ||
      int64_t(radius->element_count()) != batch->size ||
      int64_t(y->element_count()) != batch->size * m * dims) {
    return given.error("sizes that do not go together");
  }
  const auto solve = [&](int64_t b) {
    const SparseProblem p = problem_of(batch->first, b);
    const double limit = real_at(radius->untyped_data(), real, b);
    if (x->element_type() == ffi::F32) {
      solve_near(pairs_of<float>(*x, *y, p, b, dims, metric, limit), p);
    } else {
      solve_near(pairs_of<double>(*x, *y, p, b, dims, metric, limit), p);
    }
  };
  for_each_range(pool, batch->size, 1e3 * double(n + m), [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) solve(b);
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::sparse_assignment

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_near_assignment, jaxmatch::sparse_assignment::NearAssignment,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
