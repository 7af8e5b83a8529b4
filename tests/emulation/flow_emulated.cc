// Emulation of the kernels for one flow network on the CPU: one C function for
// tests/emulation/test_flow_emulated.py. Stages and ranges are small, so that small networks fill
// them.
#include "tally_emulator.h"
// The emulator comes first.
#include "names.h"

struct longlong2 {
  long long x, y;
};
using std::ceil;
using std::floor;
using std::scalbn;

inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  emulator::perhaps_yield();
  return *at += x, *at - x;
}

namespace jaxmatch::flow {
constexpr int kFlowStaged = 16, kRangeArcs = 8;
constexpr int32_t kKnownNodes = 20;

template <class T>
T add_if(bool happens, T* at, T x) {
  emulator::perhaps_yield();
  if (!happens) return 0;
  const T before = *at;
  *at += x;
  return before;
}
}  // namespace jaxmatch::flow

#include "flow/cuda/kernels.cuh"

namespace jaxmatch::flow {
char flow_shared[flow_shared_bytes(kKnownNodes)] __attribute__((aligned(16)));

namespace {

struct Launches {
  unsigned blocks;
  int threads;
  unsigned seed;

  template <class Kernel>
  void launch(const Kernel& kernel) {
    emulator::interruptions.seed(seed);
    arrived = 0;
    emulator::launch_together(blocks, threads, seed++, flow_shared, sizeof flow_shared, kernel);
  }
};

// Overrides the library's tuning constants.
FlowTuning tuned(Options& given) {
  FlowTuning t;
  const auto set = [&](const char* name, int32_t& field) {
    if (given.has(name)) field = int32_t(given.integer(name));
  };
  set("search_alone", t.search_alone), set("push_alone", t.push_alone), set("share", t.share);
  set("rounds", t.rounds), set("rounds_alone", t.rounds_alone), set("scans", t.scans);
  set("hops", t.hops), set("thread_arcs", t.thread_arcs), set("gap", t.gap);
  set("wide", t.wide), set("direction", t.direction), set("least_push", t.least_push);
  set("cancel", t.cancel);
  if (given.has("patience")) t.patience = given.real("patience");
  return t;
}

template <FlowLayout kLayout>
void solve_two_level(const FlowState& s, const FlowPlan& plan, FlowMethod method, bool alone) {
  if (method == FlowMethod::kThreadCentric) {
    solve_problem<int64_t, ThreadCentric<int64_t, kLayout>>(s, plan, alone, plan.two_level);
  } else {
    solve_problem<int64_t, TwoLevel<int64_t, kLayout>>(s, plan, alone, plan.two_level);
  }
}

template <class C, class V>
int64_t run_launches(const FlowState& s, const FlowPlan& plan, FlowMethod method, Launches grid) {
  const bool alone = grid.blocks == 1;
  int64_t launches = 0;
  do {
    grid.launch([&] { begin_problem<C>(s, plan, alone); });
    if (method == FlowMethod::kAuto) {
      grid.launch([&] { solve_problem<int32_t, AutoPushes<int32_t>>(s, plan, alone); });
      grid.launch([&] { solve_problem<int64_t, AutoPushes<int64_t>>(s, plan, alone); });
    } else {
      grid.launch([&] {
        switch (plan.two_level.layout) {
          case FlowLayout::kRcsr:
            return solve_two_level<FlowLayout::kRcsr>(s, plan, method, alone);
          case FlowLayout::kBcsr:
            return solve_two_level<FlowLayout::kBcsr>(s, plan, method, alone);
          case FlowLayout::kCsr:
            return solve_two_level<FlowLayout::kCsr>(s, plan, method, alone);
        }
      });
    }
    grid.launch([&] { finish_problem<C, V>(s, plan, alone); });
  } while (!s.control->done && ++launches < 10'000);
  return launches;
}

}  // namespace
}  // namespace jaxmatch::flow

// Solves one problem on a grid of `blocks` blocks, in launches of `budget` rounds (0: one launch);
// a single block runs in the mode for one block alone. Types are the names of Dtype. With `racing`
// >= 0, nodes are relabelled between searches in that many rounds only. Returns the number of
// launches, less one.
extern "C" int64_t emulate_flow(int32_t nodes, int32_t arcs, int32_t edges, const int32_t* arc_ptr,
                                const int32_t* arc_head, const int32_t* reverse_arc,
                                const int32_t* edge_ptr, const int32_t* arc_edge,
                                const void* capacity, int32_t source, int32_t sink,
                                const char* capacity_type, const char* value_type,
                                const char* method_name, const char* options_text, int64_t budget,
                                int32_t racing, unsigned seed, unsigned blocks, int threads,
                                void* value, void* flow, bool* source_side, int32_t* status) {
  using namespace jaxmatch;
  using namespace jaxmatch::flow;
  FlowControl control{};
  FlowState s{};
  s.control = &control;
  s.network = {nodes, arcs, edges, arc_ptr, arc_head, reverse_arc, edge_ptr, arc_edge};
  s.capacity = capacity;
  s.source = &source;
  s.sink = &sink;
  s.value = value;
  s.flow = flow;
  s.source_side = source_side;
  s.status = status;
  const int64_t bytes = lay_out_flow(s, nullptr);
  std::vector<char> scratch(size_t(bytes) + 256, char(0xab));  // no accidental zeros
  lay_out_flow(s, scratch.data() + 256 - uintptr_t(scratch.data()) % 256);
  const FlowMethod method = named(kFlowMethods, method_name);
  const bool two_level = method != FlowMethod::kAuto;
  Options given("emulate_flow", options_text);
  const TwoLevelOptions options = TwoLevelOptions::of(method, given);
  FlowPlan plan{tuned(given), options, two_level && options.layout != FlowLayout::kRcsr,
                budget > 0 ? budget : -1};
  if (given.failed()) std::abort();
  if (two_level) plan.tuning.wide = 1;
  if (racing >= 0) plan.tuning.racing = racing;
  const Launches grid{blocks, threads, seed};
  const auto solve = [&](auto c, auto v) {
    return run_launches<decltype(c), decltype(v)>(s, plan, method, grid);
  };
  switch (named(kDtypes, capacity_type)) {
    case Dtype::kF32:
      return solve(float{}, float{});
    case Dtype::kF64:
      return solve(double{}, double{});
    case Dtype::kS64:
      return solve(int64_t{}, int64_t{});
    default:
      return named(kDtypes, value_type) == Dtype::kS64 ? solve(int32_t{}, int64_t{})
                                                       : solve(int32_t{}, int32_t{});
  }
}
