// The target jaxmatch_assignment_divided on CUDA: this GPU's part in what all do together, in one
// cooperative launch; with the core method three, as the searches between have a kernel of their
// own.
#include "assignment/large/cuda/launch.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {
namespace {

// What depends on the device and not on the problem.
struct Place {
  bool rows;
  int64_t each;
  const int32_t* me;
  char* cores_out;
  int64_t core_count;
  ZeroList* lists_out;
};

template <class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_divided_kernel(const Divided<T> d, const CoreResults results, const Place place,
                              ArcRoom room, bool again) {
  GridTeam team(d.p.s.control, room);
  run_divided(team, d, results, place.rows, place.each, place.me, place.cores_out, place.core_count,
              place.lists_out, again);
}

// As a part of the kernel above, whose registers are not enough for both, searches made problems of
// 150,000 rows take 133 ms instead of 114.
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_divided_search_kernel(Core<float> p, Relay* relay, bool rows, ArcRoom room) {
  GridTeam team(p.s.control, room);
  search_divided(team, p, relay, rows);
}

ffi::Error AssignmentDivided(cudaStream_t stream, ffi::RemainingArgs args, IndexResult col4row,
                             IndexResult row4col, RealResult value, RealResult row_dual,
                             RealResult col_dual, RealResult gap, IndexResult status,
                             IndexResult control, IndexResult scratch, IndexResult cores,
                             IndexResult lists, IndexResult mail, int64_t given, bool maximize,
                             int64_t method, bool rows, int64_t devices, int64_t metric) {
  const auto o =
      DecodeDivided(args, col4row, row4col, value, row_dual, col_dual, gap, status, control,
                    scratch, cores, lists, mail, given, maximize, method, rows, devices, metric);
  if (!o.has_value()) return o.error();
  return o->for_costs([&](auto element) {
    using T = decltype(element);
    auto d = o->template problem<T>();
    auto results = ResultsOf(o->whole, 0);
    Place place{o->rows, o->each(), o->me, o->cores_out, o->core_count(), o->lists_out};
    ArcRoom room;
    bool again = false;
    void* arguments[] = {&d, &results, &place, &room, &again};
    const auto launch = [&](auto* kernel, void** its_arguments) {
      return LaunchGrid(stream, reinterpret_cast<void*>(kernel), d.p.s.control,
                        std::max(o->whole.n, o->whole.m), d.core, &room, its_arguments);
    };
    const ffi::Error error = launch(assignment_divided_kernel<T>, arguments);
    if (!d.core || error.failure()) return error;
    auto p = o->without_costs();
    void* for_search[] = {&p, &d.relay, &place.rows, &room};
    const ffi::Error search_error = launch(assignment_divided_search_kernel, for_search);
    if (search_error.failure()) return search_error;
    again = true;
    return launch(assignment_divided_kernel<T>, arguments);
  });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(
    jaxmatch_assignment_divided, jaxmatch::assignment::large::AssignmentDivided,
    JAXMATCH_BIND_DIVIDED(xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>()),
    {xla::ffi::Traits::kCmdBufferCompatible});
