// The target jaxmatch_assignment_core on CPU.
#include <limits>

#include "../large/core_finish.h"
#include "../large/core_layout.h"
#include "../large/core_solve.h"
#include "jaxmatch/decode_large.h"
#include "pool_team.h"

namespace jaxmatch {
namespace {

template <class T>
void Solve(PoolTeam& team, const LargeOperands& o, int64_t b) {
  const AssignmentOperands& a = o.batch;
  const int64_t n = a.n, m = a.m;
  int64_t bytes;
  auto* control = reinterpret_cast<Control*>(o.control + b * o.control_words);
  Core<T> p;
  p.s = lay_out_core(o.scratch + b * o.scratch_bytes, control, n, m, a.row_mask || a.col_mask,
                     &bytes);
  p.costs = {static_cast<const T*>(a.cost) + b * n * m, m, 1, 1, 1};
  p.row_mask = a.row_mask ? a.row_mask + b * n : nullptr;
  p.col_mask = a.col_mask ? a.col_mask + b * m : nullptr;
  p.maximize = a.maximize;
  p.bid_rounds = kMostBidRounds;
  if (!o.resumed) *control = Control{};
  orient(team, p);
  solve_core(team, p, o.rounds > 0 ? o.rounds : std::numeric_limits<int64_t>::max());
  const int size = size_of(a.result_dtype);
  const auto real = [&](void* array, int64_t at) { return static_cast<char*>(array) + at * size; };
  const CoreResults results{
      a.col4row + b * n,       a.row4col + b * m,       a.status + b,   real(a.value, b),
      real(a.row_dual, b * n), real(a.col_dual, b * m), real(a.gap, b), size == 8};
  write_results(team, p, results);
}

ffi::Error AssignmentCore(ffi::ThreadPool pool, ffi::RemainingArgs args, IndexResult col4row,
                          IndexResult row4col, RealResult value, RealResult row_dual,
                          RealResult col_dual, RealResult gap, IndexResult status,
                          IndexResult control, IndexResult scratch, int64_t given, bool maximize,
                          int64_t rounds) {
  const auto decoded = DecodeAssignment(args, col4row, row4col, value, row_dual, col_dual, gap,
                                        status, given, maximize);
  if (!decoded.has_value()) return decoded.error();
  LargeOperands o{*decoded,
                  control->typed_data(),
                  kControlWords,
                  reinterpret_cast<char*>(scratch->typed_data()),
                  0,
                  (given & kGivenState) != 0,
                  rounds};
  const int64_t batch = o.batch.batch;
  if (batch == 0) return ffi::Error::Success();
  o.scratch_bytes = int64_t(scratch->size_bytes()) / batch;
  int64_t needed;
  lay_out_core(nullptr, nullptr, o.batch.n, o.batch.m, o.batch.row_mask || o.batch.col_mask,
               &needed);
  if (o.scratch_bytes < needed || int64_t(control->size_bytes()) < batch * kControlWords * 4) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment_core: the state is too small");
  }
  PoolTeam team(&pool);
  ExactFloats mode;
  for (int64_t b = 0; b < batch; ++b) {
    switch (o.batch.cost_dtype) {
      case Dtype::kBF16:
        Solve<BFloat16>(team, o, b);
        break;
      case Dtype::kF16:
        Solve<Float16>(team, o, b);
        break;
      case Dtype::kF32:
        Solve<float>(team, o, b);
        break;
      case Dtype::kF64:
        Solve<double>(team, o, b);
        break;
      case Dtype::kS32:
        Solve<int32_t>(team, o, b);
        break;
      default:
        return ffi::Error::InvalidArgument("jaxmatch_assignment_core: unsupported dtype");
    }
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_assignment_core, jaxmatch::AssignmentCore,
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
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Attr<int64_t>("given")
                     .Attr<bool>("maximize")
                     .Attr<int64_t>("rounds"));
