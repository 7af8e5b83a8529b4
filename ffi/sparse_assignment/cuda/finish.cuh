// Results: pairs, duals, cost and gap, or the status of a problem without an assignment.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_FINISH_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_FINISH_CUH_

#include "common/compensated_sum.h"
#include "sparse_assignment/cuda/scan.cuh"

namespace jaxmatch::sparse_assignment {

template <class Team>
__device__ void write_failure(const Team& team, const SparseProblem& p, Status status) {
  const double nan = __builtin_nan("");
  team.each(p.n, [&](int64_t i) {
    p.col4row[i] = p.edge[i] = kNone;
    write_real(p.row_dual, p.result_dtype, i, nan);
  });
  team.each(p.m, [&](int64_t j) {
    p.row4col[j] = kNone;
    write_real(p.col_dual, p.result_dtype, j, nan);
  });
  team.one([&] {
    write_real(p.value, p.result_dtype, 0, nan);
    write_real(p.gap, p.result_dtype, 0, nan);
    *p.status = status;
  });
}

template <class Team>
struct Finish {
  const Team team;
  const Graph& g;
  const SparseProblem& p;
  const Workspace& w;
  int width;

  __device__ bool has_row(int64_t i) const { return !p.row_mask || p.row_mask[i]; }
  __device__ bool has_col(int64_t j) const { return !p.col_mask || p.col_mask[j]; }

  // Rounds prices to units, so that those of the matching are exact. The prices of any two right
  // vertices that an arc of the residual graph joins are wrong by less than 2^(kLastEpsilon + 1).
  // Of as many intervals of this length in a unit, as there are more than vertices, the fractions
  // of all prices leave one free. If units end with this one, a rounded price cannot be wrong by a
  // unit.
  __device__ void round_prices() {
    constexpr int kBits = kLastEpsilon + 1;
    const int64_t intervals = int64_t(1) << (g.c.shift - kBits), words = (intervals + 31) / 32;
    uint32_t* const used = reinterpret_cast<uint32_t*>(w.list[0]);
    team.sync();
    team.each(words, [&](int64_t k) { used[k] = intervals < 32 ? ~0u << intervals : 0; });
    team.sync();
    const uint64_t mask = (uint64_t(1) << g.c.shift) - 1;
    team.each(g.c.vertices, [&](int64_t y) {
      const uint64_t at = (uint64_t(w.price[y]) & mask) >> kBits;
      atomicOr(reinterpret_cast<unsigned*>(&used[at / 32]), 1u << at % 32);
    });
    team.sync();
    uint64_t first = ~uint64_t(0), none = 0;
    team.each(words, [&](int64_t k) {
      if (used[k] == ~0u || uint64_t(k) * 32 > first) return;
      const uint64_t at = uint64_t(k) * 32 + uint64_t(__ffs(int(~used[k])) - 1);
      first = at < first ? at : first;
    });
    team.least(first, none);
    const Price end = Price(first + 1) << kBits;
    team.each(g.c.vertices, [&](int64_t y) { w.level[y] = (w.price[y] - end) >> g.c.shift; });
    team.sync();
  }

  // Writes duals of left vertices in units over the prices, and the edges of rows. Returns whether
  // a vertex that must be matched is not.
  __device__ bool price_left() {
    bool fails = false;
    each_by_group(team, g.c.vertices, width, [&](int64_t k, int lane, bool there) {
      const int32_t x = int32_t(k), y = there ? w.mate[x] : kNone;
      Price cost = kFar;
      int64_t edge = INT64_MAX;
      if (y != kNone) {
        g.each_edge(x, lane, width, [&](int32_t right, Price c, int32_t at) {
          if (right != y || c >= cost) return;
          cost = c;
          edge = at;
        });
      }
      const Price least = least_of_group(cost, width);
      edge = int64_t(least_of_group(cost == least ? Price(edge) : kFar, width));
      if (!there || lane != 0) return;
      w.price[x] = y != kNone ? (least >> g.c.shift) - w.level[y] : 0;
      const bool stays = g.c.doubled && y == g.copy_of(x);
      fails |= stays && w.stay[x] == kMustMatch;
      if (g.is_row(x)) {
        const bool paired = y != kNone && y < p.m;
        p.col4row[x] = paired ? y : kNone;
        p.edge[x] = paired ? int32_t(edge) : kNone;
      }
    });
    return team.any(fails);
  }

  __device__ void write_duals() {
    const double sign = p.maximize ? -1 : 1;
    const auto write = [&](void* out, int64_t k, Price units) {
      write_real(out, p.result_dtype, k, sign * ldexp(to_double(units), g.c.exponent) + 0.0);
    };
    team.each(p.n, [&](int64_t i) {
      const Price copy = g.c.doubled ? w.level[p.m + i] : 0;
      write(p.row_dual, i, has_row(i) ? w.price[i] + copy : 0);
    });
    team.each(p.m, [&](int64_t j) {
      const Price copy = g.c.doubled ? w.price[p.n + j] : 0;
      write(p.col_dual, j, has_col(j) ? w.level[j] + copy : 0);
      const int32_t x = has_col(j) ? w.owner[j] : kNone;
      p.row4col[j] = x != kNone && g.is_row(x) ? x : kNone;
    });
  }

  // Of row k, or of column k - n: in units, and as given.
  __device__ int64_t units_of(int64_t k) const {
    const int32_t edge = k < p.n ? p.edge[k] : kNone;
    if (edge != kNone) return w.units[edge];
    return pays(k) ? w.stay[k] : 0;
  }
  __device__ double cost_of(int64_t k) const {
    const int32_t edge = k < p.n ? p.edge[k] : kNone;
    if (edge != kNone) return real_at(p.cost, p.cost_dtype, edge);
    if (!pays(k)) return 0;
    return k < p.n ? real_at(p.unmatched_cost, p.unmatched_dtype, k)
                   : real_at(p.unmatched_col_cost, p.unmatched_col_dtype, k - p.n);
  }
  // Whether it stays, at a given cost.
  __device__ bool pays(int64_t k) const {
    if (k < p.n) return p.unmatched_cost && has_row(k) && p.col4row[k] == kNone;
    return p.unmatched_col_cost && has_col(k - p.n) && p.row4col[k - p.n] == kNone;
  }

  __device__ double sum_of_units() {
    int64_t low = 0, high = 0;
    team.each(p.n + p.m, [&](int64_t k) {
      const int64_t units = units_of(k);
      low += units & UINT32_MAX;
      high += units >> 32;
    });
    low = team.sum(low);
    high = team.sum(high);
    const Price sum = (Price(high) << 32) + low;
    return (p.maximize ? -1 : 1) * ldexp(to_double(sum), g.c.exponent) + 0.0;
  }
  // As if in twice the precision. The same for any number of threads.
  __device__ double sum_of_floats() {
    const int64_t count = p.n + p.m, chunks = w.chunks();
    team.each_by_warp(chunks, [&](int64_t chunk) {
      const int64_t last = min((chunk + 1) * kChunk, count);
      CompensatedSum own;
      for (int64_t k = chunk * kChunk + team.lane(); k < last; k += kWarpSize) own.add(cost_of(k));
      for (int step = kWarpSize / 2; step > 0; step /= 2) {
        const double sum = __shfl_xor_sync(kAllLanes, own.sum, step);
        const double error = __shfl_xor_sync(kAllLanes, own.error, step);
        own.add(sum);
        own.add(error);
      }
      if (team.lane() != 0) return;
      w.part[2 * chunk] = own.sum;
      w.part[2 * chunk + 1] = own.error;
    });
    team.sync();
    CompensatedSum all;
    if (team.rank == 0 && threadIdx.x == 0) {
      for (int64_t k = 0; k < 2 * chunks; ++k) all.add(w.part[k]);
    }
    return all.value();
  }

  // Called, as all that is not a round: else its registers would be taken from those of rounds.
  __device__ __noinline__ void run(bool rounded, int64_t terms) {
    round_prices();
    const bool fails = price_left();
    if (fails && p.cardinality != Cardinality::kMaximum) {
      return write_failure(team, p, kInfeasible);
    }
    write_duals();
    team.sync();
    const double cost = g.c.integers ? sum_of_units() : sum_of_floats();
    team.one([&] {
      write_real(p.value, p.result_dtype, 0, cost);
      // Each term of this solution and of an optimum is wrong by half a unit.
      double gap = rounded ? ldexp(double(terms), g.c.exponent) * (1 + 0x1p-50) : 0;
      if (p.result_dtype == Dtype::kF32 && gap > double(float(gap))) {
        gap = nextafterf(float(gap), __builtin_huge_valf());
      }
      write_real(p.gap, p.result_dtype, 0, gap);
      *p.status = kOptimal;
    });
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_FINISH_CUH_
