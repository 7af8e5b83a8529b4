// The kernels for one large assignment, run on the CPU: one C function for
// tests/emulation/test_core_emulated.py. Accesses to memory that other threads share yield at
// random, so that missing synchronisation shows.
#include "large_emulator.h"
// The emulator comes first.
#include "assignment/large/cuda/team.cuh"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/point_costs.h"
#include "costs/metric_names.h"
#include "names.h"

namespace jaxmatch::assignment::large {
char shared_memory[64 << 10] __attribute__((aligned(16)));

namespace {

template <class T>
void launch(LargeProblem<T> problem, LargeMethod method, const LargeResults& results, bool resumed,
            int64_t steps, unsigned seed, unsigned blocks, int threads, int arcs) {
  Control* const control = problem.s.control;
  std::memset(GridTeam::barrier_of(control), 0, sizeof(BarrierState));
  const int64_t side = greater(problem.s.n, problem.s.m);
  const ArcCacheSize cache_size{ArcCacheSize::of(side, blocks, 0).rows, arcs};
  emulator::interruptions.seed(seed);
  emulator::launch_together(blocks, threads, seed, shared_memory,
                            size_t(GridTeam::bytes(cache_size)), [&] {
                              LargeProblem<T> p = problem;
                              GridTeam team(control, cache_size);
                              if (!resumed) {
                                team.leader([&] { *control = Control{}; });
                                team.sync();
                              }
                              orient(team, p);
                              solve_large(team, p, method, steps > 0 ? steps : INT64_MAX);
                              write_results(team, p, results);
                            });
}

template <class T>
int64_t solve_in_launches(const QuantizedCosts<T>& costs, int64_t n, int64_t m,
                          const uint8_t* row_mask, const uint8_t* col_mask, bool maximize,
                          LargeMethod method, const LargeResults& results, int64_t steps,
                          unsigned seed, unsigned blocks, int threads, int arcs) {
  const bool masked = row_mask || col_mask;
  alignas(64) int32_t words[kControlWords];
  std::memset(words, 0x7f, sizeof words);  // no memory is zero by chance
  Control* const control = reinterpret_cast<Control*>(words);
  int64_t bytes, launches = 0;
  lay_out(method, nullptr, control, n, m, masked, &bytes);
  std::vector<char> scratch(size_t(bytes) + 256, char(0x7f));
  char* const base = scratch.data() + 256 - uintptr_t(scratch.data()) % 256;
  LargeProblem<T> p;
  p.s = lay_out(method, base, control, n, m, masked, &bytes);
  p.costs = costs;
  p.row_mask = row_mask;
  p.col_mask = col_mask;
  p.maximize = maximize;
  do {
    launch(p, method, results, launches > 0, steps, seed + unsigned(launches), blocks, threads,
           arcs);
  } while (*results.status == kUnfinished && ++launches < 10'000);
  return launches;
}

}  // namespace
}  // namespace jaxmatch::assignment::large

// Solves one problem on a grid of `blocks` blocks, with room for `arcs` arcs in the shared memory
// of each, in launches of `steps` steps (0: one launch). `bits` of a cost: 0 for int32. Returns
// the number of launches, less one.
extern "C" int64_t emulate_core(const void* cost, int bits, int64_t n, int64_t m,
                                const uint8_t* row_mask, const uint8_t* col_mask, bool maximize,
                                const char* method, int64_t steps, unsigned seed, unsigned blocks,
                                int threads, int arcs, int32_t* col4row, int32_t* row4col,
                                int32_t* status, double* value, double* row_dual, double* col_dual,
                                double* gap) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  using namespace jaxmatch::assignment::large;
  const LargeResults results{col4row, row4col, status, value, row_dual, col_dual, gap, true};
  const auto solve = [&](auto element) {
    const QuantizedCosts<decltype(element)> costs(cost, m);
    return solve_in_launches(costs, n, m, row_mask, col_mask, maximize,
                             named(kLargeMethods, method), results, steps, seed, blocks, threads,
                             arcs);
  };
  return bits == 0 ? solve(int32_t{}) : bits == 32 ? solve(float{}) : solve(double{});
}

// The same for distances between points, given by coordinate.
extern "C" int64_t emulate_points(const void* row_points, const void* col_points, int64_t dims,
                                  const char* metric, int bits, int64_t n, int64_t m,
                                  const uint8_t* row_mask, const uint8_t* col_mask, bool maximize,
                                  const char* method, int64_t steps, unsigned seed, unsigned blocks,
                                  int threads, int arcs, int32_t* col4row, int32_t* row4col,
                                  int32_t* status, double* value, double* row_dual,
                                  double* col_dual, double* gap) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  using namespace jaxmatch::assignment::large;
  const LargeResults results{col4row, row4col, status, value, row_dual, col_dual, gap, true};
  const auto solve = [&](auto element) {
    using T = decltype(element);
    QuantizedCosts<Points<T>> costs;
    costs.row_points = static_cast<const T*>(row_points);
    costs.col_points = static_cast<const T*>(col_points);
    costs.rows = n;
    costs.cols = m;
    costs.dims = dims;
    costs.metric = named(kMetrics, metric);
    return solve_in_launches(costs, n, m, row_mask, col_mask, maximize,
                             named(kLargeMethods, method), results, steps, seed, blocks, threads,
                             arcs);
  };
  return bits == 32 ? solve(float{}) : solve(double{});
}
