// Refines prices in whole units by label correction (Goldberg 1997, section 4). It begins with a
// plan and prices at which some pairs are not tight. A pair is a row and a column that holds mass
// of the row. It is tight if its reduced cost is the least of its row. Lower prices make nearly all
// pairs tight.
#ifndef JAXMATCH_CUDA_TRANSPORT_REFINE_PRICES_CUH_
#define JAXMATCH_CUDA_TRANSPORT_REFINE_PRICES_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// Lowers the prices of columns in rounds. A row pays its greatest reduced cost in the columns that
// hold its mass. The rounds end when no row would pay less in another column. All rows of a round
// see the same prices. w.price has what each row pays, then the price of each column.
template <class C>
struct PriceLabels {
  Team team;
  const C& c;
  const Workspace& w;
  Holding* const pool;
  int32_t round = 0;  // number of rounds so far

  static constexpr int64_t kNothing = INT64_MIN;  // pays() of a row of which no column holds mass

  __device__ int64_t& pays(int64_t i) const { return w.price[i]; }
  __device__ int64_t& price(int64_t j) const { return w.price[c.p.n + j]; }
  __device__ int64_t& next_price(int64_t j) const { return w.flow[j]; }
  // The last round in which a row was listed because it pays more, or a column because its price
  // falls. A row is listed in the same round as the column that makes it pay more. A column is
  // listed in the round after the row that lowers its price.
  __device__ int32_t& listed_in(int64_t node) const { return w.scratch[0][node]; }
  __device__ int32_t& col_listed_in(int64_t j) const { return listed_in(c.p.n + j); }
  __device__ int32_t* rows() const { return w.scratch[1]; }
  __device__ int32_t* cols() const { return w.scratch[2]; }
  __device__ int32_t& num_rows(int32_t of_round) const {
    return of_round % 2 ? w.control->found : w.control->listed[2];
  }
  __device__ int32_t& num_cols(int32_t of_round) const { return w.control->listed[of_round % 2]; }

  __device__ void list_row(int32_t i) const {
    if (atomicExch(&listed_in(i), round) != round) rows()[atomicAdd(&num_rows(round), 1)] = i;
  }
  __device__ void list_col(int32_t j, int32_t of_round) const {
    if (atomicExch(&col_listed_in(j), of_round) == of_round) return;
    cols()[atomicAdd(&num_cols(of_round), 1)] = j;
  }

  // Lanes call f(row, place in the pool) for the rows of which column j holds mass. One warp calls
  // it.
  template <class F>
  __device__ void each_pair(int32_t j, const F& f) const {
    const Segment s = w.segment[j];
    for (int32_t k = team.lane(); k < s.count; k += kWarpSize)
      f(pool[s.first + k].row, s.first + k);
  }
  // Lanes call f(column, units) for the costs of row i in columns with demand. One warp calls it.
  template <class F>
  __device__ void each_cost(int64_t i, const F& f) const {
    constexpr int kAtOnce = C::kComputed ? 4 : 8;  // loads in flight together
    const auto row = c.row(i);
    const int32_t m = int32_t(c.p.m);
    int32_t j = team.lane();
    for (; j - team.lane() + kAtOnce * kWarpSize <= m; j += kAtOnce * kWarpSize) {
      typename C::Raw raw[kAtOnce];
      load_group(row.from(j), raw);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        if (c.demand[j + a * kWarpSize] > 0) f(j + a * kWarpSize, c.units_of(raw[a]));
      }
    }
    for (; j < m; j += kWarpSize) {
      if (c.demand[j] > 0) f(j, c.units_of(row.raw(j)));
    }
  }
  // The least reduced cost of row i. One warp calls it; every lane gets the result.
  __device__ int64_t least_of(int64_t i) const {
    constexpr uint64_t kSign = uint64_t(1) << 63;
    int64_t least = INT64_MAX;
    each_cost(i, [&](int32_t j, int64_t x) { least = min(least, x - price(j)); });
    return int64_t(warp_least(uint64_t(least) ^ kSign) ^ kSign);
  }

  // Rounds the prices to multiples of `bit`, and lists all columns that hold mass.
  __device__ void begin(int64_t bit) const {
    constexpr double kMostPrice = 0x1p58;
    team.one([&] { num_rows(0) = num_rows(1) = num_cols(0) = num_cols(1) = 0; });
    team.each(c.p.n, [&](int64_t i) {
      pays(i) = kNothing;
      listed_in(i) = kNone;
    });
    team.each(c.p.m, [&](int64_t j) { col_listed_in(j) = kNone; });
    team.sync();
    team.each(c.p.m, [&](int64_t j) {
      const double v = rint(double(w.v[j]) * c.units_per_normal / double(bit)) * double(bit);
      price(j) = next_price(j) = fabs(v) < kMostPrice ? int64_t(v) : 0;
      if (w.segment[j].count > 0) list_col(int32_t(j), round);
    });
    team.sync();
  }

  // The listed columns take their next prices. Lists the rows that then pay more. One lane handles
  // a column that holds few rows, and a whole warp handles a column that holds many.
  __device__ void list_rows() const {
    constexpr int32_t kFewPairs = 4;
    const int32_t count = num_cols(round);
    const int32_t even = (count + team.warps() - 1) / team.warps();
    const int32_t width = min(even, kWarpSize);  // columns of a warp at a time
    for (int32_t first = team.warp() * width; first < count; first += team.warps() * width) {
      const bool exists = team.lane() < width && first + team.lane() < count;
      const int32_t own = exists ? cols()[first + team.lane()] : 0;
      const Segment s = exists ? w.segment[own] : Segment{0, 0, 0};
      const int64_t v = exists ? next_price(own) : 0;
      if (exists) price(own) = v;
      for (int32_t k = 0; s.count <= kFewPairs && k < s.count; ++k) {
        raise(pool[s.first + k].row, own, v);
      }
      unsigned lanes = __ballot_sync(kAllLanes, s.count > kFewPairs);
      for (; lanes != 0; lanes &= lanes - 1) {
        const int32_t j = __shfl_sync(kAllLanes, own, __ffs(int(lanes)) - 1);
        const int64_t now = next_price(j);
        each_pair(j, [&](int32_t i, int32_t) { raise(i, j, now); });
      }
    }
    team.sync();
  }
  // Row i, of which column j holds mass, must pay at least its reduced cost there, at price v. If
  // it paid less before, lists the row.
  __device__ void raise(int32_t i, int32_t j, int64_t v) const {
    const auto x = static_cast<long long>(c.units(i, j) - v);
    if (x > atomicMax(reinterpret_cast<long long*>(&pays(i)), x)) list_row(i);
  }
  // Lowers the next prices of columns in which a listed row would pay less. Ends the round.
  __device__ void lower_prices() {
    const int32_t count = num_rows(round);
    team.one([&] { num_cols(round) = num_rows(round + 1) = 0; });
    team.each_by_warp(count, [&](int64_t k) {
      const int32_t i = rows()[k];
      const int64_t most = pays(i);
      each_cost(i, [&](int32_t j, int64_t x) {
        if (x - price(j) >= most) return;
        const auto lower = static_cast<long long>(x - most);
        if (lower < atomicMin(reinterpret_cast<long long*>(&next_price(j)), lower)) {
          list_col(j, round + 1);
        }
      });
    });
    team.sync();
    ++round;
  }
  // Runs rounds until prices no longer fall. Returns false if they still fall after `most_rounds`.
  __device__ bool settle(int64_t most_rounds) {
    for (int64_t k = 0; num_cols(round) > 0; ++k) {
      if (k == most_rounds) return false;
      list_rows();
      lower_prices();
    }
    return true;
  }
};

// The lowest bit that is set in any cost, in units. Prices that are multiples of it have few bits
// if the costs have few bits.
template <class C>
__device__ int64_t lowest_bit(const PriceLabels<C>& labels) {
  const C& c = labels.c;
  uint64_t bits = 0;
  labels.team.each_by_warp(c.p.n, [&](int64_t i) {
    if (c.supply[i] == 0) return;
    labels.each_cost(i, [&](int32_t, int64_t x) { bits |= x == c.forbidden ? 0 : uint64_t(x); });
  });
  uint64_t key = bits & (~bits + 1), index = 0;
  key = key == 0 ? ~uint64_t(0) : key;
  labels.team.least(key, index);
  return key < uint64_t(1) << 58 ? int64_t(key) : 1;
}

// Drops the pairs (a row and a column that holds mass of it) that are not tight: their reduced cost
// exceeds the least of the row. Frees the mass of these pairs.
template <class C>
struct LoosePairs {
  PriceLabels<C>& labels;
  const Workspace& w;

  __device__ void run() const {
    const Team team = labels.team;
    const auto& p = labels.c.p;
    team.each(p.m, [&](int64_t j) { labels.price(j) = labels.next_price(j); });
    team.sync();
    team.one([&] { labels.num_cols(labels.round) = 0; });
    team.each_by_warp(p.n, [&](int64_t i) {
      if (labels.pays(i) == labels.kNothing) return;
      const int64_t least = labels.least_of(i);
      __syncwarp();
      if (team.lane() == 0) labels.pays(i) = least;
    });
    team.sync();
    team.each_by_warp(p.m, [&](int64_t j) { drop_of(int32_t(j)); });
    team.sync();
  }

 private:
  __device__ void drop_of(int32_t j) const {
    Segment s = w.segment[j];
    const int32_t lane = labels.team.lane(), all = s.count;
    const int64_t v = labels.price(j);
    int64_t lost = 0;
    s.count = 0;
    for (int32_t first = 0; first < all; first += kWarpSize) {
      const bool exists = first + lane < all;
      const Holding own = exists ? labels.pool[s.first + first + lane] : Holding{0, 0, 0};
      const bool keeps = exists && labels.c.units(own.row, j) - v <= labels.pays(own.row);
      if (exists && !keeps) {
        atomic_add(&w.rest[own.row], own.mass);
        lost += own.mass;
      }
      const unsigned lanes = __ballot_sync(kAllLanes, keeps);
      if (keeps) labels.pool[s.first + s.count + __popc(lanes & lanes_below(lane))] = own;
      s.count += __popc(lanes);
      __syncwarp();
    }
    lost = warp_sum(lost);
    if (lane != 0) return;
    w.segment[j] = s;
    w.held[j] -= lost;
  }
};

// Refines the prices. If the plan is not optimal, prices would fall forever. So after some rounds,
// LoosePairs frees the mass of rows in columns that are not their cheapest ones. Only rounding can
// make a given plan (TransportProblem::start_col) less than optimal.
template <class C>
__device__ void refine_prices(PriceLabels<C>& labels) {
  constexpr int64_t kMostRounds = 4096;
  // A round changes prices by less than twice the greatest cost, so they do not overflow in
  // `shorter` rounds.
  const int64_t shorter = min(labels.c.p.n, labels.c.p.m);
  if (labels.settle(min(kMostRounds, shorter))) return;
  LoosePairs<C>{labels, labels.w}.run();
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_REFINE_PRICES_CUH_
