// Scans that every initialisation needs: for the range of the costs, the column minima, and the
// list of free rows.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_SCAN_COSTS_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_SCAN_COSTS_CUH_

#include "assignment/cuda/state.cuh"

namespace jaxmatch::assignment {

// Calls body(j, C_ij - v_j), in order of j, for this lane's columns of row i. Each lane has
// `kPacks` packs; the first pack of lane 0 begins at column `first`. Columns of the padding have
// arbitrary costs, but their v makes them infinitely far.
template <int kPacks, class S, class Body>
__device__ void for_some_columns(const S& s, int i, int first, const Body& body) {
  constexpr int kStep = S::K * kWarpSize;
  const int mine = first + s.group.lane() * S::K;
  typename S::Raws raws[kPacks];
#pragma unroll
  for (int c = 0; c < kPacks; ++c) {
    raws[c] = s.load(s.start(mine + c * kStep), i, mine + c * kStep);
  }
  if constexpr (kPacks > 1) keep_loads_together();
#pragma unroll
  for (int c = 0; c < kPacks; ++c) {
    const int j = mine + c * kStep;
    const auto v = s.duals(j);
#pragma unroll
    for (int k = 0; k < S::K; ++k) body(j + k, s.less(raws[c].x[k], v.x[k]));
  }
}

// Like for_some_columns(), for all columns of the row and with several loads in flight at once.
template <class S, class Body>
__device__ void for_each_column(const S& s, int i, const Body& body) {
  constexpr int kStep = S::K * kWarpSize;
  if constexpr (S::kOneWarp) {
    if (s.cols > 0) for_some_columns<1>(s, i, 0, body);
    return;
  }
  int first = 0;
  for (; first + 2 * kStep < s.cols; first += 4 * kStep) for_some_columns<4>(s, i, first, body);
  if (first < s.cols) for_some_columns<2>(s, i, first, body);
}

// Clears the state: nothing is matched and every dual is 0.
template <class S>
__device__ void clear(const S& s) {
  using Key = typename S::Key;
  const auto& g = s.group;
  const int width = padded_width(s.cols, S::K, S::kOneWarp);
  for (int j = g.thread; j < width; j += g.size) {
    s.v[j] = j < s.cols ? Key(0) : S::Arithmetic::kFarDual;
    s.row4col[j] = kNone;
  }
  for (int i = g.thread; i < s.rows; i += g.size) s.col4row[i] = kNone;
}

// Passes every cost to `range`, until `range` gives up (see Guess in costs/cuda/stored.cuh). With
// `kMinima`, also stores the least cost of each column in v, and the first row that attains it in
// pred.
template <bool kMinima, class S, class Range>
__device__ void scan_costs(const S& s, Range& range) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  // A single warp reads packs of columns. With several warps, each thread reads one column.
  constexpr int kColumns = S::kOneWarp ? S::K : 1, kAhead = S::kOneWarp ? 8 / S::K : 16;
  const auto& g = s.group;
  if (s.rows == 0) return;
  const int lane_j = g.lane() * kColumns;
  if (g.thread * kColumns - lane_j < s.cols) range.begin(s.costs[min(g.thread, s.cols - 1)]);
  // Whole warps take part: threads beyond the last column read the last column again, which changes
  // nothing.
  for (int j = g.thread * kColumns; j - lane_j < s.cols; j += g.size * kColumns) {
    Key least[kColumns];
    int argmin[kColumns];
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      least[k] = A::kInfinity;
      argmin[k] = kNone;
    }
    const auto visit = [&](int i, int k, typename S::Raw raw) {
      range.include(raw, s.f.b.maximize);
      if constexpr (kMinima) {
        const Key key = s.read(raw);
        argmin[k] = key < least[k] ? i : argmin[k];
        least[k] = lesser(least[k], key);
      }
    };
    const auto* start = S::kOneWarp ? s.start(j) : s.costs + min(j, s.cols - 1);
    const auto load = [&](int i, typename S::Raw(&raw)[kColumns]) {
      if constexpr (S::kOneWarp) {
        const auto raws = s.load(start, i, j);
#pragma unroll
        for (int k = 0; k < kColumns; ++k) raw[k] = j + k < s.cols ? raws.x[k] : raws.x[0];
      } else {
        raw[0] = start[uint64_t(unsigned(i)) * unsigned(s.f.stride)];
      }
    };
    int first = 0;
    for (; first + kAhead <= s.rows; first += kAhead) {
      typename S::Raw raw[kAhead][kColumns];
#pragma unroll
      for (int a = 0; a < kAhead; ++a) load(first + a, raw[a]);
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
#pragma unroll
        for (int k = 0; k < kColumns; ++k) visit(first + a, k, raw[a][k]);
      }
      if (range.gives_up()) return;
    }
#pragma unroll 1
    for (; first < s.rows; ++first) {
      typename S::Raw raw[kColumns];
      load(first, raw);
#pragma unroll
      for (int k = 0; k < kColumns; ++k) visit(first, k, raw[k]);
    }
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      if (!kMinima || j + k >= s.cols) continue;
      s.v[j + k] = argmin[k] == kNone ? Key(0) : least[k];
      s.pred[j + k] = Index(argmin[k]);
    }
  }
}

// Scans the costs and stores their range in `found`. Unless columns may stay unmatched, also finds
// the column minima. Returns false if `range` is a Guess that failed.
template <class S, class Range>
__device__ bool scan_with(const S& s, Range range, CostRange& found) {
  if (s.cols_optional) {
    scan_costs<false>(s, range);
  } else {
    scan_costs<true>(s, range);
  }
  using Word = typename S::Costs::Word;
  return range.combine(s.group, s.f.template shared<Word>(s.f.b.shared.slots), found);
}

template <class S>
__device__ CostRange scan_cost_range(const S& s) {
  CostRange found;
  if (scan_with(s, typename S::Costs::Guess(), found)) return found;
  scan_with(s, typename S::Costs::Range(), found);
  return found;
}

// Restores the column minima in v from their rows, which pred still holds.
template <class S>
__device__ void load_minima(const S& s) {
  for (int j = s.group.thread; j < s.cols; j += s.group.size) {
    const int i = s.pred[j];
    s.v[j] = i == kNone ? typename S::Key(0) : s.entry(i, j);
  }
}

// Lists the free rows in order. Returns their number.
template <class S>
__device__ int list_free_rows(const S& s) {
  const auto& g = s.group;
  if (g.warp() == 0) {
    int count = 0;
    for (int first = 0; first < s.rows; first += kWarpSize) {
      const int i = first + g.lane();
      const bool is_free = i < s.rows && s.col4row[i] == kNone;
      const unsigned all = __ballot_sync(kAllLanes, is_free);
      if (is_free) s.free_rows[count + __popc(all & lanes_below(g.lane()))] = Index(i);
      count += __popc(all);
    }
    if constexpr (S::kOneWarp) {
      __syncwarp();
      return count;
    }
    if (g.lane() == 0) s.control[kLeft] = count;
  }
  g.sync();
  return s.control[kLeft];
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_SCAN_COSTS_CUH_
