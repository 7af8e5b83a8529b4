// A warp or a block finds a shortest augmenting path from a free row.
//
// This is a label-correcting search. Each step scans the nearest columns that wait to be scanned,
// about as many as the threads can scan at once, but none farther than the nearest end found so far
// (a free column, or a row that can stay unmatched). Labels are compared by distance, then by the
// number of pairs on the path, then by the path's last edge, so the final labels do not depend on
// the order of threads. Comparing the number of pairs prevents cycles of length 0.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PATH_SEARCH_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PATH_SEARCH_CUH_

#include <type_traits>

#include "sparse_assignment/cuda/choice.cuh"

namespace jaxmatch::sparse_assignment {

// Labels of columns in a hash table.
struct Table {
  Labels& labels;
  int64_t *dist, *from;  // distance; distance at which a chosen column is scanned
  uint64_t* by;          // number of pairs on the path (high bits), and its last edge
  int32_t *from_hops, *dirty, *chosen;
  int32_t* col;   // column in each slot, or kNone
  int32_t slots;  // number of slots, a power of two
  int32_t most;   // limit on the number of columns

  __device__ Table(Labels& labels, char* base, int32_t slots)
      : labels(labels), slots(slots), most(int32_t(most_in(slots))) {
    const auto take = [&](auto*& array) {
      array = reinterpret_cast<decltype(+array)>(base);
      base += slots * int64_t(sizeof *array);
    };
    take(dist);
    take(from);
    take(by);
    take(from_hops);
    take(dirty);
    take(chosen);
    take(col);
  }

  // The slot of a column, or kNone.
  __device__ int32_t find(int32_t j) const {
    for (int32_t s = first_slot(j);; s = (s + 1) & (slots - 1)) {
      const int32_t there = col[s];
      if (there == j) return s;
      if (there == kNone) return kNone;
    }
  }
  // The slot of a column, which is inserted if it is new. kNone if the table is full.
  __device__ int32_t insert(int32_t j) const {
    for (int32_t s = first_slot(j);; s = (s + 1) & (slots - 1)) {
      int32_t there = *static_cast<volatile int32_t*>(&col[s]);
      if (there == kNone) {
        // Several threads may exceed `most` at once, each by one column. Enough slots are left for
        // that.
        const bool full = *static_cast<volatile int32_t*>(&labels.used) >= most;
        there = full ? *static_cast<volatile int32_t*>(&col[s]) : atomicCAS(&col[s], kNone, j);
        if (there == kNone && full) {
          labels.full = 1;
          return kNone;
        }
        if (there == kNone) {
          atomicAdd(&labels.used, 1);
          return s;
        }
      }
      if (there == j) return s;
    }
  }

  // Calls f(slot) for all columns in the table.
  template <class Team, class F>
  __device__ void each_used(const Team& team, const F& f) const {
    team.each(slots, [&](int64_t s) {
      if (col[s] != kNone) f(int32_t(s));
    });
  }

 private:
  __device__ int32_t first_slot(int32_t j) const {
    return int32_t((uint32_t(j) * 0x9e3779b1u) >> 7) & (slots - 1);
  }
};

enum Outcome : int32_t { kFound, kNoWay, kTooLarge, kMoved, kConflict };

template <class Team>
struct PathSearch {
  const Team team;
  const Canonical& c;
  const Workspace& w;
  const Table& t;
  const int width;
  int32_t start = kNone;
  int64_t least = 0, end = kNever;
  int share = 1;  // how many quarters of the range of waiting distances a step scans

  // A path ends at a free column j, or at a row i that then stays unmatched. Such a row is encoded
  // as kRowEnd + i.
  static constexpr uint64_t kRowEnd = uint64_t(1) << 30;

  __device__ void clear() {
    team.sync();
    team.each(t.slots, [&](int64_t s) {
      t.dist[s] = kNever;
      t.by[s] = ~uint64_t(0);
      t.dirty[s] = 0;
      t.col[s] = kNone;
    });
    team.one([&] {
      t.labels = {kNever, ~uint64_t(0), 0, 1, 0, 0, 0};
      t.chosen[0] = kNone;  // stands for the start row
    });
    end = kNever;
    share = 1;
    // Each warp finds the smallest reduced cost of the start row.
    least = best_of(c, w, start, team.lane(), kWarpSize, true).least;
    team.sync();
  }

  // Calls f(x, is_end, distance, path) for each column or end x that is one step from a chosen
  // column, if the distance is below `end`. `path` is encoded like Table::by.
  template <class F>
  __device__ void each_reached(const F& f) const {
    each_by_group(team, t.labels.chosen, width, [&](int64_t k, int lane, bool there) {
      if (!there) return;
      const int32_t slot = t.chosen[k];
      const int32_t i = slot == kNone ? start : w.owner[t.col[slot]];
      const int64_t base = slot == kNone ? -least : t.from[slot] - w.u[i];
      const uint64_t hops = slot == kNone ? 1 : uint64_t(t.from_hops[slot]) + 1;
      const int64_t stay = lane == 0 ? w.stay[i] : kNever;
      if (stay != kNever && base + stay < end) f(kRowEnd + uint64_t(i), true, base + stay, hops);
      each_edge(c, w, i, lane, width, [&](int32_t edge, int32_t j, int64_t x) {
        if (base + x >= end) return;
        f(uint64_t(j), w.owner[j] == kNone, base + x, hops << 32 | uint64_t(edge));
      });
    });
  }

  // Adapts `share` to how well the last step used the threads.
  __device__ void adapt() {
    // For blocks, this is always the number of threads of the largest blocks. So blocks of all
    // sizes make the same steps and choose the same path among ties.
    constexpr int kThreads = std::is_same_v<Team, WarpTeam> ? kWarpSize : kManyThreads;
    const int32_t groups = kThreads / width, scanned = t.labels.chosen;
    if (scanned * 2 < groups) share = min(share * 2, 4);
    if (scanned > groups * 2) share = max(share / 2, 1);
  }
  // Chooses the columns to scan. Returns false if there is none.
  __device__ bool choose() const {
    // `farthest` is the complement of a distance.
    uint64_t nearest = ~uint64_t(0), farthest = ~uint64_t(0);
    const auto waits = [&](int32_t s) { return t.dirty[s] != 0 && t.dist[s] < end; };
    t.each_used(team, [&](int32_t s) {
      if (!waits(s)) return;
      nearest = min(nearest, uint64_t(t.dist[s]));
      farthest = min(farthest, ~uint64_t(t.dist[s]));
    });
    team.least_of_each(nearest, farthest);
    if (nearest == ~uint64_t(0)) return false;
    const uint64_t range = ~farthest - nearest;
    const int64_t until = int64_t(nearest + (share == 4 ? range : range / 4 * share));
    t.each_used(team, [&](int32_t s) {
      if (!waits(s) || t.dist[s] > until) return;
      t.dirty[s] = 0;
      t.from[s] = t.dist[s];
      t.from_hops[s] = int32_t(t.by[s] >> 32);
      t.chosen[atomicAdd(&t.labels.chosen, 1)] = s;
    });
    team.sync();
    return true;
  }

  // First pass of a step: lowers distances.
  __device__ void scan_distances() const {
    each_reached([&](uint64_t at, bool is_end, int64_t dist, uint64_t) {
      if (is_end) {
        if (least_at(&t.labels.end, dist) > uint64_t(dist)) t.labels.end_by = ~uint64_t(0);
        return;
      }
      const int32_t s = t.insert(int32_t(at));
      if (s == kNone) return;
      if (least_at(&t.dist[s], dist) > uint64_t(dist)) t.by[s] = ~uint64_t(0);
    });
  }
  // Second pass of a step: sets the paths (number of pairs, last edge) for the lowered distances.
  __device__ void scan_ways() const {
    each_reached([&](uint64_t at, bool is_end, int64_t dist, uint64_t by) {
      if (is_end) {
        const uint64_t edge = at >= kRowEnd ? 0 : by & UINT32_MAX;
        if (t.labels.end == dist) atomic_min(&t.labels.end_by, at << 32 | edge);
        return;
      }
      const int32_t s = t.find(int32_t(at));
      if (s == kNone || t.dist[s] != dist) return;
      if ((atomic_min(&t.by[s], by) >> 32) > by >> 32) t.dirty[s] = 1;
    });
  }

  __device__ Outcome run(int32_t from) {
    start = from;
    clear();
    do {
      scan_distances();
      team.sync();
      if (t.labels.full || t.labels.used > t.most) return kTooLarge;
      scan_ways();
      team.sync();
      end = t.labels.end;
      adapt();
      team.sync();
      team.one([&] { t.labels.chosen = 0; });
    } while (choose());
    return end == kNever ? kNoWay : kFound;
  }

  // The row that the path leaves unmatched, or kNone.
  __device__ int32_t row_end() const {
    const uint64_t at = t.labels.end_by >> 32;
    return at >= kRowEnd ? int32_t(at - kRowEnd) : kNone;
  }
  // One thread calls f(edge) for the edges of the path, from its end to its start. f may change the
  // pairs of rows.
  template <class F>
  __device__ void each_on_path(const F& f) const {
    const int32_t stays = row_end();
    if (stays == start) return;
    const auto into = [&](int32_t pair) { return int32_t(t.by[t.find(c.col[pair])] & UINT32_MAX); };
    int32_t edge = stays == kNone ? int32_t(t.labels.end_by & UINT32_MAX) : into(w.pair[stays]);
    for (;;) {
      const int32_t i = c.row[edge], pair = w.pair[i];
      f(edge);
      if (i == start) return;
      edge = into(pair);
    }
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PATH_SEARCH_CUH_
