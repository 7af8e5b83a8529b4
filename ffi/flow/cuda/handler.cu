// The target jaxmatch_flow on CUDA. Large networks are solved one after another, each by the whole
// GPU in cooperative launches. A batch of small networks is solved at once, one block each. Each
// problem takes three kernels (begin, solve, finish), because only the first and the last depend on
// the types of capacities. The host reads nothing back: kernels pass decisions to later kernels in
// the control words.
#include <algorithm>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "flow/cuda/kernels.cuh"

namespace jaxmatch::flow {
namespace {

constexpr int kSmallThreads = 512;  // maximum threads per block for small networks

template <class C>
__global__ void __launch_bounds__(kFlowThreads, 1)
    flow_begin_kernel(const __grid_constant__ FlowState s, const __grid_constant__ FlowPlan plan) {
  begin_problem<C>(s, plan, false);
}

template <class Word>
__global__ void __launch_bounds__(kFlowThreads, 1)
    flow_auto_kernel(const __grid_constant__ FlowState s, const __grid_constant__ FlowPlan plan) {
  solve_problem<Word, AutoPushes<Word>>(s, plan, false);
}

template <FlowLayout kLayout>
__global__ void __launch_bounds__(kFlowThreads, 1)
    flow_thread_centric_kernel(const __grid_constant__ FlowState s,
                               const __grid_constant__ FlowPlan plan) {
  solve_problem<int64_t, ThreadCentric<int64_t, kLayout>>(s, plan, false, plan.two_level);
}

template <FlowLayout kLayout>
__global__ void __launch_bounds__(kFlowThreads, 1)
    flow_two_level_kernel(const __grid_constant__ FlowState s,
                          const __grid_constant__ FlowPlan plan) {
  solve_problem<int64_t, TwoLevel<int64_t, kLayout>>(s, plan, false, plan.two_level);
}

template <class C, class V>
__global__ void __launch_bounds__(kFlowThreads, 1)
    flow_finish_kernel(const __grid_constant__ FlowState s, const __grid_constant__ FlowPlan plan) {
  finish_problem<C, V>(s, plan, false);
}

// Computes the state of the problem that this block solves; for small networks.
__device__ inline void state_of_block(const FlowBatch& batch, FlowState& s) {
  if (threadIdx.x == 0) s = batch.state(blockIdx.x);
  __syncthreads();
}

template <class C>
__global__ void __launch_bounds__(kSmallThreads)
    flow_begin_small_kernel(const __grid_constant__ FlowBatch batch,
                            const __grid_constant__ FlowPlan plan) {
  __shared__ FlowState s;
  state_of_block(batch, s);
  begin_problem<C>(s, plan, true);
}

template <class Word>
__global__ void __launch_bounds__(kSmallThreads)
    flow_auto_small_kernel(const __grid_constant__ FlowBatch batch,
                           const __grid_constant__ FlowPlan plan) {
  __shared__ FlowState s;
  state_of_block(batch, s);
  solve_problem<Word, AutoPushes<Word>>(s, plan, true);
}

template <class C, class V>
__global__ void __launch_bounds__(kSmallThreads)
    flow_finish_small_kernel(const __grid_constant__ FlowBatch batch,
                             const __grid_constant__ FlowPlan plan) {
  __shared__ FlowState s;
  state_of_block(batch, s);
  finish_problem<C, V>(s, plan, true);
}

// The first and the last kernel for one combination of types, each also for small networks.
struct FlowKernels {
  void *begin, *finish, *begin_small, *finish_small;

  template <class C, class V>
  static FlowKernels of() {
    return {reinterpret_cast<void*>(flow_begin_kernel<C>),
            reinterpret_cast<void*>(flow_finish_kernel<C, V>),
            reinterpret_cast<void*>(flow_begin_small_kernel<C>),
            reinterpret_cast<void*>(flow_finish_small_kernel<C, V>)};
  }
  static FlowKernels of(Dtype capacity, Dtype value) {
    switch (capacity) {
      case Dtype::kS64:
        return of<int64_t, int64_t>();
      case Dtype::kF32:
        return of<float, float>();
      case Dtype::kF64:
        return of<double, double>();
      default:
        return value == Dtype::kS64 ? of<int32_t, int64_t>() : of<int32_t, int32_t>();
    }
  }
};

template <FlowLayout kLayout>
void* two_level_kernel(FlowMethod method) {
  return method == FlowMethod::kThreadCentric
             ? reinterpret_cast<void*>(flow_thread_centric_kernel<kLayout>)
             : reinterpret_cast<void*>(flow_two_level_kernel<kLayout>);
}

bool is_two_level(FlowMethod method) {
  return method == FlowMethod::kThreadCentric || method == FlowMethod::kTwoLevel;
}

class Launch {
 public:
  Launch(cudaStream_t stream, const FlowOperands& o, const TwoLevelOptions& options,
         int32_t* control, char* scratch, int64_t scratch_bytes, bool resumed)
      : stream_(stream),
        batch_{
            o, control, scratch, scratch_bytes, size_of(o.capacity_dtype), size_of(o.value_dtype)},
        plan_{FlowTuning(), options, false, o.steps > 0 ? o.steps : -1},
        kernels_(FlowKernels::of(o.capacity_dtype, o.value_dtype)),
        resumed_(resumed),
        is_two_level_(is_two_level(o.method)) {
    if (is_two_level_) {
      plan_.tuning.wide = 1;
      plan_.ordered = plan_.two_level.layout != FlowLayout::kRcsr;
    }
  }

  ffi::Error run() {
    const FlowOperands& o = batch_.operands;
    if (o.batch == 0) return ffi::Error::Success();
    FlowState first{};
    first.network = o.first;
    if (lay_out_flow(first, nullptr) > batch_.scratch_bytes) {
      return ffi::Error::InvalidArgument("jaxmatch_flow: the scratch is too small");
    }
    if (!resumed_) {
      const size_t bytes = size_t(4 * kFlowControlWords * o.batch);
      JAXMATCH_CUDA_CHECK(cudaMemsetAsync(batch_.control, 0, bytes, stream_));
    }
    if (is_small()) return small();
    JAXMATCH_CUDA_CHECK(gpu_.query());
    for (int64_t b = 0; b < o.batch; ++b) {
      const ffi::Error error = large(b);
      if (error.failure()) return error;
    }
    return ffi::Error::Success();
  }

 private:
  int shared_bytes() const { return flow_shared_bytes(batch_.operands.first.nodes); }
  // On a small network one block is nearly as fast as the whole grid, and a batch runs many blocks
  // at once.
  bool is_small() const {
    const FlowOperands& o = batch_.operands;
    const int64_t size = int64_t(o.first.nodes) + o.first.arcs;
    return !is_two_level_ && size <= (o.batch > 1 ? 1 << 15 : 1 << 12);
  }
  ffi::Error small() {
    const FlowOperands& o = batch_.operands;
    const unsigned threads = o.first.arcs <= 2048 ? 128 : o.first.arcs <= 8192 ? 256 : 512;
    void* arguments[] = {&batch_, &plan_};
    for (void* kernel :
         {kernels_.begin_small, reinterpret_cast<void*>(flow_auto_small_kernel<int32_t>),
          reinterpret_cast<void*>(flow_auto_small_kernel<int64_t>), kernels_.finish_small}) {
      JAXMATCH_CUDA_CHECK(cudaLaunchKernel(kernel, dim3(unsigned(o.batch)), dim3(threads),
                                           arguments, size_t(shared_bytes()), stream_));
    }
    return ffi::Error::Success();
  }

  ffi::Error large(int64_t b) {
    FlowState s = batch_.state(b);
    void* solve[2] = {reinterpret_cast<void*>(flow_auto_kernel<int32_t>),
                      reinterpret_cast<void*>(flow_auto_kernel<int64_t>)};
    if (is_two_level_) {
      const FlowMethod method = batch_.operands.method;
      solve[0] = plan_.two_level.layout == FlowLayout::kRcsr
                     ? two_level_kernel<FlowLayout::kRcsr>(method)
                 : plan_.two_level.layout == FlowLayout::kBcsr
                     ? two_level_kernel<FlowLayout::kBcsr>(method)
                     : two_level_kernel<FlowLayout::kCsr>(method);
      solve[1] = nullptr;
    }
    void* arguments[] = {&s, &plan_};
    for (void* kernel : {kernels_.begin, solve[0], solve[1], kernels_.finish}) {
      if (kernel == nullptr) continue;
      JAXMATCH_CUDA_CHECK(launch_cooperative(stream_, kernel, gpu_.multiprocessors, kFlowThreads,
                                             arguments, shared_bytes(),
                                             flow_shared_bytes(kKnownNodes)));
    }
    return ffi::Error::Success();
  }

  cudaStream_t stream_;
  FlowBatch batch_;
  FlowPlan plan_;
  FlowKernels kernels_;
  bool resumed_, is_two_level_;
  GpuLimits gpu_;
};

ffi::Error Flow(cudaStream_t stream, NetworkArray arc_ptr, NetworkArray arc_head,
                NetworkArray reverse_arc, NetworkArray edge_ptr, NetworkArray arc_edge,
                ffi::AnyBuffer capacity, NetworkArray source, NetworkArray sink,
                ffi::RemainingArgs state, ffi::Result<ffi::AnyBuffer> value,
                ffi::Result<ffi::AnyBuffer> flow, ffi::Result<FlowFlags> source_side,
                ffi::Result<NetworkArray> status, ffi::Result<NetworkArray> control,
                ffi::Result<NetworkArray> scratch, ffi::Dictionary attributes) {
  const auto o = decode_flow(arc_ptr, arc_head, reverse_arc, edge_ptr, arc_edge, capacity, source,
                             sink, value, flow, source_side, status, attributes);
  if (!o.has_value()) return o.error();
  if (o->method != FlowMethod::kAuto && !is_two_level(o->method)) {
    return ffi::Error::InvalidArgument("jaxmatch_flow: no such method on CUDA");
  }
  if (int64_t(control->element_count()) < o->batch * kFlowControlWords) {
    return ffi::Error::InvalidArgument("jaxmatch_flow: the control words are too few");
  }
  const int64_t bytes = o->batch > 0 ? int64_t(scratch->size_bytes()) / o->batch : 0;
  Options given("jaxmatch_flow", o->options);
  const TwoLevelOptions options = TwoLevelOptions::of(o->method, given);
  if (given.failed()) return given.error();
  return Launch(stream, *o, options, control->typed_data(),
                static_cast<char*>(scratch->untyped_data()), bytes, state.size() > 0)
      .run();
}

}  // namespace
}  // namespace jaxmatch::flow

JAXMATCH_HANDLER(
    jaxmatch_flow, jaxmatch::flow::Flow,
    JAXMATCH_BIND_FLOW(xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>())
        .Ret<jaxmatch::flow::NetworkArray>()
        .Ret<jaxmatch::flow::NetworkArray>()
        .Attrs(),
    {xla::ffi::Traits::kCmdBufferCompatible});
