// The target jaxmatch_assignment on CPU: spreads the batch.
#include "common/handler.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <type_traits>

#include "assignment/cpu/pick.h"
#include "assignment/cpu/problem.h"
#include "assignment/decode.h"
#include "common/cpu/thread_pool.h"

namespace jaxmatch::assignment {
namespace {

ffi::Error Assignment(ffi::ThreadPool pool, ffi::RemainingArgs args, IndexResult col4row,
                      IndexResult row4col, RealResult value, RealResult row_dual,
                      RealResult col_dual, RealResult gap, IndexResult status, int64_t given,
                      bool maximize) {
  const auto decoded = DecodeAssignment(args, col4row, row4col, value, row_dual, col_dual, gap,
                                        status, given, maximize);
  if (!decoded.has_value()) return decoded.error();
  const AssignmentOperands& o = *decoded;
  const int64_t n = o.n, m = o.m;
  const auto at = [](auto* array, int64_t offset) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(array)>>,
                                    const char, char>;
    return array ? reinterpret_cast<Byte*>(array) + offset : nullptr;
  };
  const int size = size_of(o.result_dtype);
  const SolveAssignment solve = PickAssignmentSolver(std::max(n, m));
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    alignas(64) char small[16 << 10];
    Arena arena{small, sizeof small, false};
    for (int64_t b = first; b < last; ++b) {
      AssignmentProblem p;
      p.cost = at(o.cost, b * n * m * size_of(o.cost_dtype));
      p.cost_dtype = o.cost_dtype;
      p.n = n;
      p.m = m;
      p.maximize = maximize;
      p.row_mask = o.row_mask ? o.row_mask + b * n : nullptr;
      p.col_mask = o.col_mask ? o.col_mask + b * m : nullptr;
      p.unmatched_cost = at(o.unmatched_cost, b * n * size_of(o.unmatched_dtype));
      p.unmatched_dtype = o.unmatched_dtype;
      p.start_dual = at(o.start_dual, b * m * size);
      p.result_dtype = o.result_dtype;
      p.col4row = o.col4row + b * n;
      p.row4col = o.row4col + b * m;
      p.value = at(o.value, b * size);
      p.row_dual = at(o.row_dual, b * n * size);
      p.col_dual = at(o.col_dual, b * m * size);
      p.gap = at(o.gap, b * size);
      p.status = o.status + b;
      if (!solve(p, &arena)) out_of_memory = true;
    }
    if (arena.owned) std::free(arena.base);
  };
  ForEachRange(pool, o.batch, 200 + 3.0 * double(n) * double(m), solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::assignment

JAXMATCH_HANDLER(jaxmatch_assignment, jaxmatch::assignment::Assignment,
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
                     .Attr<bool>("maximize"));
