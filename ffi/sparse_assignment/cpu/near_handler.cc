// The target jaxmatch_near_assignment on the CPU: assignments between points, which may be paired
// only within a radius.
#include <cmath>
#include <vector>

#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "costs/metric_names.h"
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
void solve_pairs(const PointPairs<T>& pairs, SparseProblem p) {
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

struct NearProblem {
  SparseProblem assignment;  // everything but the graph
  const void *x, *y;         // [n, dims], [m, dims]
  Dtype point_dtype;
  int64_t dims;
  const void* radius;  // scalar in the dtype of results
  Metric metric;
};

template <class Rows>
void list_operands(NearProblem& p, Rows& rows) {
  SparseProblem& of = p.assignment;
  const DtypeOf point = real_dtype(p.point_dtype);
  rows.operand("row_points", p.x, point, of.n * p.dims);
  rows.operand("col_points", p.y, point, of.m * p.dims);
  rows.operand("radius", p.radius, real_dtype(of.result_dtype), 1);
  list_assignment(of, rows);
}

template <class T>
void solve_near(const NearProblem& p) {
  const SparseProblem& of = p.assignment;
  const double radius = real_at(p.radius, of.result_dtype, 0);
  const PointPairs<T> pairs{static_cast<const T*>(p.x),
                            static_cast<const T*>(p.y),
                            of.n,
                            of.m,
                            p.dims,
                            of.row_mask,
                            of.col_mask,
                            p.metric,
                            radius};
  solve_pairs(pairs, of);
}

// Operands: the points [..., n, dims] and [..., m, dims], the radius, and optional operands (see
// list_assignment()).
ffi::Error NearAssignment(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                          ffi::Dictionary attributes) {
  Attributes given("jaxmatch_near_assignment", attributes);
  NearProblem p{};
  const auto list = [&](auto& rows) { list_operands(p, rows); };
  CallRows call(args, rets, given);
  if (!call.find(list)) return given.error();
  const auto x = call.array("row_points", list).dimensions();
  const auto y = call.array("col_points", list).dimensions();
  if (x.size() < 2 || y.size() < 2) return given.error("points must have shape [..., n, dims]");
  p.dims = x.back();
  p.assignment.n = x[x.size() - 2];
  p.assignment.m = y[y.size() - 2];
  if (p.dims > INT32_MAX) return given.error("points of 2^31 dimensions or more");
  p.metric = given.named("metric", kMetrics);
  read_options(given, &p.assignment);
  const int64_t batch = batch_size(x, 2);
  if (given.failed() || !call.check(batch, list)) return given.error();
  const auto solve = p.point_dtype == Dtype::kF32 ? solve_near<float> : solve_near<double>;
  const double each = 1e3 * double(p.assignment.n + p.assignment.m);
  for_each_range(pool, batch, each, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) solve(problem_at(p, b));
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::sparse_assignment

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_near_assignment, jaxmatch::sparse_assignment::NearAssignment,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
