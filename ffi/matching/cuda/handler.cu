// The target jaxmatch_matching on CUDA. Small graphs are solved in one launch, with one block per
// graph. Large graphs are solved one after another, each in a cooperative launch on the whole GPU.
#include <algorithm>
#include <optional>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "matching/cuda/auto.cuh"
#include "matching/cuda/one_block.cuh"
#include "matching/cuda/papers/apsb_apfb.cuh"
#include "matching/cuda/papers/g_pr.cuh"

namespace jaxmatch::matching {
namespace {

__global__ void __launch_bounds__(kMatchingThreads, 1)
    matching_auto_kernel(const __grid_constant__ MatchingState s, const int32_t* start,
                         MatchingInit init, int64_t budget) {
  MatchingGrid grid(s.control->ring, __ldcg(&s.control->step));
  solve_matching(grid, s, AutoSolve(grid, s, {}), start, init, budget);
}

__global__ void __launch_bounds__(kMatchingThreads, 1)
    matching_push_relabel_kernel(const __grid_constant__ MatchingState s, const int32_t* start,
                                 MatchingInit init, int64_t budget, PushRelabelOptions options) {
  MatchingGrid grid(s.control->ring, __ldcg(&s.control->step));
  solve_matching(grid, s, PushRelabel(grid, s, options), start, init, budget);
}

__global__ void __launch_bounds__(kMatchingThreads, 1)
    matching_bfs_kernel(const __grid_constant__ MatchingState s, const int32_t* start,
                        MatchingInit init, int64_t budget, BfsOptions options) {
  MatchingGrid grid(s.control->ring, __ldcg(&s.control->step));
  solve_matching(grid, s, BreadthFirst(grid, s, options), start, init, budget);
}

__global__ void __launch_bounds__(kMatchingThreads, 1)
    matching_start_kernel(const __grid_constant__ MatchingState s, const int32_t* start,
                          MatchingInit init) {
  MatchingGrid grid(s.control->ring, __ldcg(&s.control->step));
  if (begin_matching(grid, s, start, init)) {
    write_unfinished(grid, s);
  } else {
    write_invalid(grid, s);
  }
  grid.barrier_reduce();
  if (grid.leader()) {
    s.control->done = 1;
    s.control->stage = int32_t(Stage::kBegin);  // a repeated call starts over, with the same result
    s.control->step = grid.steps();
  }
}

__global__ void matching_small_kernel(MatchingOperands o, int32_t* control) {
  extern __shared__ int32_t memory[];
  const int64_t b = blockIdx.x;
  SmallMatching matching(o.graph(b), memory);
  if (!matching.is_valid()) {
    matching.write_invalid(o.results_of(b));
  } else {
    matching.begin(o.start_of(b), o.init != MatchingInit::kNone);
    matching.solve();
    matching.write(o.results_of(b));
  }
  if (threadIdx.x == 0)
    reinterpret_cast<MatchingControl*>(control + b * kMatchingControlWords)->done = 1;
}

class Launch {
 public:
  Launch(cudaStream_t stream, const MatchingOperands& o, int32_t* control, char* scratch,
         int64_t scratch_bytes)
      : stream_(stream),
        o_(o),
        control_(control),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes) {}

  ffi::Error run() {
    if (o_.batch == 0) return ffi::Error::Success();
    if (is_small()) return small();
    JAXMATCH_CUDA_CHECK(gpu_.query());
    for (int64_t b = 0; b < o_.batch; ++b) {
      const ffi::Error error = large(b);
      if (error.failure()) return error;
    }
    return ffi::Error::Success();
  }

 private:
  static constexpr int64_t kSmallBytes = 48 << 10;

  bool is_small() const {
    const int64_t n = o_.first.n, m = o_.first.m;
    return o_.method == MatchingMethod::kAuto && o_.init != MatchingInit::kKarpSipser &&
           SmallMatching::bytes(n, m) <= kSmallBytes && (o_.batch > 1 || n + m <= 1024);
  }
  ffi::Error small() {
    const int64_t side = std::max(o_.first.n, o_.first.m);
    const int threads = side <= 128 ? 64 : side <= 512 ? 128 : 256;
    const int64_t bytes = SmallMatching::bytes(o_.first.n, o_.first.m);
    matching_small_kernel<<<unsigned(o_.batch), threads, size_t(bytes), stream_>>>(o_, control_);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
    return ffi::Error::Success();
  }

  ffi::Error large(int64_t b) {
    MatchingState s{};
    s.graph = o_.graph(b);
    s.results = o_.results_of(b);
    s.control = reinterpret_cast<MatchingControl*>(control_ + b * kMatchingControlWords);
    const bool stepped = o_.steps > 0;
    if (lay_out_matching(s, scratch_ + b * scratch_bytes_, stepped) > scratch_bytes_) {
      return ffi::Error::InvalidArgument("jaxmatch_matching: the scratch is too small");
    }
    if (!o_.resumed) {
      JAXMATCH_CUDA_CHECK(cudaMemsetAsync(s.control, 0, sizeof(MatchingControl), stream_));
    }
    const int32_t* start = o_.start_of(b);
    MatchingInit init = o_.init;
    int64_t budget = stepped ? o_.steps : -1;
    Options given("jaxmatch_matching", o_.options);
    switch (o_.method) {
      case MatchingMethod::kAuto: {
        void* arguments[] = {&s, &start, &init, &budget};
        return cooperative(reinterpret_cast<void*>(matching_auto_kernel), arguments);
      }
      case MatchingMethod::kPushRelabel: {
        PushRelabelOptions options = PushRelabelOptions::of(given);
        if (given.failed()) return given.error();
        void* arguments[] = {&s, &start, &init, &budget, &options};
        return cooperative(reinterpret_cast<void*>(matching_push_relabel_kernel), arguments);
      }
      case MatchingMethod::kInitOnly: {
        void* arguments[] = {&s, &start, &init};
        return cooperative(reinterpret_cast<void*>(matching_start_kernel), arguments);
      }
      case MatchingMethod::kApsb:
      case MatchingMethod::kApfb:
      case MatchingMethod::kHopcroftKarp:
      case MatchingMethod::kHkdw: {
        BfsOptions options = BfsOptions::of(o_.method, given);
        if (given.failed()) return given.error();
        void* arguments[] = {&s, &start, &init, &budget, &options};
        return cooperative(reinterpret_cast<void*>(matching_bfs_kernel), arguments);
      }
      default:
        return ffi::Error::InvalidArgument("jaxmatch_matching: no such method on CUDA");
    }
  }
  ffi::Error cooperative(void* kernel, void** arguments) {
    JAXMATCH_CUDA_CHECK(launch_cooperative(stream_, kernel, gpu_.multiprocessors, kMatchingThreads,
                                           arguments, kMatchingSharedBytes,
                                           int(kMatchingSharedBytes)));
    return ffi::Error::Success();
  }

  cudaStream_t stream_;
  const MatchingOperands& o_;
  int32_t* control_;
  char* scratch_;
  int64_t scratch_bytes_;
  GpuLimits gpu_;
};

ffi::Error Matching(cudaStream_t stream, Indices row_ptr, Indices col_ind, Indices col_ptr,
                    Indices row_ind, ffi::RemainingArgs optional, ffi::Result<Indices> col4row,
                    ffi::Result<Indices> row4col, ffi::Result<Indices> cardinality,
                    ffi::Result<Flags> row_cover, ffi::Result<Flags> col_cover,
                    ffi::Result<Indices> status, ffi::Result<Indices> control,
                    ffi::Result<Indices> scratch, ffi::Dictionary attributes) {
  const auto o = decode_matching(row_ptr, col_ind, col_ptr, row_ind, optional, col4row, row4col,
                                 cardinality, row_cover, col_cover, status, attributes);
  if (!o.has_value()) return o.error();
  if (int64_t(control->element_count()) < o->batch * kMatchingControlWords) {
    return ffi::Error::InvalidArgument("jaxmatch_matching: the control words are too few");
  }
  const int64_t bytes = o->batch > 0 ? int64_t(scratch->size_bytes()) / o->batch : 0;
  return Launch(stream, *o, control->typed_data(), static_cast<char*>(scratch->untyped_data()),
                bytes)
      .run();
}

}  // namespace
}  // namespace jaxmatch::matching

JAXMATCH_HANDLER(
    jaxmatch_matching, jaxmatch::matching::Matching,
    JAXMATCH_BIND_MATCHING(xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>())
        .Ret<jaxmatch::matching::Indices>()
        .Ret<jaxmatch::matching::Indices>()
        .Attrs(),
    {xla::ffi::Traits::kCmdBufferCompatible});
