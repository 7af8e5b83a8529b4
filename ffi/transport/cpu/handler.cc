// The target jaxmatch_transport on CPU: solves the problems of a batch on several threads.
#include "common/handler.h"

#include <atomic>
#include <cstdlib>
#include <optional>

#include "assignment/decode.h"
#include "common/cpu/thread_pool.h"
#include "transport/cpu/problem.h"

namespace jaxmatch::transport {
namespace {

enum ResultIndex : size_t {
  kRows,
  kCols,
  kMass,
  kValue,
  kRowDual,
  kColDual,
  kGap,
  kStatusAt,
  kCounts,
  kNumResults,
};

// The first problem of the batch.
struct Batch {
  int64_t size;
  TransportProblem first;
};

ffi::ErrorOr<Batch> decode(ffi::RemainingArgs args, ffi::RemainingRets rets, Attributes& given) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto cost = args.get<ffi::AnyBuffer>(0), supply = args.get<ffi::AnyBuffer>(1),
             demand = args.get<ffi::AnyBuffer>(2);
  const auto row_mask = optional_operand(args, given, "row_mask", ffi::PRED, 3);
  const auto col_mask = optional_operand(args, given, "col_mask", ffi::PRED, 3);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (!cost.has_value() || !supply.has_value() || !demand.has_value()) {
    return wrong("costs, supplies or demands are missing");
  }
  if (rets.size() != kNumResults) return wrong("the number of results is wrong");
  if (cost->dimensions().size() < 2) return wrong("costs must have shape [..., n, m]");
  const auto dtype_at = [&](size_t at) { return result_at(rets, at)->element_type(); };
  const ffi::DataType mass = supply->element_type(), real = dtype_at(kValue);
  const auto moved = optional_operand(args, given, "moved", mass, 3);
  const auto start = optional_operand(args, given, "col_dual", real, 3);
  for (size_t at : {kRows, kCols, kStatusAt, kCounts}) {
    if (dtype_at(at) != ffi::S32) return wrong("indices, status and counts must be int32");
  }
  for (size_t at : {kValue, kRowDual, kColDual, kGap}) {
    if (dtype_at(at) != real || (real != ffi::F32 && real != ffi::F64)) {
      return wrong("value, duals and gap must all be float32 or all float64");
    }
  }
  if (demand->element_type() != mass || dtype_at(kMass) != mass) {
    return wrong("supplies, demands and the plan must have one dtype");
  }
  const auto cost_dtype = dtype_of(cost->element_type()), mass_dtype = capacity_dtype_of(mass);
  if (!cost_dtype || !mass_dtype) return wrong("unsupported dtype");
  const auto dimensions = cost->dimensions();
  const int64_t n = dimensions[dimensions.size() - 2], m = dimensions[dimensions.size() - 1];
  if (moved && n * m == 0) return wrong("dummies are missing");
  if (n + m > INT32_MAX / 16) return wrong("more than 2^27 rows and columns");
  const auto data = [](const auto& buffer) {
    return static_cast<const uint8_t*>(buffer ? buffer->untyped_data() : nullptr);
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  TransportProblem p{};
  p.cost = cost->untyped_data();
  p.cost_dtype = *cost_dtype;
  p.n = n;
  p.m = m;
  p.maximize = given.flag("maximize");
  p.supply = supply->untyped_data();
  p.demand = demand->untyped_data();
  p.mass_dtype = *mass_dtype;
  p.row_mask = data(row_mask);
  p.col_mask = data(col_mask);
  p.moved = data(moved);
  p.start_dual = data(start);
  p.result_dtype = *dtype_of(real);
  p.rows = static_cast<int32_t*>(result(kRows));
  p.cols = static_cast<int32_t*>(result(kCols));
  p.mass = result(kMass);
  p.value = result(kValue);
  p.row_dual = result(kRowDual);
  p.col_dual = result(kColDual);
  p.gap = result(kGap);
  p.status = static_cast<int32_t*>(result(kStatusAt));
  p.counts = static_cast<int32_t*>(result(kCounts));
  if (given.failed()) return ffi::Unexpected(given.error());
  return Batch{batch_size(dimensions, 2), p};
}

TransportProblem problem_of(const Batch& batch, int64_t b) {
  TransportProblem p = batch.first;
  const int64_t real = size_of(p.result_dtype), mass = size_of(p.mass_dtype);
  const int64_t entries = p.n + p.m > 0 ? p.n + p.m - 1 : 0;
  const auto skip = [&](auto*& array, int64_t bytes) {
    if (!array) return;
    using Pointer = std::remove_reference_t<decltype(array)>;
    array = reinterpret_cast<Pointer>(uintptr_t(array) + uintptr_t(b * bytes));
  };
  skip(p.cost, p.n * p.m * size_of(p.cost_dtype));
  skip(p.supply, p.n * mass);
  skip(p.demand, p.m * mass);
  skip(p.row_mask, p.n);
  skip(p.col_mask, p.m);
  skip(p.moved, mass);
  skip(p.start_dual, p.m * real);
  skip(p.rows, entries * 4);
  skip(p.cols, entries * 4);
  skip(p.mass, entries * mass);
  skip(p.value, real);
  skip(p.row_dual, p.n * real);
  skip(p.col_dual, p.m * real);
  skip(p.gap, real);
  skip(p.status, 4);
  skip(p.counts, kNumCounts * 4);
  return p;
}

ffi::Error Transport(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                     ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport", attributes);
  const auto decoded = decode(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const Batch& batch = *decoded;
  const SolveTransport solve = pick_transport_solver();
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    Arena arena{nullptr, 0, false};
    for (int64_t b = first; b < last; ++b) {
      if (!solve(problem_of(batch, b), &arena)) out_of_memory = true;
    }
    if (arena.owned) std::free(arena.base);
  };
  const double nanoseconds = 1e4 + 20.0 * double(batch.first.n) * double(batch.first.m);
  for_each_range(pool, batch.size, nanoseconds, solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_transport: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::transport

JAXMATCH_HANDLER(
    jaxmatch_transport, jaxmatch::transport::Transport,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
