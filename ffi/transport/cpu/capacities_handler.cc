// The targets jaxmatch_capacities and jaxmatch_capacities_points on CPU. One call builds transport
// problems from assignments with capacities, solves them, and translates the results.
#include <atomic>

#include "common/call_rows.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "costs/metric_names.h"
#include "transport/cpu/capacity_results.h"

namespace jaxmatch::transport {
namespace {

// Reads the attributes that say which results to write, and which amounts replace absent arrays.
// Must be called before the arrays are looked up.
void read_options(Attributes& given, CapacityProblem* p) {
  p->maximize = given.flag("maximize");
  p->as_plan = given.flag("as_plan");
  p->row_capacity.each = given.integer("row_capacity");
  p->col_capacity.each = given.integer("col_capacity");
  p->col_minimum.each = given.integer("col_minimum");  // negative if columns have no common minimum
  p->has_minimum = p->col_minimum.each >= 0 || given.operand("col_minimum") >= 0;
}

// Checks what the table of operands does not check. Returns an error message, or null.
const char* what_is_wrong(const CapacityProblem& p) {
  for (const Amounts* x : {&p.row_capacity, &p.col_capacity, &p.col_minimum}) {
    const bool whole = x->dtype == Dtype::kS32 || x->dtype == Dtype::kS64;
    if (x->array && !whole) return "capacities must be integers";
  }
  const Dtype dtype = balanced_dtype(p);
  if (!copy_of(p.cost_dtype, dtype) || (p.unmatched && !copy_of(p.unmatched_dtype, dtype))) {
    return "costs that unmatched costs do not hold";
  }
  if (p.n + p.parts() * p.m + 2 > INT32_MAX / 16) return "more than 2^27 rows and columns";
  return nullptr;
}

// Checks the arrays of a call, whose sizes are known, and solves its problems.
template <class List>
ffi::Error solve_all(ffi::ThreadPool& pool, CallRows& call, Attributes& given, const List& list,
                     int64_t batch, const CapacityProblem& p) {
  if (given.failed() || !call.check(batch, list)) return given.error();
  if (const char* const wrong = what_is_wrong(p)) return given.error(wrong);
  const SolveTransport solve = pick_transport_solver();
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    HostArena memory;
    ScopedArena workspace;
    Balanced balanced;
    for (int64_t b = first; b < last; ++b) {
      memory.reset();
      const CapacityProblem own = problem_at(p, b);
      const Units units = in_units(own, &memory);
      balance(own, units, &memory, &balanced);
      if (solve(balanced.problem, &workspace)) {
        write_results(own, units, balanced);
      } else {
        out_of_memory = true;
      }
    }
  };
  const double pairs = double(p.n + 1) * double(p.parts() * p.m + 1);
  for_each_range(pool, batch, 1e4 + (20.0 + double(p.dims)) * pairs, solve_range);
  if (!out_of_memory) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    given.error("no memory for the workspace").message());
}

// Operands: costs [..., n, m] and the optional ones that are present.
ffi::Error Capacities(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                      ffi::Dictionary attributes) {
  Attributes given("jaxmatch_capacities", attributes);
  CapacityProblem p{};
  const auto list = [&](auto& rows) {
    list_costs(p, rows);
    list_unmatched(p, rows);
    list_capacities(p, rows);
  };
  CallRows call(args, rets, given);
  read_options(given, &p);
  if (!call.find(list)) return given.error();
  const auto sides = call.array("cost", list).dimensions();
  if (sides.size() < 2) return given.error("costs must have shape [..., n, m]");
  p.n = sides[sides.size() - 2];
  p.m = sides[sides.size() - 1];
  return solve_all(pool, call, given, list, batch_size(sides, 2), p);
}

// Operands: points [..., n, dims] and [..., m, dims], and the optional ones that are present.
ffi::Error CapacitiesPoints(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                            ffi::Dictionary attributes) {
  Attributes given("jaxmatch_capacities_points", attributes);
  CapacityProblem p{};
  const auto list = [&](auto& rows) {
    list_points(p, rows);
    list_capacities(p, rows);
  };
  CallRows call(args, rets, given);
  read_options(given, &p);
  p.metric = given.named("metric", kMetrics);
  if (!call.find(list)) return given.error();
  const auto x = call.array("row_points", list).dimensions();
  const auto y = call.array("col_points", list).dimensions();
  if (x.size() < 2 || y.size() < 2) return given.error("points must have shape [..., n, dims]");
  p.dims = x.back();
  p.n = x[x.size() - 2];
  p.m = y[y.size() - 2];
  if (p.dims > INT32_MAX) return given.error("points of 2^31 dimensions or more");
  return solve_all(pool, call, given, list, batch_size(x, 2), p);
}

}  // namespace
}  // namespace jaxmatch::transport

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_capacities, jaxmatch::transport::Capacities,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_capacities_points, jaxmatch::transport::CapacitiesPoints,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
