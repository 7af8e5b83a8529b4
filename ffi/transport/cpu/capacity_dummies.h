// Builds the balanced transport problem of an assignment problem with capacities. A dummy column
// takes the units that rows leave unmatched, and a dummy row fills the remaining capacity of
// columns. Does the same as `with_dummies` of jaxmatch/_assignment/capacity.py.
#ifndef JAXMATCH_TRANSPORT_CPU_CAPACITY_DUMMIES_H_
#define JAXMATCH_TRANSPORT_CPU_CAPACITY_DUMMIES_H_

#include <cmath>
#include <cstring>

#include "common/cpu/poll.h"
#include "common/float16.h"
#include "transport/cpu/capacity_units.h"
#include "transport/cpu/problem.h"

namespace jaxmatch::transport {

template <class T>
T widened(T x) {
  return x;
}
inline float widened(BFloat16 x) { return single(x); }
inline float widened(Float16 x) { return single(x); }

// Converts an array, and writes each number `parts` times (1 or 2).
using Copy = void (*)(const void* from, int64_t count, int64_t parts, void* to);

template <class From, class To>
void copy_numbers(const void* from, int64_t count, int64_t parts, void* to) {
  const From* const in = static_cast<const From*>(from);
  To* const out = static_cast<To*>(to);
  if (parts == 1) {
    for (int64_t k = 0; k < count; ++k) out[k] = To(widened(in[k]));
  } else {
    for (int64_t k = 0; k < count; ++k) out[2 * k] = out[2 * k + 1] = To(widened(in[k]));
  }
}

// The conversion between two dtypes; null if dtype promotion never does it.
inline Copy copy_of(Dtype from, Dtype to) {
  if (from == to) {
    return size_of(to) == 2   ? copy_numbers<uint16_t, uint16_t>
           : size_of(to) == 4 ? copy_numbers<uint32_t, uint32_t>
                              : copy_numbers<uint64_t, uint64_t>;
  }
  const bool single = to == Dtype::kF32, wide = to == Dtype::kF64;
  if (from == Dtype::kS32 && to == Dtype::kS64) return copy_numbers<int32_t, int64_t>;
  if (from == Dtype::kF32 && wide) return copy_numbers<float, double>;
  if (from == Dtype::kBF16 && single) return copy_numbers<BFloat16, float>;
  if (from == Dtype::kBF16 && wide) return copy_numbers<BFloat16, double>;
  if (from == Dtype::kF16 && single) return copy_numbers<Float16, float>;
  if (from == Dtype::kF16 && wide) return copy_numbers<Float16, double>;
  return nullptr;
}

// The dtype of the costs of the balanced problem. With minima, the cost that forbids a pair may be
// twice the greatest cost, which int32 may not hold.
inline Dtype balanced_dtype(const CapacityProblem& p) {
  const Dtype dtype = p.unmatched ? p.unmatched_dtype : p.cost_dtype;
  return p.has_minimum && dtype == Dtype::kS32 ? Dtype::kS64 : dtype;
}

struct Balanced {
  TransportProblem problem;
  int32_t moved;
  int32_t counts[kNumCounts];
  // Whether the range of the integer costs is so wide that int64 cannot hold a cost that forbids.
  bool too_wide;
};

// The cost that keeps the dummy row from filling the minimum of a column. It is infinite for
// floats. An integer cost cannot be infinite; it must exceed the extra cost of moving a unit of a
// real row there instead. If the minima can be met, some row has such a unit.
union Never {
  uint16_t half;
  float single;
  double real;
  int64_t whole;
};

inline Never infinite(Dtype dtype, bool maximize) {
  const float infinity = maximize ? -INFINITY : INFINITY;
  const uint16_t sign = maximize ? 0x8000 : 0;
  Never x{};
  if (dtype == Dtype::kBF16) x.half = sign | 0x7f80;
  if (dtype == Dtype::kF16) x.half = sign | 0x7c00;
  if (dtype == Dtype::kF32) x.single = infinity;
  if (dtype == Dtype::kF64) x.real = infinity;
  return x;
}

// The integer cost that forbids a pair (see Never). `cost`: the costs of the balanced problem
// without the dummy row, with two parts of each column.
inline Never forbidding(const CapacityProblem& p, const int64_t* cost, bool* too_wide) {
  const int64_t width = 2 * p.m + 1;
  int64_t least = 0, most = 0;
  const auto see = [&](int64_t x) {
    least = std::min(least, x);
    most = std::max(most, x);
  };
  Poll poll;
  for (int64_t i = 0; i < p.n; ++i) {
    if (p.row_mask && !p.row_mask[i]) continue;
    poll.after(p.m);
    const int64_t* const row = cost + i * width;
    for (int64_t j = 0; j < p.m; ++j) {
      if (!p.col_mask || p.col_mask[j]) see(row[2 * j]);
    }
    see(row[2 * p.m]);
  }
  *too_wide = most > INT64_MAX - 1 + least;
  Never x{};
  x.whole = *too_wide ? 1 : most - least + 1;
  if (p.maximize) x.whole = -x.whole;
  return x;
}

// Writes the costs of the dummy row: `never` for the minima of columns, and 0 elsewhere.
inline void write_last_row(const CapacityProblem& p, const Never& never, int64_t size, char* out) {
  std::memset(out, 0, size_t((p.parts() * p.m + 1) * size));
  for (int64_t j = 0; p.has_minimum && j < p.m; ++j) {
    std::memcpy(out + 2 * j * size, &never, size_t(size));
  }
}

inline void add_costs(const CapacityProblem& p, HostArena* memory, Balanced* out) {
  const Dtype dtype = balanced_dtype(p);
  const Copy copy = copy_of(p.cost_dtype, dtype);
  const Copy copy_unmatched = p.unmatched ? copy_of(p.unmatched_dtype, dtype) : nullptr;
  const int64_t width = p.parts() * p.m + 1, size = size_of(dtype);
  char* const cost = memory->take<char>((p.n + 1) * width * size);
  Poll poll;
  for (int64_t i = 0; i < p.n; ++i) {
    poll.after(width);
    char* const row = cost + i * width * size;
    char* const stays = row + (width - 1) * size;
    copy(static_cast<const char*>(p.cost) + i * p.m * size_of(p.cost_dtype), p.m, p.parts(), row);
    if (copy_unmatched) {
      const int64_t at = i * size_of(p.unmatched_dtype);
      copy_unmatched(static_cast<const char*>(p.unmatched) + at, 1, 1, stays);
    } else {
      std::memset(stays, 0, size_t(size));
    }
  }
  Never never = infinite(dtype, p.maximize);
  if (p.has_minimum && dtype == Dtype::kS64) {
    never = forbidding(p, reinterpret_cast<const int64_t*>(cost), &out->too_wide);
  }
  write_last_row(p, never, size, cost + p.n * width * size);
  out->problem.cost = cost;
  out->problem.cost_dtype = dtype;
}

// Copies points in coordinate-major order, as the solver needs them. Each point is written `parts`
// times.
template <class T>
T* by_coordinates(const void* points, int64_t count, int64_t dims, int64_t parts,
                  HostArena* memory) {
  const T* const in = static_cast<const T*>(points);
  T* const out = memory->take<T>(dims * count * parts);
  Poll poll;
  for (int64_t i = 0; i < count * parts; ++i) {
    poll.after(dims);
    for (int64_t d = 0; d < dims; ++d) out[d * count * parts + i] = in[i / parts * dims + d];
  }
  return out;
}

template <class T>
void add_points(const CapacityProblem& p, HostArena* memory, TransportProblem* out) {
  char* const last_row = memory->take<char>((p.parts() * p.m + 1) * int64_t(sizeof(T)));
  write_last_row(p, infinite(p.cost_dtype, p.maximize), sizeof(T), last_row);
  out->row_points = by_coordinates<T>(p.x, p.n, p.dims, 1, memory);
  out->col_points = by_coordinates<T>(p.y, p.m, p.dims, p.parts(), memory);
  out->dims = p.dims;
  out->metric = p.metric;
  out->last_row = last_row;
  out->last_col = memory->take<T>(p.n, T(0));
  out->cost_dtype = p.cost_dtype;
}

// A copy of an array with each entry `parts` times, and `last` for the dummy at the end. Returns
// null if `given` is null.
template <class T>
T* with_last(const T* given, int64_t count, int64_t parts, T last, HostArena* memory) {
  if (given == nullptr) return nullptr;
  T* const out = memory->take<T>(count * parts + 1);
  for (int64_t k = 0; k < count * parts; ++k) out[k] = given[k / parts];
  out[count * parts] = last;
  return out;
}

inline void add_masses(const CapacityProblem& p, const Units& units, HostArena* memory,
                       Balanced* out) {
  TransportProblem& b = out->problem;
  const int64_t m = p.m;
  int32_t* const supply = memory->take<int32_t>(p.n + 1, 0);
  int32_t* const demand = memory->take<int32_t>(p.parts() * m + 1, 0);
  std::copy_n(units.rows, p.n, supply);
  for (int64_t j = 0; j < m; ++j) {
    if (units.least) {
      demand[2 * j] = units.least[j];
      demand[2 * j + 1] = units.cols[j] - units.least[j];
    } else {
      demand[j] = units.cols[j];
    }
  }
  b.supply = supply;
  b.demand = demand;
  b.mass_dtype = b.coarsest = Dtype::kS32;
  b.row_mask = with_last(p.row_mask, p.n, 1, uint8_t{1}, memory);
  b.col_mask = with_last(p.col_mask, m, p.parts(), uint8_t{1}, memory);
  if (p.result_dtype == Dtype::kF32) {
    b.start_dual = with_last(static_cast<const float*>(p.start_dual), m, p.parts(), 0.0f, memory);
  } else {
    b.start_dual = with_last(static_cast<const double*>(p.start_dual), m, p.parts(), 0.0, memory);
  }
  // Without unmatched costs, as much as possible is matched, and one of the dummies has no mass.
  // With unmatched costs, the costs decide how much is matched.
  out->moved = p.unmatched ? 0 : int32_t(std::min(units.of_rows, units.of_cols));
  b.moved = &out->moved;
}

// Sets `out` to the balanced problem. The solver will write value, gap and status to the results of
// `p`. `out` must not move afterwards, because its problem points into it.
inline void balance(const CapacityProblem& p, const Units& units, HostArena* memory,
                    Balanced* out) {
  *out = {};
  TransportProblem& b = out->problem;
  b.n = p.n + 1;
  b.m = p.parts() * p.m + 1;
  b.maximize = p.maximize;
  if (p.x == nullptr) {
    add_costs(p, memory, out);
  } else if (p.cost_dtype == Dtype::kF32) {
    add_points<float>(p, memory, &b);
  } else {
    add_points<double>(p, memory, &b);
  }
  add_masses(p, units, memory, out);
  b.result_dtype = p.result_dtype;
  b.rows = memory->take<int32_t>(b.n + b.m - 1);
  b.cols = memory->take<int32_t>(b.n + b.m - 1);
  b.mass = memory->take<int32_t>(b.n + b.m - 1);
  b.row_dual = memory->take<char>(b.n * size_of(p.result_dtype));
  b.col_dual = memory->take<char>(b.m * size_of(p.result_dtype));
  b.value = p.value;
  b.gap = p.gap;
  b.status = p.status;
  b.counts = out->counts;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_CAPACITY_DUMMIES_H_
