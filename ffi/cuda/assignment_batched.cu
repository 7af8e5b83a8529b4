// The target jaxmatch_assignment on CUDA: picks a kernel by shape and launches it, once.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "assignment_kernels.h"
#include "jaxmatch/cuda_check.h"
#include "jaxmatch/decode_assignment.h"

namespace jaxmatch {
namespace {

constexpr int kControlBytes = 32;

// Hands out shared memory.
struct Stack {
  int used = 0;
  int take(int64_t bytes) {
    const int offset = used;
    used += int((bytes + 15) / 16 * 16);
    return offset;
  }
};

// The sides of a problem in canonical form, at most.
struct Sides {
  int64_t rows, cols;
  explicit Sides(const AssignmentOperands& o)
      : rows(o.unmatched_cost ? o.n : std::min(o.n, o.m)),
        cols(o.unmatched_cost ? o.m : std::max(o.n, o.m)) {}
};

struct Choice {
  int warps;  // for one problem; 1: problems share a block
  int columns_per_thread;
  int problems_per_block;
  Tuning tuning;
};

double Env(const char* name, double otherwise) {
  const char* s = std::getenv(name);
  return s ? std::atof(s) : otherwise;
}

Choice Choose(const AssignmentOperands& o) {
  const Sides sides(o);
  const int64_t width = std::max<int64_t>((sides.cols + 31) / 32, 1);
  bool alone = sides.cols <= 32 || (sides.cols <= 128 && o.batch * width > 132 * 32);
  if (o.cost_dtype == Dtype::kS64) alone = false;
  const double forced = Env("JM_ALONE", -1);
  if (forced == 1 && sides.cols <= 128) alone = true;
  if (forced == 0) alone = false;
  Choice c;
  if (alone) {
    c.warps = 1;
    c.columns_per_thread = sides.cols <= 32 ? 1 : sides.cols <= 64 ? 2 : 4;
    c.problems_per_block = int(Env("JM_PER_BLOCK", 2));
    c.tuning = {float(Env("JM_REBIDS", 1)), 0, 0, 0};
  } else {
    c.columns_per_thread = 4;
    c.warps = int(std::min<int64_t>(width, int64_t(Env("JM_WARPS", 32))));
    c.warps = std::max<int>(c.warps, int((sides.cols + 127) / 128));
    c.problems_per_block = 1;
    c.tuning = {float(Env("JM_REBIDS", 2)), float(Env("JM_CROWD", 0.5)), float(Env("JM_TIED", 1)),
                int(Env("JM_UPDATES", 64))};
  }
  return c;
}

bool MayTurn(const AssignmentOperands& o) {
  return !o.unmatched_cost && (o.n > o.m || o.col_mask);
}

// Whether a problem may need a copy in canonical form. The same rule stands in
// jaxmatch/_native/_assignment.py.
bool MayCopy(const AssignmentOperands& o) {
  return o.row_mask || o.col_mask || MayTurn(o) || size_of(o.cost_dtype) == 2;
}

SharedLayout Layout(const AssignmentOperands& o, bool alone, bool in_shared) {
  const auto [rows, cols] = Sides(o);
  const int64_t width = (cols + 255) / 256 * 256;
  const int stored = size_of(o.cost_dtype) == 8 ? 8 : 4;
  const int key = o.cost_dtype == Dtype::kS64 ? 16 : 8;
  Stack stack;
  SharedLayout s;
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
  s.slots = stack.take(alone ? 0 : 2048);
  s.control = stack.take(kControlBytes);
  s.claim = stack.take(alone ? 0 : cols * 4);
  s.tight = -1;
  if (!alone && o.n == o.m && cols <= 1024 && !o.unmatched_cost && stored == 4) {
    const int64_t words = (cols + 127) / 128 * 4;
    s.tight = stack.take(rows * words * 4);
    s.visited = stack.take(words * 4);
    s.end = stack.take(rows * 4);
    s.root = stack.take(rows * 2);
    s.frontier = stack.take(rows * 4);
    s.counter = stack.take(16);
  }
  s.tiles = stack.take(MayTurn(o) && !in_shared ? (alone ? 1 : kTiles) * 32 * 33 * stored : 0);
  s.words = in_shared ? stack.take(rows * copied_stride(cols) * stored) : -1;
  s.bytes = stack.used;
  return s;
}

AssignmentKernel KernelOf(const Choice& choice, Dtype dtype) {
  const int k = choice.columns_per_thread;
  if (choice.warps == 1 && choice.problems_per_block > 1) return WarpKernel(k, dtype);
  return BlockKernel(dtype);
}

ffi::Error Assignment(cudaStream_t stream, ffi::RemainingArgs args, IndexResult col4row,
                      IndexResult row4col, RealResult value, RealResult row_dual,
                      RealResult col_dual, RealResult gap, IndexResult status,
                      RealResult workspace, int64_t given, bool maximize) {
  const auto decoded = DecodeAssignment(args, col4row, row4col, value, row_dual, col_dual, gap,
                                        status, given, maximize);
  if (!decoded.has_value()) return decoded.error();
  AssignmentBatch b{*decoded, workspace->untyped_data(), 0, {}, {}};
  if (b.batch == 0) return ffi::Error::Success();
  if (std::max(b.n, b.m) > kLongestSide) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: a side longer than " +
                                       std::to_string(kLongestSide) + " on CUDA");
  }
  const int word = size_of(b.cost_dtype) == 8 ? 8 : 4;
  b.workspace_words = int64_t(workspace->size_bytes()) / b.batch / word;
  const Choice choice = Choose(b);
  const bool alone = choice.warps == 1 && choice.problems_per_block > 1;
  b.shared = Layout(b, alone, MayCopy(b) && b.workspace_words == 0);
  b.tuning = choice.tuning;
  const AssignmentKernel kernel = KernelOf(choice, b.cost_dtype);
  const int64_t blocks = (b.batch + choice.problems_per_block - 1) / choice.problems_per_block;
  const int bytes = b.shared.bytes * choice.problems_per_block;
  JAXMATCH_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const int carve = int(Env("JM_CARVE", -1));
  if (carve >= 0) {
    JAXMATCH_CUDA_CHECK(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carve));
  }
  const int threads = 32 * choice.warps * choice.problems_per_block;
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
                     .Attr<bool>("maximize"),
                 {xla::ffi::Traits::kCmdBufferCompatible});
