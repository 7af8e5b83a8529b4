// Emulation of the kernels for one large matching on the CPU: one C function for
// tests/emulation/test_matching_emulated.py. Accesses to shared memory yield to other threads at
// random, so that missing synchronisation shows. Stages and entries are small, so that small graphs
// fill them.
#include "tally_emulator.h"
// The emulator comes first.
#include "names.h"

using std::max;
using std::min;

template <class T>
T atomicExch(T* at, T x) {
  emulator::perhaps_yield();
  return emulator::exchanged(at, x);
}
inline int atomicSub(int* at, int x) { return atomicAdd(at, -x); }
inline unsigned __match_any_sync(unsigned, int x) {
  constexpr int kMatch = 100;
  return unsigned(emulator::converge(kMatch, uint64_t(uint32_t(x)), 0, [](emulator::Warp& warp) {
    for (int lane = 0; lane < emulator::kLanes; ++lane) {
      warp.taken[lane] = 0;
      for (int other = 0; other < emulator::kLanes; ++other) {
        warp.taken[lane] |= uint64_t(warp.given[lane] == warp.given[other]) << other;
      }
    }
  }));
}

namespace jaxmatch::matching {
constexpr int kStaged = 256, kEntryEdges = 16;

}  // namespace jaxmatch::matching

#include "matching/cuda/auto.cuh"
#include "matching/cuda/papers/apsb_apfb.cuh"
#include "matching/cuda/papers/g_pr.cuh"

namespace jaxmatch::matching {
char matching_shared[kMatchingSharedBytes] __attribute__((aligned(16)));

namespace {

template <class Solver>
int64_t run_launches(MatchingState s, const int32_t* start, MatchingInit init, int64_t budget,
                     unsigned seed, unsigned blocks, int threads, const Solver& solver) {
  int64_t launches = 0;
  do {
    emulator::interruptions.seed(seed + unsigned(launches));
    arrived = 0;
    emulator::launch_together(blocks, threads, seed + unsigned(launches), matching_shared,
                              size_t(kMatchingSharedBytes), [&] {
                                MatchingGrid grid(s.control->ring, s.control->step);
                                solve_matching(grid, s, solver(grid, s), start, init,
                                               budget > 0 ? budget : -1);
                              });
  } while (!s.control->done && ++launches < 10'000);
  return launches;
}

}  // namespace
}  // namespace jaxmatch::matching

// Solves one graph on a grid of `blocks` blocks, in launches of `budget` rounds (0: one launch).
// Returns the number of launches, less one.
extern "C" int64_t emulate_matching(int32_t n, int32_t m, int64_t capacity, const int32_t* row_ptr,
                                    const int32_t* col_ind, const int32_t* col_ptr,
                                    const int32_t* row_ind, const int32_t* start,
                                    const char* method_name, const char* init_name,
                                    const char* options_text, int64_t budget, int32_t narrow,
                                    unsigned seed, unsigned blocks, int threads, int32_t* col4row,
                                    int32_t* row4col, int32_t* cardinality, bool* row_cover,
                                    bool* col_cover, int32_t* status) {
  using namespace jaxmatch;
  using namespace jaxmatch::matching;
  MatchingState s{};
  s.graph = {n, m, capacity, row_ptr, col_ind, col_ptr, row_ind};
  s.results = {col4row, row4col, cardinality, row_cover, col_cover, status};
  MatchingControl control{};
  s.control = &control;
  const bool stepped = budget > 0;
  const int64_t bytes = lay_out_matching(s, nullptr, stepped);
  std::vector<char> scratch(size_t(bytes) + 256, char(0xab));  // no accidental zeros
  lay_out_matching(s, scratch.data() + 256 - uintptr_t(scratch.data()) % 256, stepped);
  const MatchingMethod method = named(kMatchingMethods, method_name);
  const MatchingInit init = named(kMatchingInits, init_name);
  Options given("emulate_matching", options_text);
  const auto run = [&](const auto& solver) {
    return run_launches(s, start, init, budget, seed, blocks, threads, solver);
  };
  if (method == MatchingMethod::kPushRelabel) {
    const auto options = PushRelabelOptions::of(given);
    if (given.failed()) std::abort();
    return run([&](auto& grid, auto& s) { return PushRelabel(grid, s, options); });
  }
  if (method != MatchingMethod::kAuto) {
    const auto options = BfsOptions::of(method, given);
    if (given.failed()) std::abort();
    return run([&](auto& grid, auto& s) { return BreadthFirst(grid, s, options); });
  }
  AutoTuning tuning;
  tuning.work_sharing.narrow = narrow;
  tuning.work_sharing.share = 8;
  tuning.crowd = 2;
  return run([&](auto& grid, auto& s) { return AutoSolve(grid, s, tuning); });
}
