// The kernels for one sharded large assignment, run on the CPU: one C function for
// tests/emulation/test_sharded_costs_emulated.py, which is one call on one device. Accesses to
// memory that other threads share yield at random, so that missing synchronisation shows.
#include "large_emulator.h"
// The emulator comes first.
#include "assignment/large/cuda/team.cuh"
#include "assignment/large/sharded/operands.h"
#include "names.h"

namespace jaxmatch::assignment::large {
char shared_memory[64 << 10] __attribute__((aligned(16)));

namespace {

template <class T>
void run_on_device(const ShardedOperands& o, unsigned seed, unsigned blocks, int threads,
                   int arcs) {
  const Sharded<T> d = o.problem<T>();
  const LargeResults results = results_of(o.whole, 0);
  const int64_t side = greater(o.whole.n, o.whole.m);
  const ArcCacheSize cache_size{ArcCacheSize::of(side, blocks, 0).rows, arcs};
  emulator::interruptions.seed(seed);
  const auto launch = [&](auto run) {
    std::memset(GridTeam::barrier_of(d.p.s.control), 0, sizeof(BarrierState));
    emulator::launch_together(blocks, threads, seed, shared_memory,
                              size_t(GridTeam::bytes(cache_size)), [&] {
                                GridTeam team(d.p.s.control, cache_size);
                                run(team);
                              });
  };
  const auto run = [&](GridTeam& team, bool again) {
    run_shard(team, d, results, o.rows, o.each(), o.me, o.cores_out, o.core_count(), o.lists_out,
              again);
  };
  launch([&](GridTeam& team) { run(team, false); });
  if (!d.core) return;
  launch([&](GridTeam& team) { search_shard(team, o.without_costs(), d.continuation, o.rows); });
  launch([&](GridTeam& team) { run(team, true); });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

// One call for device `me`. `cost` is its shard of the costs, or of the points [dims, its rows or
// columns]; `others` are then the points of the other side. The grid has `blocks` blocks, with room
// for `arcs` arcs in the shared memory of each. `gathered`: reduction buffers, cores, lists and
// packed cores of all devices; `kept`: control, scratch, cores, lists, packed cores and reduction
// buffer of this one.
extern "C" void emulate_sharded(const void* cost, const void* others, int64_t dims,
                                const char* metric, int64_t dtype, int64_t n, int64_t m,
                                const uint8_t* row_mask, const uint8_t* col_mask, bool maximize,
                                const char* method, bool rows, int64_t devices, int32_t me,
                                void* const* gathered, void* const* kept, unsigned seed,
                                unsigned blocks, int threads, int arcs, int32_t* col4row,
                                int32_t* row4col, int32_t* status, double* value, double* row_dual,
                                double* col_dual, double* gap) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  using namespace jaxmatch::assignment::large;
  ShardedOperands o{};
  o.method = named(kLargeMethods, method);
  AssignmentOperands& whole = o.whole;
  whole.batch = 1;
  whole.n = n;
  whole.m = m;
  whole.cost = cost;
  whole.maximize = maximize;
  whole.row_mask = row_mask;
  whole.col_mask = col_mask;
  whole.result_dtype = Dtype::kF64;
  whole.col4row = col4row;
  whole.row4col = row4col;
  whole.status = status;
  whole.value = value;
  whole.row_dual = row_dual;
  whole.col_dual = col_dual;
  whole.gap = gap;
  o.other_points = others;
  o.dims = dims;
  o.metric = named(kMetrics, metric);
  o.rows = rows;
  o.devices = devices;
  o.me = &me;
  o.reduction_in = static_cast<const int64_t*>(gathered[0]);
  o.gathered.cores = static_cast<const char*>(gathered[1]);
  o.gathered.lists = static_cast<const TightList*>(gathered[2]);
  o.gathered.core_count = o.core_count();
  o.gathered.list_count = o.list_count();
  o.control = static_cast<int32_t*>(kept[0]);
  o.scratch = static_cast<char*>(kept[1]);
  o.cores_out = static_cast<char*>(kept[2]);
  o.lists_out = static_cast<TightList*>(kept[3]);
  o.packed_in = static_cast<char*>(gathered[3]);
  o.packed_out = static_cast<char*>(kept[4]);
  o.reduction_out = static_cast<int64_t*>(kept[5]);
  const auto launch =
      others       ? (dtype == 1 ? run_on_device<Points<float>> : run_on_device<Points<double>>)
      : dtype == 0 ? run_on_device<int32_t>
      : dtype == 1 ? run_on_device<float>
                   : run_on_device<double>;
  launch(o, seed, blocks, threads, arcs);
}
