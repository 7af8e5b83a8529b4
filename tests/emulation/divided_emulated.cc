// The kernel for one large assignment that is divided over devices, run on the CPU: one C function
// for tests/emulation/test_sharded_costs_emulated.py, which is one launch on one device. Whatever reads
// or writes memory that other threads share lets them go on now and then, so that what is not
// synchronised shows.
#include "large_emulator.h"
// The emulator comes first.
#include "assignment/large/cuda/team.cuh"
#include "assignment/large/sharded/operands.h"
#include "names.h"

namespace jaxmatch::assignment::large {
char shared_memory[64 << 10] __attribute__((aligned(16)));

namespace {

template <class T>
void Launch(const DividedOperands& o, unsigned seed, unsigned blocks, int threads, int arcs) {
  const Divided<T> d = o.problem<T>();
  const CoreResults results = ResultsOf(o.whole, 0);
  const int64_t side = greater(o.whole.n, o.whole.m);
  const ArcRoom room{ArcRoom::of(side, blocks, 0).rows, arcs};
  emulator::interruptions.seed(seed);
  const auto launch = [&](auto run) {
    std::memset(GridTeam::meeting_of(d.p.s.control), 0, sizeof(Meeting));
    emulator::launch_together(blocks, threads, seed, shared_memory, size_t(GridTeam::bytes(room)),
                              [&] {
                                GridTeam team(d.p.s.control, room);
                                run(team);
                              });
  };
  const auto run = [&](GridTeam& team, bool again) {
    run_divided(team, d, results, o.rows, o.each(), o.me, o.cores_out, o.core_count(), o.lists_out,
                again);
  };
  launch([&](GridTeam& team) { run(team, false); });
  if (!d.core) return;
  launch([&](GridTeam& team) { search_divided(team, o.without_costs(), d.relay, o.rows); });
  launch([&](GridTeam& team) { run(team, true); });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

// One launch for device `me`, whose part of the costs this is, or of the points [dims, its rows or
// columns], where `others` are those of the other side; on a grid of so many blocks with room for
// `arcs` in the shared memory of each. `heard`: mail, cores and lists of all
// devices; `kept`: control, scratch, cores, lists and mail of this one.
extern "C" void emulate_divided(const void* cost, const void* others, int64_t dims,
                                const char* metric, int64_t dtype, int64_t n, int64_t m,
                                const uint8_t* row_mask, const uint8_t* col_mask, bool maximize,
                                const char* method, bool rows, int64_t devices, int32_t me,
                                const void* const* heard, void* const* kept, unsigned seed,
                                unsigned blocks, int threads, int arcs, int32_t* col4row,
                                int32_t* row4col, int32_t* status, double* value, double* row_dual,
                                double* col_dual, double* gap) {
  using namespace jaxmatch;
  using namespace jaxmatch::assignment;
  using namespace jaxmatch::assignment::large;
  DividedOperands o{};
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
  o.mail_in = static_cast<const int64_t*>(heard[0]);
  o.exchanged.cores = static_cast<const char*>(heard[1]);
  o.exchanged.lists = static_cast<const ZeroList*>(heard[2]);
  o.exchanged.core_count = o.core_count();
  o.exchanged.list_count = o.list_count();
  o.control = static_cast<int32_t*>(kept[0]);
  o.scratch = static_cast<char*>(kept[1]);
  o.cores_out = static_cast<char*>(kept[2]);
  o.lists_out = static_cast<ZeroList*>(kept[3]);
  o.mail_out = static_cast<int64_t*>(kept[4]);
  const auto launch = others       ? (dtype == 1 ? Launch<Points<float>> : Launch<Points<double>>)
                      : dtype == 0 ? Launch<int32_t>
                      : dtype == 1 ? Launch<float>
                                   : Launch<double>;
  launch(o, seed, blocks, threads, arcs);
}
