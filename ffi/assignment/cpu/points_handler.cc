// The target jaxmatch_assignment_points: Jonker-Volgenant between points, without a matrix.
#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "assignment/cpu/pick.h"
#include "assignment/cpu/problem.h"
#include "assignment/decode.h"
#include "common/cpu/thread_pool.h"

namespace jaxmatch::assignment {
namespace {

// Operands: points [..., dims, n] of the rows, masks, points [..., dims, m] of the columns.
ffi::Error AssignmentPoints(ffi::ThreadPool pool, ffi::RemainingArgs args, IndexResult col4row,
                            IndexResult row4col, RealResult value, RealResult row_dual,
                            RealResult col_dual, RealResult gap, IndexResult status, int64_t given,
                            bool maximize, int64_t metric) {
  const auto decoded = DecodeAssignment(args, col4row, row4col, value, row_dual, col_dual, gap,
                                        status, given, maximize);
  if (!decoded.has_value()) return decoded.error();
  const AssignmentOperands& o = *decoded;
  const auto others = args.get<ffi::AnyBuffer>(args.size() - 1);
  const bool fit = others.has_value() && DtypeOf(others->element_type()) == o.cost_dtype &&
                   others->dimensions().size() >= 2 &&
                   (o.cost_dtype == Dtype::kF32 || o.cost_dtype == Dtype::kF64);
  const int64_t dims = o.n, n = o.m, m = fit ? others->dimensions().back() : 0;
  if (!fit || metric < int64_t(Metric::kSqeuclidean) || metric > int64_t(Metric::kCosine) ||
      int64_t(others->element_count()) != o.batch * dims * m ||
      int64_t(col4row->element_count()) != o.batch * n ||
      int64_t(row4col->element_count()) != o.batch * m || m > INT32_MAX - 64) {
    return ffi::Error::InvalidArgument(
        "jaxmatch_assignment_points: points or a metric that do not go together");
  }
  const char* const row_points = static_cast<const char*>(o.cost);
  const char* const col_points = static_cast<const char*>(others->untyped_data());
  const int64_t coordinate = size_of(o.cost_dtype), real = size_of(o.result_dtype);
  const auto at = [&](void* array, int64_t k) -> void* {
    return static_cast<char*>(array) + k * real;
  };
  const SolveAssignment solve = PickAssignmentSolver(std::max(n, m));
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    Arena arena{nullptr, 0, false};
    for (int64_t b = first; b < last; ++b) {
      const PointSets points{row_points + b * dims * n * coordinate,
                             col_points + b * dims * m * coordinate, dims, Metric(metric)};
      AssignmentProblem p{};
      p.points = &points;
      p.cost_dtype = o.cost_dtype;
      p.n = n;
      p.m = m;
      p.maximize = maximize;
      p.row_mask = o.row_mask ? o.row_mask + b * n : nullptr;
      p.col_mask = o.col_mask ? o.col_mask + b * m : nullptr;
      p.result_dtype = o.result_dtype;
      p.col4row = o.col4row + b * n;
      p.row4col = o.row4col + b * m;
      p.value = at(o.value, b);
      p.row_dual = at(o.row_dual, b * n);
      p.col_dual = at(o.col_dual, b * m);
      p.gap = at(o.gap, b);
      p.status = o.status + b;
      if (!solve(p, &arena)) out_of_memory = true;
    }
    if (arena.owned) std::free(arena.base);
  };
  ForEachRange(pool, o.batch, 200 + double(5 + dims) * double(n) * double(m), solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment_points: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::assignment

JAXMATCH_HANDLER(jaxmatch_assignment_points, jaxmatch::assignment::AssignmentPoints,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::ThreadPool>()
                     .RemainingArgs()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Attr<int64_t>("given")
                     .Attr<bool>("maximize")
                     .Attr<int64_t>("metric"));
