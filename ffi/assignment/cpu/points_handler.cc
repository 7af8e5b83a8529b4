// The target jaxmatch_assignment_points: Jonker-Volgenant for costs that are distances between
// points, without a cost matrix.
#include <algorithm>
#include <atomic>

#include "assignment/cpu/pick.h"
#include "assignment/cpu/problem_of.h"
#include "assignment/decode.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "costs/metric_names.h"

namespace jaxmatch::assignment {
namespace {

// The operand `cost` holds the rows' points [..., dims, n], and the optional operand `col_points`
// the columns' points [..., dims, m].
ffi::Error AssignmentPoints(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                            ffi::Dictionary attributes) {
  Attributes given("jaxmatch_assignment_points", attributes);
  const auto decoded = decode_assignment(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const AssignmentOperands& o = *decoded;
  const auto others = optional_operand(args, given, "col_points", std::nullopt);
  const Metric metric = given.named("metric", kMetrics);
  if (given.failed()) return given.error();
  const bool fit = others && dtype_of(others->element_type()) == o.cost_dtype &&
                   others->dimensions().size() >= 2 &&
                   (o.cost_dtype == Dtype::kF32 || o.cost_dtype == Dtype::kF64);
  const int64_t dims = o.n, n = o.m, m = fit ? others->dimensions().back() : 0;
  if (!fit || int64_t(others->element_count()) != o.batch * dims * m || m > INT32_MAX - 64) {
    return given.error("points that do not go together");
  }
  AssignmentOperands sized = o;
  sized.n = n;
  sized.m = m;
  if (!check_assignment(args, rets, given, sized)) return given.error();
  const char* const row_points = static_cast<const char*>(o.cost);
  const char* const col_points = static_cast<const char*>(others->untyped_data());
  const int64_t coordinate = size_of(o.cost_dtype);
  const SolveAssignment solve = pick_assignment_solver(std::max(n, m));
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    ScopedArena arena;
    for (int64_t b = first; b < last; ++b) {
      const PointSets points{row_points + b * dims * n * coordinate,
                             col_points + b * dims * m * coordinate, dims, metric};
      AssignmentProblem p = problem_of(o, b, n, m);
      p.points = &points;
      if (!solve(p, &arena)) out_of_memory = true;
    }
  };
  for_each_range(pool, o.batch, 200 + double(5 + dims) * double(n) * double(m), solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment_points: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::assignment

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_assignment_points, jaxmatch::assignment::AssignmentPoints,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
