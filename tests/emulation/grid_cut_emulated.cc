// Emulation of the kernel for minimum cuts of grids on the CPU: one C function for
// tests/emulation/test_grid_cut_emulated.py. Threads of all blocks take turns in a random order;
// accesses to memory that other blocks write yield at random.
#include "grid_emulator.h"
// The emulator comes first.
#include "names.h"

inline int __syncthreads_or(bool x) { return emulator::barrier(0, emulator::block_dim.x, x) != 0; }
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  return emulator::exchanged(at, *at + x);
}
template <class T>
T __ldg(const T* at) {
  return *at;
}
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) longlong2 {
  long long x, y;
};
inline int2 make_int2(int x, int y) { return {x, y}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline long long clock64() { return 0; }
inline unsigned long long atomicMax(unsigned long long* at, unsigned long long x) {
  return emulator::exchanged(at, std::max(*at, x));
}

#include "grid_cut/cuda/kernel.cuh"

namespace jaxmatch::grid_cut {
namespace {

constexpr size_t kSharedBytes = 1 << 17;
alignas(16) char shared[kSharedBytes];

struct Emulation {
  unsigned seed;
  int teams, blocks;  // blocks of each team
  int threads;
  GridTiling tiling;
  GridCutTuning tuning;
  int32_t* relabellings;  // [batch], written
};

template <int kArcs, class G, class V>
void emulate(const GridCutOperands& o, const Emulation& how) {
  const GridTiling& t = how.tiling;
  const size_t cells = size_t(o.shape.cells());
  const size_t messages = (size_t(how.blocks) * 8 + 15) / 16 * 16;
  const size_t stored = messages + size_t(32) * size_t(t.tiles()) * size_t(t.links()) + 16;
  const size_t stride = (stored + (kArcs + 2) * 8 * cells + 15) / 16 * 16;
  std::vector<char> scratch(size_t(o.batch) * stride, char(0xab));  // no accidental zeros
  std::vector<GridCutControl> control(size_t(o.batch), GridCutControl{});
  GridCutPlan plan{t,
                   t,
                   how.tuning,
                   how.teams,
                   how.blocks,
                   control.data(),
                   scratch.data(),
                   int64_t(stride),
                   int64_t(messages),
                   int64_t(stored)};
  if (how.blocks == 1 && t.tiles() == 1 && how.teams == o.batch) plan.control = nullptr;
  const size_t bytes = sizeof(GridCutShared) + size_t(t.bytes(8));
  if (bytes > kSharedBytes) emulator::fail("too little shared memory");
  emulator::interruptions.seed(how.seed);
  emulator::launch_together(unsigned(how.teams * how.blocks), how.threads, how.seed, shared, bytes,
                            [&] { cut_grids<kArcs, G, V>(o, plan, shared); });
  for (int64_t b = 0; b < o.batch; ++b) how.relabellings[b] = control[size_t(b)].relabellings;
}

template <class G, class V>
void solve_connected(const GridCutOperands& o, const Emulation& how) {
  switch (o.connectivity) {
    case 4:
      return emulate<4, G, V>(o, how);
    case 6:
      return emulate<6, G, V>(o, how);
    default:
      return emulate<8, G, V>(o, how);
  }
}

}  // namespace
}  // namespace jaxmatch::grid_cut

// Bytes of device memory needed on a GPU with `blocks` multiprocessors and `shared` bytes of shared
// memory per block; 0 where one block suffices.
extern "C" int64_t plan_grid_cut(int connectivity, const int32_t* shape, int blocks,
                                 int64_t shared) {
  using namespace jaxmatch;
  using namespace jaxmatch::grid_cut;
  const GridShape s{shape[0], shape[1], shape[2]};
  const int64_t room = shared - int64_t(sizeof(GridCutShared));
  if (needs_one_block(s, connectivity, room)) return 0;
  const GridCutLayout layout = GridCutLayout::of(s, connectivity, blocks, room);
  for (const auto& [t, number] : {std::pair(layout.narrow, 4), std::pair(layout.wide, 8)}) {
    if (t.tiles() < 1 || t.bytes(number) > room) return -1;
    for (int q = 0; q < t.halo(); ++q) {
      if (t.halo_index(t.halo_place(q)) != q) return -2;
    }
  }
  return layout.bytes;
}

// The division of a GPU among a batch: the number of teams, and the blocks of each.
extern "C" void grid_cut_teams(int64_t batch, int tiles, int blocks, int64_t* teams) {
  const auto t = jaxmatch::grid_cut::GridTeams::of(batch, tiles, blocks);
  teams[0] = t.count, teams[1] = t.blocks;
}

// Solves a batch of grids by `teams` of `blocks` each. `tile` holds log_x, log_y, size_y, size_z;
// `tuning` rounds, sweeps, exchanges, racing and early. Values have the dtype of the capacities,
// but 64 bits where those are integers. `relabellings` becomes their number for each grid; 0 for a
// block alone.
extern "C" void emulate_grid_cut(int64_t batch, int connectivity, int symmetric, const char* dtype,
                                 const int32_t* shape, const void* source, const void* sink,
                                 const void* pairwise, void* value, bool* side, int32_t* status,
                                 unsigned seed, int teams, int blocks, int threads,
                                 const int32_t* tile, const int32_t* tuning,
                                 int32_t* relabellings) {
  using namespace jaxmatch;
  using namespace jaxmatch::grid_cut;
  GridCutOperands o{};
  o.batch = batch;
  o.shape = {shape[0], shape[1], shape[2]};
  o.connectivity = connectivity;
  o.symmetric = symmetric != 0;
  o.dtype = named(kDtypes, dtype);
  o.source = source;
  o.sink = sink;
  o.pairwise = pairwise;
  o.value = value;
  o.side = side;
  o.status = status;
  const auto up = [](int a, int b) { return (a + b - 1) / b; };
  const GridTiling tiling{tile[0],
                          tile[1],
                          tile[2],
                          tile[3],
                          up(shape[2], 1 << tile[0]),
                          up(shape[1], tile[2]),
                          up(shape[0], tile[3]),
                          connectivity == 6,
                          connectivity};
  GridCutTuning numbers;
  numbers.rounds = numbers.first_rounds = tuning[0];
  numbers.sweeps = tuning[1];
  numbers.exchanges = tuning[2];
  numbers.racing = tuning[3];
  numbers.early = tuning[4];
  const Emulation how{seed, teams, blocks, threads, tiling, numbers, relabellings};
  switch (o.dtype) {
    case Dtype::kS32:
      return solve_connected<int32_t, int64_t>(o, how);
    case Dtype::kS64:
      return solve_connected<int64_t, int64_t>(o, how);
    case Dtype::kF32:
      return solve_connected<float, float>(o, how);
    default:
      return solve_connected<double, double>(o, how);
  }
}
