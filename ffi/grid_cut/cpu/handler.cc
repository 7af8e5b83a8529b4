// The targets jaxmatch_grid_cut and jaxmatch_grid_cut_warm on the CPU: each problem of the batch
// has one thread.
#include <atomic>
#include <cstdint>
#include <new>

#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "grid_cut/cpu/solve.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {
namespace {

template <class T, class V>
void solve_one(const GridCutOperands& o, const GridStarts& starts, int64_t b) {
  switch (o.connectivity) {
    case 4:
      return solve_problem<4, T, V>(o, starts, b);
    case 6:
      return solve_problem<6, T, V>(o, starts, b);
    case 8:
      return solve_problem<8, T, V>(o, starts, b);
    default:
      return solve_many<T, V>(o, starts, b);
  }
}

using SolveFunction = void (*)(const GridCutOperands&, const GridStarts&, int64_t);

SolveFunction function_for(Dtype given, Dtype value) {
  switch (given) {
    case Dtype::kS32:
      return value == Dtype::kS64 ? solve_one<int32_t, int64_t> : solve_one<int32_t, int32_t>;
    case Dtype::kS64:
      return solve_one<int64_t, int64_t>;
    case Dtype::kF32:
      return solve_one<float, float>;
    default:
      return solve_one<double, double>;
  }
}

ffi::Error solve_all(ffi::ThreadPool& pool, const GridCutOperands& o, const GridStarts& starts) {
  const SolveFunction solve = function_for(o.dtype, o.value_dtype);
  std::atomic<bool> out_of_memory{false};
  for_each_range(pool, o.batch, 500 + 20 * double(o.shape.cells()),
                 [&](int64_t first, int64_t last) {
                   for (int64_t b = first; b < last; ++b) {
                     try {
                       solve(o, starts, b);
                     } catch (const std::bad_alloc&) {
                       out_of_memory = true;
                     }
                   }
                 });
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_grid_cut: no memory for the workspace");
  }
  return ffi::Error::Success();
}

ffi::Error GridCut(ffi::ThreadPool pool, ffi::AnyBuffer source, ffi::AnyBuffer sink,
                   ffi::AnyBuffer pairwise, ffi::Result<ffi::AnyBuffer> value,
                   ffi::Result<GridSides> side, ffi::Result<GridStatus> status,
                   ffi::Dictionary attributes) {
  const auto o = decode_grid_cut(source, sink, pairwise, value, side, status, attributes);
  if (!o.has_value()) return o.error();
  return solve_all(pool, *o, {});
}

// `given` and `given_unit`: the flow and the unit of an earlier call.
ffi::Error GridCutWarm(ffi::ThreadPool pool, ffi::AnyBuffer source, ffi::AnyBuffer sink,
                       ffi::AnyBuffer pairwise, GridStatus given, GridStatus given_unit,
                       ffi::Result<ffi::AnyBuffer> value, ffi::Result<GridSides> side,
                       ffi::Result<GridStatus> status, ffi::Result<GridStatus> flow,
                       ffi::Result<GridStatus> unit, ffi::Dictionary attributes) {
  const auto o = decode_grid_cut(source, sink, pairwise, value, side, status, attributes);
  if (!o.has_value()) return o.error();
  Attributes call("jaxmatch_grid_cut_warm", attributes);
  const bool reversed = call.integer("reversed") != 0;
  if (call.failed()) return call.error();
  const int64_t words = o->dtype == Dtype::kS32 ? 1 : 2;
  const int64_t count = o->batch * o->shape.cells() * (o->connectivity / 2) * words;
  if (int64_t(given.element_count()) != count || int64_t(flow->element_count()) != count ||
      int64_t(given_unit.element_count()) != o->batch ||
      int64_t(unit->element_count()) != o->batch) {
    return ffi::Error::InvalidArgument("jaxmatch_grid_cut_warm: the arrays do not belong together");
  }
  return solve_all(pool, *o,
                   {given.untyped_data(), given_unit.typed_data(), flow->untyped_data(),
                    unit->typed_data(), reversed});
}

}  // namespace
}  // namespace jaxmatch::grid_cut

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_grid_cut, jaxmatch::grid_cut::GridCut,
    JAXMATCH_BIND_GRID_CUT(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()).Attrs());
JAXMATCH_INTERRUPTIBLE_HANDLER(jaxmatch_grid_cut_warm, jaxmatch::grid_cut::GridCutWarm,
                               xla::ffi::Ffi::Bind()
                                   .Ctx<xla::ffi::ThreadPool>()
                                   .Arg<jaxmatch::ffi::AnyBuffer>()
                                   .Arg<jaxmatch::ffi::AnyBuffer>()
                                   .Arg<jaxmatch::ffi::AnyBuffer>()
                                   .Arg<jaxmatch::grid_cut::GridStatus>()
                                   .Arg<jaxmatch::grid_cut::GridStatus>()
                                   .Ret<jaxmatch::ffi::AnyBuffer>()
                                   .Ret<jaxmatch::grid_cut::GridSides>()
                                   .Ret<jaxmatch::grid_cut::GridStatus>()
                                   .Ret<jaxmatch::grid_cut::GridStatus>()
                                   .Ret<jaxmatch::grid_cut::GridStatus>()
                                   .Attrs());
