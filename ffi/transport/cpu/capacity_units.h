// Checks capacities, and reads them as masses of a transport problem. Does the same as `_in_units`
// of jaxmatch/_assignment/capacity.py.
#ifndef JAXMATCH_TRANSPORT_CPU_CAPACITY_UNITS_H_
#define JAXMATCH_TRANSPORT_CPU_CAPACITY_UNITS_H_

#include "common/cpu/host_arena.h"
#include "common/status.h"
#include "transport/cpu/capacities.h"

namespace jaxmatch::transport {

// The total capacities of rows and of columns saturate at this number. If both reach it, the status
// is kOverflow.
constexpr int64_t kMostPairs = int64_t{1} << 30;

struct Units {
  int32_t *rows, *cols;      // [n], [m] capacities; 0 if masked
  int32_t* least;            // [m] minima; null if there are none
  int64_t of_rows, of_cols;  // total capacities
  Status status;
};

// Writes the amounts to `out`: 0 for masked or negative ones. Returns their total, at most
// kMostPairs.
inline int64_t read_amounts(const Amounts& given, const uint8_t* mask, int64_t count, int32_t* out,
                            bool* negative) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t x = mask && !mask[i] ? 0 : given.at(i);
    *negative |= x < 0;
    out[i] = std::max(x, 0);
    total += out[i];
  }
  return std::min(total, kMostPairs);
}

// Reads the minima. Returns whether they cannot be met.
inline bool read_minima(const CapacityProblem& p, Units* u) {
  bool is_negative = false, missed = false;
  const int64_t total = read_amounts(p.col_minimum, p.col_mask, p.m, u->least, &is_negative);
  for (int64_t j = 0; j < p.m; ++j) {
    missed |= u->least[j] > u->cols[j];
    u->least[j] = std::min(u->least[j], u->cols[j]);
  }
  return missed || total > u->of_rows;
}

inline Units in_units(const CapacityProblem& p, HostArena* memory) {
  Units u{memory->take<int32_t>(p.n), memory->take<int32_t>(p.m), nullptr, 0, 0, kOptimal};
  bool negative = false;
  u.of_rows = read_amounts(p.row_capacity, p.row_mask, p.n, u.rows, &negative);
  u.of_cols = read_amounts(p.col_capacity, p.col_mask, p.m, u.cols, &negative);
  if (p.has_minimum) {
    u.least = memory->take<int32_t>(p.m);
    if (read_minima(p, &u)) u.status = kInfeasible;
  }
  if (std::min(u.of_rows, u.of_cols) >= kMostPairs) u.status = kOverflow;
  if (negative) u.status = kInvalidCapacity;
  // Capacities above the total of the other side are cut to that total plus one, which keeps sums
  // small. With unmatched costs, rows are not cut, because they pay for every unmatched unit.
  const auto most_rows = int32_t(u.of_cols + 1), most_cols = int32_t(u.of_rows + 1);
  for (int64_t i = 0; !p.unmatched && i < p.n; ++i) u.rows[i] = std::min(u.rows[i], most_rows);
  for (int64_t j = 0; j < p.m; ++j) {
    u.cols[j] = std::min(u.cols[j], most_cols);
    if (u.least) u.least[j] = std::min(u.least[j], u.cols[j]);
  }
  return u;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_CAPACITY_UNITS_H_
