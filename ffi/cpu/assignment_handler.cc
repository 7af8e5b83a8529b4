// The target jaxmatch_assignment on CPU: decodes buffers, picks the instruction set, spreads the
// batch. Python has checked shapes and dtypes; the checks here are a backstop.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "assignment.h"
#include "jaxmatch/batch.h"
#include "jaxmatch/handler.h"

namespace jaxmatch {
namespace {

// The instruction sets that this processor has, best last. JAXMATCH_ISA=portable|avx2|avx512 asks
// for one of them, for tests and measurements.
SolveAssignment Pick(int64_t cols) {
  struct Choice {
    SolveAssignment narrow, wide;
  };
  static const Choice choice = [] {
    const char* isa = std::getenv("JAXMATCH_ISA");
    const std::string_view asked(isa != nullptr ? isa : "");
    Choice best{portable::solve_assignment, portable::solve_assignment};
    if (asked == "portable") return best;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_fma_f16c = __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#if defined(JAXMATCH_HAVE_AVX2)
    if (has_fma_f16c && __builtin_cpu_supports("avx2")) {
      best = {avx2::solve_assignment, avx2::solve_assignment};
    }
#endif
#if defined(JAXMATCH_HAVE_AVX512)
    if (asked != "avx2" && has_fma_f16c && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      best.wide = avx512::solve_assignment;
      if (asked == "avx512") best.narrow = best.wide;
    }
#endif
#endif
    return best;
  }();
  // Eight lanes pay where rows are long; all choices give the same bits.
  constexpr int64_t kWide = 256;
  return cols < kWide ? choice.narrow : choice.wide;
}

std::optional<Dtype> DtypeOf(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::BF16:
      return Dtype::kBF16;
    case ffi::F16:
      return Dtype::kF16;
    case ffi::F32:
      return Dtype::kF32;
    case ffi::F64:
      return Dtype::kF64;
    case ffi::S32:
      return Dtype::kS32;
    case ffi::S64:
      return Dtype::kS64;
    default:
      return std::nullopt;
  }
}

size_t SizeOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16:
    case Dtype::kF16:
      return 2;
    case Dtype::kF32:
    case Dtype::kS32:
      return 4;
    default:
      return 8;
  }
}

// `given` tells which optional operands follow the costs, in the order of these bits.
enum Given : int64_t { kRowMask = 1, kColMask = 2, kUnmatchedCost = 4, kColDual = 8 };

ffi::Error Assignment(ffi::ThreadPool pool, ffi::RemainingArgs args,
                      ffi::Result<ffi::Buffer<ffi::S32>> col4row,
                      ffi::Result<ffi::Buffer<ffi::S32>> row4col, ffi::Result<ffi::AnyBuffer> value,
                      ffi::Result<ffi::AnyBuffer> row_dual, ffi::Result<ffi::AnyBuffer> col_dual,
                      ffi::Result<ffi::AnyBuffer> gap, ffi::Result<ffi::Buffer<ffi::S32>> status,
                      int64_t given, bool maximize) {
  size_t next = 0;
  const auto take = [&](bool is_given) -> std::optional<ffi::AnyBuffer> {
    if (!is_given || next >= args.size()) return std::nullopt;
    auto buffer = args.get<ffi::AnyBuffer>(next++);
    return buffer.has_value() ? std::optional<ffi::AnyBuffer>(*buffer) : std::nullopt;
  };
  const auto cost = take(true);
  const auto row_mask = take(given & kRowMask), col_mask = take(given & kColMask);
  const auto unmatched = take(given & kUnmatchedCost), start = take(given & kColDual);
  if (!cost || cost->dimensions().size() < 2) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: costs must have shape [..., n, m]");
  }
  const auto cost_dtype = DtypeOf(cost->element_type());
  const auto result_dtype = DtypeOf(value->element_type());
  const auto unmatched_dtype =
      unmatched ? DtypeOf(unmatched->element_type()) : std::optional<Dtype>(Dtype::kF32);
  if (!cost_dtype || !result_dtype || !unmatched_dtype) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: unsupported dtype");
  }
  const auto dimensions = cost->dimensions();
  const int64_t n = dimensions[dimensions.size() - 2], m = dimensions[dimensions.size() - 1];
  const int64_t batch = BatchSize(dimensions, 2);
  if (n > INT32_MAX - 64 || m > INT32_MAX - 64) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: a side of 2^31 or more");
  }

  const size_t cost_size = SizeOf(*cost_dtype), size = SizeOf(*result_dtype);
  const size_t unmatched_size = SizeOf(*unmatched_dtype);
  const auto at = [](const auto& buffer, size_t offset) {
    return buffer ? static_cast<const char*>(buffer->untyped_data()) + offset : nullptr;
  };
  const SolveAssignment solve = Pick(std::max(n, m));
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    alignas(64) char small[16 << 10];
    Arena arena{small, sizeof small, false};
    for (int64_t b = first; b < last; ++b) {
      AssignmentProblem p;
      p.cost = at(cost, size_t(b) * n * m * cost_size);
      p.cost_dtype = *cost_dtype;
      p.n = n;
      p.m = m;
      p.maximize = maximize;
      p.row_mask = reinterpret_cast<const uint8_t*>(at(row_mask, size_t(b) * n));
      p.col_mask = reinterpret_cast<const uint8_t*>(at(col_mask, size_t(b) * m));
      p.unmatched_cost = at(unmatched, size_t(b) * n * unmatched_size);
      p.unmatched_dtype = *unmatched_dtype;
      p.start_dual = at(start, size_t(b) * m * size);
      p.result_dtype = *result_dtype;
      p.col4row = col4row->typed_data() + b * n;
      p.row4col = row4col->typed_data() + b * m;
      p.value = static_cast<char*>(value->untyped_data()) + b * size;
      p.row_dual = static_cast<char*>(row_dual->untyped_data()) + b * n * size;
      p.col_dual = static_cast<char*>(col_dual->untyped_data()) + b * m * size;
      p.gap = static_cast<char*>(gap->untyped_data()) + b * size;
      p.status = status->typed_data() + b;
      if (!solve(p, &arena)) out_of_memory = true;
    }
    if (arena.owned) std::free(arena.base);
  };
  ForEachRange(pool, batch, 200 + 3.0 * double(n) * double(m), solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_assignment, jaxmatch::Assignment,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::ThreadPool>()
                     .RemainingArgs()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Attr<int64_t>("given")
                     .Attr<bool>("maximize"));
