// Canonical form of a problem: a minimisation with costs in whole units. Leaving a row unmatched
// costs `stay`, and leaving a column unmatched costs nothing (see cpu/canonical.h).
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_CANONICAL_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_CANONICAL_CUH_

#include "common/float16.h"
#include "common/status.h"
#include "sparse_assignment/cuda/team.cuh"
#include "sparse_assignment/units.h"

namespace jaxmatch::sparse_assignment {

// A problem in canonical form. Edges keep their indices in the given graph, so that each run
// chooses the same edge among ties.
struct Canonical {
  int32_t rows, cols;
  const int32_t *first, *first_by_col;  // [rows + 1], [cols + 1] first edge of each row, column
  const int32_t *order, *order_by_col;  // [edges] edges sorted by row, by column; null: 0, 1, ...
  const int32_t *row, *col;             // [edges]
  bool transposed = false;              // rows and columns are swapped
  bool all_matched = false;             // no row and no column may stay unmatched
  bool integers = false, rounded = false;
  Units units;
  double rounding = 1;  // the unit to which costs were rounded, in units
  int64_t terms = 0;    // upper bound on the number of costs in a solution
};

// Calls f(edge) for this lane's share of the edges of row x, or of column x with kOfCol.
template <bool kOfCol = false, class F>
__device__ void each_edge_of(const Canonical& c, int32_t x, int lane, int width, const F& f) {
  const int32_t* const first = kOfCol ? c.first_by_col : c.first;
  const int32_t* const order = kOfCol ? c.order_by_col : c.order;
  const int64_t last = first[x + 1];
#pragma unroll 1
  for (int64_t q = first[x] + lane; q < last; q += width) f(order ? order[q] : int32_t(q));
}

// All threads of a team use this to bring a problem into canonical form.
template <class Team>
struct Reader {
  const Team team;
  const SparseProblem& p;
  const Workspace& w;
  const int width;  // lanes per vertex
  Canonical& c;

  __device__ bool has_row(int64_t i) const { return !p.row_mask || p.row_mask[i]; }
  __device__ bool has_col(int64_t j) const { return !p.col_mask || p.col_mask[j]; }
  __device__ double sign() const { return p.maximize ? -1 : 1; }
  __device__ double row_price(int64_t i) const {
    return sign() * real_at(p.unmatched_cost, p.unmatched_dtype, i);
  }
  __device__ double col_price(int64_t j) const {
    return sign() * real_at(p.unmatched_col_cost, p.unmatched_col_dtype, j);
  }

  // Calls f(row, edge) for all edges between unmasked vertices.
  template <class F>
  __device__ void each_edge(const F& f) const {
    each_by_group(team, p.n, width, [&](int64_t i, int lane, bool exists) {
      if (!exists || !has_row(i)) return;
      const int64_t last = p.row_ptr[i + 1];
      for (int64_t k = p.row_ptr[i] + lane; k < last; k += width) {
        if (has_col(p.col_ind[k])) f(i, k);
      }
    });
  }

  // Finds the range of all costs. Sets `musts` if some column must be matched while others may stay
  // unmatched.
  __device__ __noinline__ CostRange summarize(bool* musts) const {
    CostRange own;
    bool must = false;
    each_edge([&](int64_t, int64_t k) { own.include(sign() * real_at(p.cost, p.cost_dtype, k)); });
    if (p.unmatched_cost) {
      team.each(p.n, [&](int64_t i) {
        if (has_row(i)) own.include(row_price(i));
      });
    }
    if (p.unmatched_col_cost) {
      team.each(p.m, [&](int64_t j) {
        if (!has_col(j)) return;
        own.include(col_price(j));
        must |= !(col_price(j) < HUGE_VAL);
      });
    }
    own.most = team.most(own.most);
    own.whole = !team.any(!own.whole);
    own.invalid = team.any(own.invalid);
    *musts = team.any(must);
    return own;
  }

  __device__ int64_t units_at(int64_t k, bool* rounded) const {
    return c.units.at(p.cost, p.cost_dtype, k, rounded);
  }

  // Writes the cost of leaving each row unmatched, and the offset of each column. An offset is the
  // cost of leaving the column unmatched; write_costs() subtracts it from the costs of the column's
  // edges.
  __device__ __noinline__ void write_stays() const {
    bool rounded = false;
    team.each(c.rows, [&](int64_t i) {
      int64_t stay = kNever;
      if (!(c.transposed ? has_col(i) : has_row(i))) {
        stay = 0;
      } else if (p.unmatched_cost && row_price(i) < HUGE_VAL) {
        stay = c.units.at(p.unmatched_cost, p.unmatched_dtype, i, &rounded);
      }
      w.stay[i] = stay;
    });
    team.each(c.cols, [&](int64_t j) {
      int64_t offset = 0;
      if (p.unmatched_col_cost && has_col(j)) {
        offset = col_price(j) < HUGE_VAL
                     ? c.units.at(p.unmatched_col_cost, p.unmatched_col_dtype, j, &rounded)
                     : c.units.must;
      }
      w.offset[j] = offset;
    });
    c.rounded |= team.any(rounded);
  }

  // Writes the costs in units, and lists the edges by column. Forbidden edges cost kNever. Returns
  // false if the two directions of the graph differ.
  __device__ __noinline__ bool write_costs() const {
    bool rounded = false, differ = false;
    int32_t* const cursor = w.list[0];
    team.each(p.m, [&](int64_t j) { cursor[j] = p.col_ptr[j]; });
    team.sync();
    each_by_group(team, p.n, width, [&](int64_t i, int lane, bool exists) {
      if (!exists) return;
      const int64_t last = p.row_ptr[i + 1];
      for (int64_t k = p.row_ptr[i] + lane; k < last; k += width) {
        const int32_t j = p.col_ind[k], at = atomicAdd(&cursor[j], 1);
        differ |= at >= p.col_ptr[j + 1];
        if (differ) continue;
        w.by_col[at] = int32_t(k);
        w.row[k] = int32_t(i);
        const bool allowed =
            has_row(i) && has_col(j) && sign() * real_at(p.cost, p.cost_dtype, k) < HUGE_VAL;
        const int64_t less = c.transposed ? 0 : w.offset[j];
        w.cost[k] = allowed ? units_at(k, &rounded) - less : kNever;
      }
    });
    c.rounded |= team.any(rounded);
    return !team.any(differ);
  }

  // Changes the unit to the largest power of two that divides all costs. The auction may set a
  // price to any whole number of units. With a coarse unit, this number has few bits, so that the
  // floats of the result represent the price exactly.
  __device__ __noinline__ void coarsen() const {
    const int64_t edges = p.row_ptr[p.n];
    uint64_t bits = 0;
    team.one([&] { w.control->bits = 0; });
    team.sync();
    team.each(edges, [&](int64_t k) {
      if (w.cost[k] != kNever) bits |= uint64_t(w.cost[k]);
    });
    const auto words = reinterpret_cast<unsigned*>(&w.control->bits);
    if (unsigned(bits)) atomicOr(&words[0], unsigned(bits));
    if (unsigned(bits >> 32)) atomicOr(&words[1], unsigned(bits >> 32));
    team.sync();
    bits = w.control->bits;
    if (bits == 0) return;
    const int zeros =
        unsigned(bits) ? __ffs(int(unsigned(bits))) - 1 : __ffs(int(unsigned(bits >> 32))) + 31;
    const int finite = ilogb(c.units.scale) + 1000;  // keeps 1 / scale finite
    const int shift = zeros < finite ? zeros : finite;
    team.each(edges, [&](int64_t k) {
      if (w.cost[k] != kNever) w.cost[k] >>= shift;
    });
    c.units.scale = ldexp(c.units.scale, -shift);
    c.rounding = ldexp(1.0, -shift);
  }

  __device__ __noinline__ Status read() const {
    bool musts = false;
    const CostRange range = summarize(&musts);
    if (range.invalid) return kInvalidCost;
    int64_t rows = 0, cols = 0;
    team.each(p.n, [&](int64_t i) { rows += has_row(i); });
    team.each(p.m, [&](int64_t j) { cols += has_col(j); });
    rows = team.sum(rows);
    cols = team.sum(cols);
    const bool full = !p.unmatched_cost;
    c.transposed = full && rows > cols;
    c.rows = int32_t(c.transposed ? p.m : p.n);
    c.cols = int32_t(c.transposed ? p.n : p.m);
    c.first = c.transposed ? p.col_ptr : p.row_ptr;
    c.first_by_col = c.transposed ? p.row_ptr : p.col_ptr;
    c.order = c.transposed ? w.by_col : nullptr;
    c.order_by_col = c.transposed ? nullptr : w.by_col;
    c.row = c.transposed ? p.col_ind : w.row;
    c.col = c.transposed ? w.row : p.col_ind;
    c.all_matched = full && rows == p.n && cols == p.m && p.n == p.m && p.n > 0;
    c.terms = p.unmatched_cost ? p.n + p.m : min(p.n, p.m);
    c.integers = is_integer(p.cost_dtype);
    if (!choose_units(p, range, c.integers, musts, &c.units)) return kOverflow;
    write_stays();
    if (!write_costs()) return kInvalidGraph;
    if (c.all_matched) coarsen();
    team.sync();
    return kOptimal;
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_CANONICAL_CUH_
