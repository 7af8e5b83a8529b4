// Decodes the operands of the target jaxmatch_assignment_core, for both platforms.
#ifndef JAXMATCH_LARGE_OPERANDS_H_
#define JAXMATCH_LARGE_OPERANDS_H_

#include <algorithm>
#include <limits>
#include <string>

#include "assignment/decode.h"
#include "assignment/large/core/bids.h"
#include "assignment/large/finish.h"
#include "assignment/large/layout.h"
#include "assignment/large/point_costs.h"
#include "costs/metric_names.h"

namespace jaxmatch::assignment::large {

// The methods for one large problem.
enum class LargeMethod { kCore, kAuction, kClassical, kTree };
constexpr Name<LargeMethod> kLargeMethods[] = {{"core", LargeMethod::kCore},
                                               {"auction", LargeMethod::kAuction},
                                               {"classical", LargeMethod::kClassical},
                                               {"tree", LargeMethod::kTree}};

// True if the method uses candidate sets.
constexpr bool has_core(LargeMethod method) {
  return method == LargeMethod::kCore || method == LargeMethod::kAuction;
}

// Lays out the state of one problem in the buffer `base`. Stores the size of the buffer in `bytes`.
inline LargeState lay_out(LargeMethod method, char* base, Control* control, int64_t n, int64_t m,
                          bool masked, int64_t* bytes) {
  Layout layout(base, control, n, m, masked);
  if (has_core(method)) {
    lay_out_core(layout);
  } else if (method == LargeMethod::kClassical) {
    lay_out_classical(layout);
  }
  *bytes = layout.parts.used;
  return layout.s;
}

constexpr int64_t kLongestSide = kMostRows - 1;
inline std::string too_long() { return "a side longer than " + std::to_string(kLongestSide); }

// Calls solve(element) with an element of type `dtype`.
template <class Solve>
ffi::Error for_dtype(Dtype dtype, Solve solve) {
  switch (dtype) {
    case Dtype::kBF16:
      return solve(BFloat16{});
    case Dtype::kF16:
      return solve(Float16{});
    case Dtype::kF32:
      return solve(float{});
    case Dtype::kF64:
      return solve(double{});
    case Dtype::kS32:
      return solve(int32_t{});
    default:
      return ffi::Error::InvalidArgument("jaxmatch_assignment_core: unsupported dtype");
  }
}

// Calls solve() with an element of type `dtype`, or with Points of that type if costs are computed
// from points.
template <class Solve>
ffi::Error for_costs(Dtype dtype, bool points, Solve solve) {
  if (!points) return for_dtype(dtype, solve);
  switch (dtype) {
    case Dtype::kF32:
      return solve(Points<float>{});
    case Dtype::kF64:
      return solve(Points<double>{});
    default:
      return ffi::Error::InvalidArgument("jaxmatch_assignment_core: unsupported dtype of points");
  }
}

// Where the results of problem b are written.
inline LargeResults results_of(const AssignmentOperands& batch, int64_t b) {
  const int64_t n = batch.n, m = batch.m, size = size_of(batch.result_dtype);
  const auto at = [&](void* array, int64_t k) -> void* {
    return static_cast<char*>(array) + k * size;
  };
  return {
      batch.col4row + b * n,     batch.row4col + b * m,     batch.status + b, at(batch.value, b),
      at(batch.row_dual, b * n), at(batch.col_dual, b * m), at(batch.gap, b), size == 8};
}

// Points of both sides, given instead of costs.
struct PointOperands {
  bool given = false;
  const void *rows = nullptr, *cols = nullptr;  // [batch, dims, n] and [batch, dims, m]
  int64_t dims = 0;
  Metric metric = Metric::kSqeuclidean;
};

struct LargeOperands {
  LargeMethod method;
  AssignmentOperands batch;
  PointOperands points;
  int32_t* control;  // [batch, kControlWords]
  char* scratch;     // [batch, scratch_bytes]
  int64_t scratch_bytes;
  bool resumed;        // control and scratch come from an earlier call
  int64_t budget;      // limit on the steps of this call
  int64_t time_limit;  // of this call, in nanoseconds, or kNoDeadline

  Control* control_of(int64_t b) const {
    return reinterpret_cast<Control*>(control + b * kControlWords);
  }

  template <class T>
  void find(QuantizedCosts<T>& costs, int64_t b) const {
    costs = {static_cast<const T*>(batch.cost) + b * batch.n * batch.m, batch.m};
  }
  template <class T>
  void find(QuantizedCosts<Points<T>>& costs, int64_t b) const {
    costs.row_points = static_cast<const T*>(points.rows) + b * points.dims * batch.n;
    costs.col_points = static_cast<const T*>(points.cols) + b * points.dims * batch.m;
    costs.rows = batch.n;
    costs.cols = batch.m;
    costs.dims = points.dims;
    costs.metric = points.metric;
  }

  template <class T>
  LargeProblem<T> problem(int64_t b) const {
    const int64_t n = batch.n, m = batch.m;
    int64_t bytes;
    LargeProblem<T> p;
    p.s = lay_out(method, scratch + b * scratch_bytes, control_of(b), n, m,
                  batch.row_mask || batch.col_mask, &bytes);
    find(p.costs, b);
    p.row_mask = batch.row_mask ? batch.row_mask + b * n : nullptr;
    p.col_mask = batch.col_mask ? batch.col_mask + b * m : nullptr;
    p.maximize = batch.maximize;
    return p;
  }

  // Calls solve(element or Points of the costs' dtype, b) for each problem b, until a call fails.
  template <class Solve>
  ffi::Error for_each_problem(Solve solve) const {
    for (int64_t b = 0; b < batch.batch; ++b) {
      const ffi::Error error = for_costs(batch.cost_dtype, points.given,
                                         [&](auto element) { return solve(element, b); });
      if (error.failure()) return error;
    }
    return ffi::Error::Success();
  }
};

inline ffi::ErrorOr<LargeOperands> decode_large(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                                const ffi::Dictionary& attributes) {
  Attributes given("jaxmatch_assignment_core", attributes);
  const auto wrong = [&](const std::string& what) { return ffi::Unexpected(given.error(what)); };
  auto batch = decode_assignment(args, rets, given, 2);
  if (!batch.has_value()) return ffi::Unexpected(batch.error());
  PointOperands points;
  if (const auto others = optional_operand(args, given, "col_points", std::nullopt)) {
    points = {true, batch->cost, others->untyped_data(), batch->n, given.named("metric", kMetrics)};
    const auto dims = others->dimensions();
    if (dims.size() < 2 || dims[dims.size() - 2] != points.dims ||
        dtype_of(others->element_type()) != batch->cost_dtype) {
      return wrong("two sets of points that do not go together");
    }
    batch->n = batch->m;
    batch->m = dims.back();
    given.expect_size("col_points", *others, batch->batch * points.dims * batch->m);
  }
  if (!check_assignment(args, rets, given, *batch)) return ffi::Unexpected(given.error());
  const auto control = result_at(rets, kNumResults), scratch = result_at(rets, kNumResults + 1);
  if (control->element_type() != ffi::S32 || scratch->element_type() != ffi::S32) {
    return wrong("the state must be int32");
  }
  // The name "state" stands for two operands. They must share memory with the results `control` and
  // `scratch`.
  const int state = given.operand("state");
  for (int k = 0; state >= 0 && k < 2; ++k) {
    const auto before = args.get<ffi::AnyBuffer>(size_t(1 + state + k));
    if (!before.has_value() ||
        before->untyped_data() != (k == 0 ? control : scratch)->untyped_data()) {
      return wrong("the state is not in the memory of the results");
    }
  }
  const int64_t steps = given.integer("steps");
  const double seconds = given.real("time_limit");
  LargeOperands o{given.named("method", kLargeMethods),
                  *batch,
                  points,
                  static_cast<int32_t*>(control->untyped_data()),
                  static_cast<char*>(scratch->untyped_data()),
                  0,
                  state >= 0,
                  steps > 0 ? steps : std::numeric_limits<int64_t>::max(),
                  seconds > 0 ? int64_t(std::min(seconds, 1e9) * 1e9) : kNoDeadline};
  if (given.failed()) return ffi::Unexpected(given.error());
  if (batch->batch == 0) return o;
  if (std::max(batch->n, batch->m) > kLongestSide) return wrong(too_long());
  // Round down to the alignment of DeviceArena, so that the arrays of each problem are aligned.
  o.scratch_bytes = int64_t(scratch->size_bytes()) / batch->batch / 256 * 256;
  int64_t needed;
  lay_out(o.method, nullptr, nullptr, batch->n, batch->m, batch->row_mask || batch->col_mask,
          &needed);
  if (o.scratch_bytes < needed ||
      int64_t(control->size_bytes()) < 4 * kControlWords * batch->batch) {
    return wrong("the state is too small");
  }
  return o;
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_OPERANDS_H_
