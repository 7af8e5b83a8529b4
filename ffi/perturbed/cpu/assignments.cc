// The targets jaxmatch_noise and jaxmatch_perturbed_assignment on CPU.
#include <atomic>
#include <memory>
#include <new>

#include "assignment/cpu/pick.h"
#include "assignment/cpu/problem.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "perturbed/cpu/noise_fill.h"
#include "perturbed/operands.h"

namespace jaxmatch::perturbed {
namespace {

constexpr double kNoiseNs = 1;  // approximate time of generating one noise value, in ns

// The number of pilots: samples of a problem that are solved first. The mean of their duals is a
// warm start for all other samples. With noise a tenth as strong as the costs, this halves the time
// of the other samples; with noise as strong as the costs, it saves little. The mean duals of fewer
// pilots, or the duals of the problem without noise, would be a worse start.
constexpr int64_t kPilots = 8;

// Memory of one thread, reused for successive samples.
struct Scratch {
  std::unique_ptr<float[]> floats;
  std::unique_ptr<int32_t[]> row4col;
  float *noisy, *leave, *row_dual, *col_dual;

  explicit Scratch(const PerturbedOperands& o)
      : floats(new (std::nothrow) float[size_t(o.entries + 2 * o.n + o.m + 1)]),
        row4col(new (std::nothrow) int32_t[size_t(o.m + 1)]) {
    noisy = floats.get();
    leave = noisy + o.entries;
    row_dual = leave + o.n;
    col_dual = row_dual + o.n;
  }
  bool is_there() const { return floats && row4col; }
};

// Writes the noisy costs of one sample to scratch.noisy, in the layout that the solver expects, and
// its noisy unmatched costs to scratch.leave.
void perturb(const PerturbedOperands& o, int64_t b, int64_t sample, const Scratch& scratch) {
  const NoiseStream& stream = o.stream[b];
  const float* cost = o.cost + b * o.entries;
  const float strength = o.strength[b];
  float* out = scratch.noisy;
  noise_loops(o.noise).fill(stream, stream.first_sample + uint32_t(sample), o.entries, out);
  if (!o.may_leave) {
    for (int64_t k = 0; k < o.entries; ++k) out[k] = cost[k] + strength * out[k];
    return;
  }
  // Moves the last column to `leave`, and closes the gaps between the rows in place. No write
  // overwrites an entry that is still to be read.
  for (int64_t i = 0; i < o.n; ++i) {
    for (int64_t j = 0; j < o.m; ++j) {
      out[i * o.m + j] = cost[i * o.width + j] + strength * out[i * o.width + j];
    }
    scratch.leave[i] = cost[i * o.width + o.m] + strength * out[i * o.width + o.m];
  }
}

// Solves one sample. `start` has column duals to start from, or is null. `col_dual` receives the
// column duals of the solution. Returns false if memory ran out.
bool solve_sample(const PerturbedOperands& o, int64_t b, int64_t sample, SolveAssignment solve,
                  const float* start, float* col_dual, const Scratch& scratch, Arena* arena) {
  perturb(o, b, sample, scratch);
  const int64_t at = b * o.samples + sample;
  float gap;
  AssignmentProblem p{};
  p.cost = scratch.noisy;
  p.cost_dtype = p.unmatched_dtype = p.result_dtype = Dtype::kF32;
  p.n = o.n;
  p.m = o.m;
  p.row_mask = o.row_mask ? o.row_mask + b * o.n : nullptr;
  p.col_mask = o.col_mask ? o.col_mask + b * o.m : nullptr;
  p.unmatched_cost = o.may_leave ? scratch.leave : nullptr;
  p.col4row = o.col4row + at * o.n;
  p.row4col = scratch.row4col.get();
  p.value = o.value + at;
  p.row_dual = scratch.row_dual;
  p.start_dual = start;
  p.col_dual = col_dual;
  p.gap = &gap;
  p.status = o.status + at;
  if (!solve(p, arena)) return false;
  for (int64_t i = 0; o.may_leave && *p.status == kOptimal && i < o.n; ++i) {
    if (p.col4row[i] < 0 && (!p.row_mask || p.row_mask[i])) p.col4row[i] = int32_t(o.m);
  }
  return true;
}

// Averages the duals of each problem's pilots. The means, [batch, m], overwrite the front of
// `duals`. If a pilot could not be solved, its duals are NaN, and so are the means of its problem.
// The solver then ignores them.
void average_duals(const PerturbedOperands& o, int64_t pilots, float* duals) {
  for (int64_t b = 0; b < o.batch; ++b) {
    const float* each = duals + b * pilots * o.m;
    for (int64_t j = 0; j < o.m; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < pilots; ++k) sum += each[k * o.m + j];
      duals[b * o.m + j] = sum / float(pilots);
    }
  }
}

// Counts how often each pair of problem b was chosen.
void count_pairs(const PerturbedOperands& o, int64_t b) {
  float* total = o.total + b * o.entries;
  for (int64_t k = 0; k < o.entries; ++k) total[k] = 0;
  const int32_t* col4row = o.col4row + b * o.samples * o.n;
  for (int64_t sample = 0; sample < o.samples; ++sample, col4row += o.n) {
    for (int64_t i = 0; i < o.n; ++i) {
      if (col4row[i] >= 0) total[i * o.width + col4row[i]] += 1;
    }
  }
}

ffi::Error Perturbed(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> stream,
                     ffi::Buffer<ffi::F32> strength, ffi::Buffer<ffi::F32> cost,
                     ffi::RemainingArgs masks, ffi::Result<ffi::Buffer<ffi::F32>> total,
                     IndexResult col4row, ffi::Result<ffi::Buffer<ffi::F32>> value,
                     IndexResult status, ffi::Dictionary attributes) {
  Attributes given("jaxmatch_perturbed_assignment", attributes);
  const auto decoded =
      decode_perturbed(stream, strength, cost, masks, total, col4row, value, status, given);
  if (!decoded.has_value()) return decoded.error();
  const PerturbedOperands& o = *decoded;
  const SolveAssignment solve = pick_assignment_solver(std::max(o.n, o.m));
  std::atomic<bool> out_of_memory{false};
  // Solves samples [begin, end) of all problems. `duals` receives the column duals of the
  // solutions. `start` has column duals to start from. Either may be null.
  const auto solve_samples = [&](int64_t begin, int64_t end, float* duals, const float* start) {
    const int64_t count = end - begin;
    const auto solve_range = [&](int64_t first, int64_t last) {
      alignas(64) char small[16 << 10];
      ScopedArena arena(small, sizeof small);
      const Scratch scratch(o);
      if (!scratch.is_there()) out_of_memory = true;
      for (int64_t k = first; k < last && !out_of_memory; ++k) {
        const int64_t b = k / count, sample = begin + k % count;
        if (!solve_sample(o, b, sample, solve, start ? start + b * o.m : nullptr,
                          duals ? duals + k * o.m : scratch.col_dual, scratch, &arena)) {
          out_of_memory = true;
        }
      }
    };
    for_each_range(pool, o.batch * count, 200 + (3 + kNoiseNs) * double(o.entries), solve_range);
  };
  const int64_t pilots = o.samples >= 2 * kPilots ? kPilots : 0;
  const size_t size = size_t(o.batch * pilots * o.m + 1);
  const std::unique_ptr<float[]> duals(new (std::nothrow) float[size]);
  if (!duals) out_of_memory = true;
  if (pilots > 0 && !out_of_memory) {
    solve_samples(0, pilots, duals.get(), nullptr);
    average_duals(o, pilots, duals.get());
  }
  solve_samples(pilots, o.samples, nullptr, pilots > 0 ? duals.get() : nullptr);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_perturbed_assignment: no memory for the workspace");
  }
  const auto count_range = [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) count_pairs(o, b);
  };
  for_each_range(pool, o.batch, double(o.entries + o.samples * o.n), count_range);
  return ffi::Error::Success();
}

// Writes the noise of several samples of each problem, in the shape [batch, samples, entries].
ffi::Error MakeNoise(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> stream,
                     ffi::Result<ffi::Buffer<ffi::F32>> out, ffi::Dictionary attributes) {
  Attributes given("jaxmatch_noise", attributes);
  const Noise noise = given.named("noise", kNoises);
  if (given.failed()) return given.error();
  const auto sizes = out->dimensions();
  const int64_t batch = int64_t(stream.element_count()) / 4;
  if (sizes.size() < 2 || batch_size(sizes, 2) != batch) {
    return ffi::Error::InvalidArgument("jaxmatch_noise: shapes do not belong together");
  }
  const int64_t samples = sizes[sizes.size() - 2], entries = sizes[sizes.size() - 1];
  const auto* streams = reinterpret_cast<const NoiseStream*>(stream.typed_data());
  const auto fill_range = [&](int64_t first, int64_t last) {
    for (int64_t k = first; k < last; ++k) {
      const NoiseStream& s = streams[k / samples];
      noise_loops(noise).fill(s, s.first_sample + uint32_t(k % samples), entries,
                              out->typed_data() + k * entries);
    }
  };
  for_each_range(pool, batch * samples, 20 + kNoiseNs * double(entries), fill_range);
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::perturbed

JAXMATCH_INTERRUPTIBLE_HANDLER(jaxmatch_perturbed_assignment, jaxmatch::perturbed::Perturbed,
                               xla::ffi::Ffi::Bind()
                                   .Ctx<xla::ffi::ThreadPool>()
                                   .Arg<xla::ffi::Buffer<xla::ffi::U32>>()
                                   .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                                   .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                                   .RemainingArgs()
                                   .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                                   .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                                   .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                                   .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                                   .Attrs());

JAXMATCH_HANDLER(jaxmatch_noise, jaxmatch::perturbed::MakeNoise,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::ThreadPool>()
                     .Arg<xla::ffi::Buffer<xla::ffi::U32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                     .Attrs());
