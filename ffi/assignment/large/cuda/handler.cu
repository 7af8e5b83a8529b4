// The target jaxmatch_assignment_core on CUDA: the whole GPU for one problem after another, each in
// one cooperative launch.
#include "assignment/large/cuda/launch.h"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {
namespace {

template <class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_core_kernel(Core<T> p, const CoreResults results, bool resumed, int64_t budget,
                           ArcRoom room) {
  GridTeam team(p.s.control, room);
  if (!resumed) {
    team.leader([&] { *p.s.control = Control{}; });
    team.sync();
  }
  orient(team, p);
  solve_core(team, p, budget);
  write_results(team, p, results);
}

template <class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_hungarian_kernel(Core<T> p, const CoreResults results, bool resumed, int64_t budget,
                                LargeMethod method) {
  GridTeam team(p.s.control, ArcRoom{});
  if (!resumed) {
    team.leader([&] { *p.s.control = Control{}; });
    team.sync();
  }
  orient(team, p);
  solve_hungarian(team, p, method == LargeMethod::kTree, budget);
  write_results(team, p, results);
}

template <class T>
ffi::Error Launch(cudaStream_t stream, const CoreOperands& o, int64_t b) {
  auto p = o.problem<T>(b);
  auto results = ResultsOf(o.batch, b);
  bool resumed = o.resumed;
  int64_t budget = o.budget;
  LargeMethod method = o.method;
  const bool core = method == LargeMethod::kCore;
  ArcRoom room;
  void* last = core ? static_cast<void*>(&room) : static_cast<void*>(&method);
  void* arguments[] = {&p, &results, &resumed, &budget, last};
  return LaunchGrid(stream,
                    core ? reinterpret_cast<void*>(assignment_core_kernel<T>)
                         : reinterpret_cast<void*>(assignment_hungarian_kernel<T>),
                    p.s.control, std::max(o.batch.n, o.batch.m), core, &room, arguments);
}

ffi::Error AssignmentCore(cudaStream_t stream, ffi::RemainingArgs args, IndexResult col4row,
                          IndexResult row4col, RealResult value, RealResult row_dual,
                          RealResult col_dual, RealResult gap, IndexResult status,
                          IndexResult control, IndexResult scratch, int64_t given, bool maximize,
                          int64_t phases, int64_t method) {
  const auto o = DecodeCore(args, col4row, row4col, value, row_dual, col_dual, gap, status, control,
                            scratch, given, maximize, phases, method);
  if (!o.has_value()) return o.error();
  return o->for_each_problem(
      [&](auto element, int64_t b) { return Launch<decltype(element)>(stream, *o, b); });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(
    jaxmatch_assignment_core, jaxmatch::assignment::large::AssignmentCore,
    JAXMATCH_BIND_CORE(xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>()),
    {xla::ffi::Traits::kCmdBufferCompatible});
