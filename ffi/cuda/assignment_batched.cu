// The target jaxmatch_assignment on CUDA: picks a kernel by shape and launches it, once.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "assignment_kernels.h"
#include "jaxmatch/cuda_check.h"
#include "jaxmatch/decode_assignment.h"

namespace jaxmatch {
namespace {

// The sides of a problem in canonical form, at most.
struct Sides {
  int64_t rows, cols;
  explicit Sides(const AssignmentOperands& o)
      : rows(o.unmatched_cost ? o.n : std::min(o.n, o.m)),
        cols(o.unmatched_cost ? o.m : std::max(o.n, o.m)) {}
};

// One line for each kernel and how it is used; the first that fits is taken.
// benchmarks/notes/assignment_gpu.md tells how each number was found.
struct Choice {
  int64_t most_cols;
  int64_t least_warps;  // in a whole batch with one warp for every 32 columns
  int columns_per_lane;
  bool alone;  // one warp for each problem; else one for every 32 columns, 32 at most
  Effort effort;
};

constexpr int64_t kAnyBatch = 0;
// Above this many warps a GPU has enough to do with one warp for each problem.
constexpr int64_t kFullGpu = 4096;
constexpr int64_t kTypicalBatch = 256;  // where the real one must not matter

constexpr Choice kChoices[] = {
    {32, kAnyBatch, 1, true, {1, 0, 0, 0}},
    {64, kFullGpu, 2, true, {1, 0, 0, 0}},
    {128, 2 * kFullGpu, 4, true, {1, 0, 0, 0}},
    {128, kAnyBatch, 4, false, {1, 0.25, 1, 64}},
    {INT32_MAX, kAnyBatch, 4, false, {4, 0.5, 1, 64}},
};

// JAXMATCH_CUDA_KERNEL=warp|block asks for one of them where it fits, for tests and measurements.
const Choice& Choose(const AssignmentOperands& o, bool by_batch) {
  const char* kernel = std::getenv("JAXMATCH_CUDA_KERNEL");
  const std::string_view asked(kernel != nullptr ? kernel : "");
  const Sides sides(o);
  const int64_t warps = (by_batch ? o.batch : kTypicalBatch) * ((sides.cols + 31) / 32);
  for (const Choice& choice : kChoices) {
    if (o.cost_dtype == Dtype::kS64 && choice.alone) continue;  // 128-bit sums: blocks only
    if (asked == "block" && choice.alone) continue;
    const bool enough = warps >= choice.least_warps || (asked == "warp" && choice.alone);
    if (sides.cols <= choice.most_cols && enough) return choice;
  }
  return *(std::end(kChoices) - 1);
}

// Problems of one warp that share a block: as many blocks fit a multiprocessor as it has warps for.
constexpr int kProblemsPerBlock = 2;

int WarpsPerProblem(const Choice& choice, int64_t cols) {
  if (choice.alone) return 1;
  return int(std::min<int64_t>(std::max<int64_t>((cols + 31) / 32, 1), 32));
}

bool MayTurn(const AssignmentOperands& o) { return !o.unmatched_cost && (o.n > o.m || o.col_mask); }

// Whether a problem may need a copy in canonical form. The same rule stands in
// jaxmatch/_native/_assignment.py.
bool MayCopy(const AssignmentOperands& o) {
  return o.row_mask || o.col_mask || MayTurn(o) || size_of(o.cost_dtype) == 2;
}

// Hands out shared memory.
struct Stack {
  int64_t used = 0;
  int take(int64_t bytes) {
    const int64_t offset = used;
    used += (bytes + 15) / 16 * 16;
    return int(offset);
  }
};

// `ties`: with room for the stage for ties, where it may be of use.
SharedLayout Layout(const AssignmentOperands& o, const Choice& choice, bool copy_in_shared,
                    bool ties) {
  // The stage for ties holds a bit for every pair.
  constexpr int64_t kMostTiedCols = 1024;
  const auto [rows, cols] = Sides(o);
  // v is read a pack of every lane at a time, two at a time by blocks.
  const int64_t step = 32 * choice.columns_per_lane * (choice.alone ? 1 : 2);
  const int64_t width = (cols + step - 1) / step * step;
  const int word = size_of(o.cost_dtype) == 8 ? 8 : 4;
  const int key = o.cost_dtype == Dtype::kS64 ? 16 : 8;
  Stack stack;
  SharedLayout s{};
  s.v = stack.take(width * key);
  s.u = stack.take(rows * key);
  s.leave = stack.take(o.unmatched_cost ? rows * key : 0);
  s.row4col = stack.take(width * 2);
  s.col4row = stack.take(rows * 2);
  s.free_rows = stack.take(rows * 4);
  s.kept_rows = int(s.free_rows + rows * 2);
  s.pred = stack.take(std::max(rows, cols) * 2);
  s.row_ids = stack.take(o.row_mask ? o.n * 2 : 0);
  s.col_ids = stack.take(o.col_mask ? o.m * 2 : 0);
  s.control = stack.take(kControls * 4);
  s.tight = -1;
  if (!choice.alone) {
    s.slots = stack.take(kSlotBytes);
    s.claim = stack.take(cols * 4);
    if (ties && o.n == o.m && !o.unmatched_cost && cols <= kMostTiedCols && word == 4) {
      const int64_t words = (cols + 127) / 128 * 4;
      s.tight = stack.take(rows * words * 4);
      s.visited = stack.take(words * 4);
      s.end = stack.take(rows * 4);
      s.root = stack.take(rows * 2);
      s.frontiers = stack.take(rows * 4);
      s.counter = stack.take(kCounters * 4);
    }
  }
  if (MayTurn(o) && !copy_in_shared) {
    s.tiles = stack.take((choice.alone ? 1 : kTiles) * 32 * 33 * word);
  }
  s.words = copy_in_shared ? stack.take(rows * copied_stride(cols, true) * word) : -1;
  s.bytes = int(stack.used);
  return s;
}

ffi::Error Assignment(cudaStream_t stream, ffi::RemainingArgs args, IndexResult col4row,
                      IndexResult row4col, RealResult value, RealResult row_dual,
                      RealResult col_dual, RealResult gap, IndexResult status, RealResult workspace,
                      int64_t given, bool maximize, bool by_batch) {
  const auto decoded = DecodeAssignment(args, col4row, row4col, value, row_dual, col_dual, gap,
                                        status, given, maximize);
  if (!decoded.has_value()) return decoded.error();
  AssignmentBatch b{*decoded, workspace->untyped_data(), 0, {}, {}};
  if (b.batch == 0) return ffi::Error::Success();
  if (const int64_t longest = longest_side(b.cost_dtype); std::max(b.n, b.m) > longest) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: a side longer than " +
                                       std::to_string(longest) + " on CUDA");
  }
  const int word = size_of(b.cost_dtype) == 8 ? 8 : 4;
  b.workspace_words = int64_t(workspace->size_bytes()) / b.batch / word;
  const Sides sides(b);
  const bool in_shared = MayCopy(b) && b.workspace_words == 0;
  if (MayCopy(b) && !in_shared &&
      b.workspace_words < sides.rows * copied_stride(sides.cols, false)) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: the workspace is too small");
  }
  const Choice& choice = Choose(b, by_batch);
  const int problems = choice.alone ? kProblemsPerBlock : 1;
  int device, most_bytes;
  JAXMATCH_CUDA_CHECK(cudaGetDevice(&device));
  JAXMATCH_CUDA_CHECK(
      cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  b.shared = Layout(b, choice, in_shared, true);
  if (b.shared.bytes * problems > most_bytes) b.shared = Layout(b, choice, in_shared, false);
  const int bytes = b.shared.bytes * problems;
  if (bytes > most_bytes) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment: problems of " + std::to_string(b.n) + " x " +
                          std::to_string(b.m) + " need " + std::to_string(bytes) +
                          " bytes of shared memory, this GPU has " + std::to_string(most_bytes) +
                          "; method=\"xla\" needs none");
  }
  b.effort = choice.effort;

  const AssignmentKernel kernel =
      choice.alone ? WarpKernel(choice.columns_per_lane, b.cost_dtype) : BlockKernel(b.cost_dtype);
  const int threads = 32 * problems * WarpsPerProblem(choice, sides.cols);
  const int64_t blocks = (b.batch + problems - 1) / problems;
  if (blocks > INT32_MAX) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: too many problems in one batch");
  }
  JAXMATCH_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  kernel<<<unsigned(blocks), threads, bytes, stream>>>(b);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_assignment, jaxmatch::Assignment,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Attr<int64_t>("given")
                     .Attr<bool>("maximize")
                     .Attr<bool>("by_batch"),
                 {xla::ffi::Traits::kCmdBufferCompatible});
