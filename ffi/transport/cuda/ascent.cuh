// Finds prices of few columns by ascent of a smoothed dual, with Newton's method. Softmax at a
// temperature divides the mass of each row among the columns. The gradient of the dual is the
// demand of each column minus the mass that it gets. One pass over the costs computes the gradient
// and the curvature. The temperature falls step by step. Prices are float32, because they affect
// only the time.
#ifndef JAXMATCH_CUDA_TRANSPORT_ASCENT_CUH_
#define JAXMATCH_CUDA_TRANSPORT_ASCENT_CUH_

#include "transport/cuda/few_columns.cuh"
#include "transport/cuda/warp_equations.cuh"

namespace jaxmatch::transport {

// Computes gradient and curvature in one pass. The total mass is scaled to FewColumns::kWhole, and
// what a row adds to a sum is rounded to a whole number. So the sums do not depend on the order of
// threads or the number of blocks.
template <class C, int kLane>
struct Slopes {
  const FewColumns<C, kLane> f;
  const Team team;
  FewColumnsState& s;
  const CurveMemory memory;
  float* const tile;      // [rows of the tile, cols] softmax times the root of the row's mass
  uint32_t* const curve;  // [pairs of columns] sums of products over this block's rows

  __device__ explicit Slopes(const FewColumns<C, kLane>& f)
      : f(f),
        team(f.team),
        s(*f.team.s.few()),
        memory{f.cols},
        tile(reinterpret_cast<float*>(f.team.s.few() + 1)),
        curve(reinterpret_cast<uint32_t*>(tile + memory.tile())) {}

  __device__ static int32_t pair(int32_t j, int32_t k) { return k * (k - 1) / 2 + j; }  // j < k

  // Adds what the columns get from this block's rows to s.load, and products to `curve`. `inverse`:
  // the reciprocal of the temperature, for exp2. The whole block calls it.
  __device__ void add(float inverse) const {
    team.each_in_block(memory.pairs(), [&](int64_t e) { curve[e] = 0; });
    team.each_in_block(1, [&](int64_t) { s.tiled = 0; });
    team.sync_block();
    add_rows(f, *this, inverse);
    add_tile(s.tiled);
  }

 private:
  // The structs are passed by value, because copies stay in registers.
  __device__ static void add_rows(const FewColumns<C, kLane> f, const Slopes slopes,
                                  float inverse) {
    constexpr int kAtOnce = C::kComputed || kLane > 2 ? 1 : 2;  // rows at a time
    constexpr float kSoft = 1 + 0x1p-12f;  // `all` exceeds this if several columns share the row
    const Team team = f.team;
    FewColumnsState& s = slopes.s;
    const int32_t own = team.lane() / f.width, step = team.block_warps() * f.groups,
                  last = f.last_row(), cols = f.cols, sweep = kAtOnce * step;
    const int32_t most = int32_t(slopes.memory.tile() / cols) - sweep;
    const int leader = team.lane() - team.lane() % f.width;
    float v[kLane];
    uint32_t sum[kLane] = {};
    f.each_column([&](int a, int32_t k) { v[a] = k < cols ? s.v[k] : -kFarFloat; });
    const FewCosts<C> costs(f.costs);
    const float* const parts = &f.part(0);
    for (int32_t first = f.first_row(); first < last; first += sweep) {
      const int32_t i = first + team.warp_of_block() * f.groups + own;
      typename C::Raw raw[kAtOnce][kLane];
      float part[kAtOnce];
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const int32_t row = i + b * step;
        part[b] = row < last ? parts[row] : 0;
        f.each_column([&](int a, int32_t k) {
          raw[b][a] = row < last && k < cols ? costs.raw(row, k) : typename C::Raw{};
        });
      }
      keep_loads_together();
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        float z[kLane], most = -kFarFloat, all = 0;
        f.each_column([&](int a, int32_t) {
          // The cost of a column without demand is ignored. It may be NaN.
          z[a] = v[a] > -kFarFloat ? v[a] - costs.c.estimate(raw[b][a]) : -kFarFloat;
          most = fmaxf(most, z[a]);
        });
        most = f.of_group(most, [](float x, float y) { return fmaxf(x, y); });
        const bool exists = part[b] > 0 && most > -kFarFloat;
        f.each_column([&](int a, int32_t) {
          z[a] = exists ? exp2f((z[a] - most) * inverse) : 0;
          all += z[a];
        });
        all = f.of_group(all, [](float x, float y) { return x + y; });
        const float scaled = exists ? part[b] / all : 0;
        f.each_column([&](int a, int32_t) { sum[a] += __float2uint_rn(z[a] * scaled); });
        const bool soft = exists && all > kSoft;
        const int32_t taken = soft && team.lane() == leader ? atomicAdd(&s.tiled, 1) : 0;
        const int32_t at = __shfl_sync(kAllLanes, taken, leader);
        const float root = exists ? sqrtf(part[b]) / all : 0;
        f.each_column([&](int a, int32_t k) {
          if (soft && k < cols) slopes.tile[at * cols + k] = z[a] * root;
        });
      }
      team.sync_block();
      const int32_t rows = s.tiled;
      team.sync_block();
      if (rows > most) slopes.add_tile(rows);
    }
    f.each_column([&](int a, int32_t k) {
      uint32_t x = sum[a];
      for (int wide = f.width; wide < kWarpSize; wide *= 2) {
        x += __shfl_xor_sync(kAllLanes, x, wide);
      }
      if (own == 0 && k < cols && x > 0) atomicAdd(&s.load[k], x);
    });
  }

  // For each pair of columns, adds the products of their entries in the tile's rows to `curve`.
  // Then empties the tile.
  __device__ void add_tile(int32_t rows) const {
    const int32_t cols = f.cols, squares = cols * cols,
                  parts = max(1, team.block_threads() / squares);
    team.each_in_block(squares * parts, [&](int64_t at) {
      const int32_t part = int32_t(at) / squares, place = int32_t(at) % squares;
      const int32_t j = place / cols, k = place % cols;
      if (j >= k) return;
      uint32_t sum = 0;
      for (int32_t r = part; r < rows; r += parts) {
        sum += __float2uint_rn(tile[r * cols + j] * tile[r * cols + k]);
      }
      if (sum > 0) atomicAdd(&curve[pair(j, k)], sum);
    });
    team.sync_block();
    team.each_in_block(1, [&](int64_t) { s.tiled = 0; });
    team.sync_block();
  }
};

template <class C, int kLane>
struct Ascent {
  const FewColumns<C, kLane> f;
  const Team team;
  FewColumnsState& s;
  const Slopes<C, kLane> slopes;
  // Number of passes. The blocks add up their sums in one of kLoadsInTurn buffers, by turn %
  // kLoadsInTurn.
  int32_t turn = 0;

  __device__ explicit Ascent(const FewColumns<C, kLane>& f)
      : f(f), team(f.team), s(*f.team.s.few()), slopes(f) {}

  __device__ int32_t cols() const { return f.cols; }
  __device__ uint32_t* load(int32_t of_turn) const {
    return f.w.load + of_turn % kLoadsInTurn * cols();
  }
  __device__ uint32_t* curve(int32_t of_turn) const {
    return f.w.curve + of_turn % kLoadsInTurn * slopes.memory.pairs();
  }

  // Runs the ascent. It begins at the prices of a warm start, if there is one.
  __device__ void run(bool warm) {
    constexpr int kMostPasses = 60, kMostOfScale = 8;
    constexpr float kFirst = 32, kMostOfSpread = 1.0f / 8, kLast = 0.25f, kFalls = 0.3f,
                    kNear = 0.02f, kWarm = 0.67f;
    f.each_own_column([&](int32_t k) {
      s.v[k] = f.wanted(k) == 0 ? -kFarFloat : warm && !f.turned ? f.w.v[k] : 0;
      s.wants[k] = float(double(f.wanted(k)) * (double(f.kWhole) / double(f.total)));
      s.load[k] = 0;
    });
    if (team.rank == 0) clear(0);
    team.sync();
    if (!(f.spread > 0) || !(f.spread < kFarFloat) || cols() == 1) return;
    const float typical = f.typical > 0 ? f.typical : f.spread;
    const float first = fminf(typical * kFirst, f.spread * kMostOfSpread);
    const float last = fminf(typical * kLast * float(cols()) / float(f.rows), first / 2);
    float epsilon = warm && !f.turned ? first * exp2f(log2f(last / first) * kWarm) : first;
    for (int passes = 0, here = 0; passes < kMostPasses; ++passes) {
      const float off = pass(epsilon);
      if (off > kNear && ++here < kMostOfScale) continue;
      if (epsilon <= last) break;
      epsilon = fmaxf(epsilon * kFalls, last);
      here = 0;
    }
  }

 private:
  static constexpr float kLeastPivot = 2;

  // Sets the sums of all blocks for one pass to 0. One block calls it.
  __device__ void clear(int32_t of_turn) const {
    uint32_t* const loads = load(of_turn);
    uint32_t* const curves = curve(of_turn);
    f.each_own_column([&](int32_t k) { loads[k] = 0; });
    team.each_in_block(slopes.memory.pairs(), [&](int64_t e) { curves[e] = 0; });
  }

  // One step of Newton's method. Returns the fraction of the mass that was in wrong columns before
  // the step.
  __device__ float pass(float epsilon) {
    slopes.add(1.4426950409f / epsilon);
    uint32_t* const loads = load(turn);
    uint32_t* const curves = curve(turn);
    f.each_own_column([&](int32_t k) {
      if (s.load[k] > 0) atomicAdd(loads + k, s.load[k]);
      s.load[k] = 0;
    });
    team.each_in_block(slopes.memory.pairs(), [&](int64_t e) {
      if (slopes.curve[e] > 0) atomicAdd(curves + e, slopes.curve[e]);
    });
    if (team.rank == 0) clear(turn + 1);
    team.sync();
    const float off = step(epsilon, loads, curves);
    ++turn;
    return off;
  }

  // Changes the prices by a Newton step, computed from the sums of all blocks. Each block does this
  // for its own copy of the prices.
  __device__ float step(float epsilon, const uint32_t* loads, const uint32_t* curves) const {
    constexpr float kMostChange = 4, kDamping = 1e-3f;
    const int32_t m = cols();
    float *const matrix = slopes.tile, *const x = matrix + entry(m, 0);
    for (int32_t j = team.warp_of_block(); j < m; j += team.block_warps()) {
      float sum = 0;
      for (int32_t k = team.lane(); k < m; k += kWarpSize) {
        if (j == k) continue;
        const float own = float(curves[slopes.pair(min(j, k), max(j, k))]);
        sum += own;
        if (k < j) matrix[entry(j, k)] = -own;
      }
      for (int half = kWarpSize / 2; half > 0; half /= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, half);
      }
      const float has = float(loads[j]), wants = s.wants[j];
      if (team.lane() == 0) {
        matrix[entry(j, j)] = sum + kDamping * fminf(has, wants) + kLeastPivot;
        x[j] = wants - has;
      }
    }
    team.sync_block();
    float off = 0, most = 0;
    for (int32_t k = team.lane(); k < m; k += kWarpSize) off += fabsf(x[k]);
    for (int half = kWarpSize / 2; half > 0; half /= 2) {
      off += __shfl_xor_sync(kAllLanes, off, half);
    }
    team.sync_block();
    if (m <= kWarpSize) {
      if (team.warp_of_block() == 0) solve_in_warp(matrix, x, m, kLeastPivot);
      team.sync_block();
    } else {
      solve(matrix, x, m);
    }
    for (int32_t k = team.lane(); k < m; k += kWarpSize) most = fmaxf(most, fabsf(x[k]));
    most = warp_most(most);
    const float scaled =
        !(most < kFarFloat) ? 0 : epsilon * (most > kMostChange ? kMostChange / most : 1);
    f.each_own_column([&](int32_t k) {
      if (scaled > 0 && s.v[k] > -kFarFloat) s.v[k] += scaled * x[k];
    });
    team.sync_block();
    return off / (2 * f.kWhole);
  }

  // The diagonal entry p. It is at least kLeastPivot, which step() adds to the diagonal, unless
  // rounding has made it smaller.
  __device__ static float pivot(const float* matrix, int32_t p) {
    return fmaxf(matrix[entry(p, p)], kLeastPivot);
  }

  // Solves a system with a positive definite matrix, by elimination and substitution.
  __device__ void solve(float* matrix, float* x, int32_t m) const {
    for (int32_t p = 0; p < m; ++p) {
      const float inverse = 1 / pivot(matrix, p);
      for (int32_t i = p + 1 + team.warp_of_block(); i < m; i += team.block_warps()) {
        float* const row = matrix + entry(i, 0);
        const float factor = row[p] * inverse;
        if (factor == 0) continue;
        for (int32_t j = p + 1 + team.lane(); j <= i; j += kWarpSize) {
          row[j] -= factor * matrix[entry(j, p)];
        }
        if (team.lane() == 0) x[i] -= factor * x[p];
      }
      team.sync_block();
    }
    for (int32_t p = m - 1; p >= 0; --p) {
      const float own = x[p] / pivot(matrix, p);
      team.sync_block();
      team.each_in_block(p + 1, [&](int64_t j) {
        x[j] = j == p ? own : x[j] - matrix[entry(p, int32_t(j))] * own;
      });
      team.sync_block();
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_ASCENT_CUH_
