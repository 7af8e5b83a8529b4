// Waves of searches from many free rows at once. A search keeps its path if no earlier one of the
// wave moves a column that it moves: prices of others only fall, which makes its columns no nearer.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WAVES_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WAVES_CUH_

#include "sparse_assignment/cuda/bids.cuh"
#include "sparse_assignment/cuda/path_search.cuh"

namespace jaxmatch::sparse_assignment {

template <class Team>
struct Waves {
  Team team;
  const Canonical& c;
  const Workspace& w;
  int width;          // lanes of a row
  char* tables;       // in shared memory
  int32_t slots;      // of a warp
  int64_t steps = 0;  // waves so far

  // So few are made by a block each, even of the largest trees.
  static constexpr int kFewSearches = 128;

  // Where a search of a wave records what it found, `room` columns each.
  struct Record {
    Search* search;
    int64_t* dist;
    int32_t *col, *path;
  };
  __device__ Record record(int64_t k, int64_t room) const {
    return {w.search + k, w.moved_dist + k * room, w.moved + k * room, w.path + k * (room + 1)};
  }

  // Of this wave. Slow blocks may still look at that of the last one.
  __device__ Control::Tally& tally() const { return w.control->tally[steps % 2]; }
  __device__ uint64_t claim_of(int64_t k) const {
    return uint64_t(INT32_MAX - steps) << 32 | uint64_t(k);
  }

  // Records what a search found, and claims the columns that it would change.
  template <class Group>
  __device__ void write_record(const PathSearch<Group>& from, int64_t k, const Record& r,
                               Outcome outcome) const {
    const Group& group = from.team;
    Labels& labels = from.t.labels;
    const int32_t stays = outcome == kFound ? from.row_end() : kNone;
    group.one([&] {
      *r.search = {from.end, from.least, from.start, stays, 0, 0, outcome};
      if (outcome != kFound) return;
      from.each_on_path([&](int32_t edge) { r.path[labels.path++] = edge; });
      r.search->path = labels.path;
    });
    if (outcome != kFound) return;
    from.t.each_used(group, [&](int32_t s) {
      if (from.t.dist[s] >= from.end) return;
      const int32_t at = atomicAdd(&labels.listed, 1), j = from.t.col[s];
      r.dist[at] = from.t.dist[s];
      r.col[at] = j;
      atomic_min(&w.claim[j], claim_of(k));
    });
    group.sync();
    // A path may also lead through columns that are as far as its end.
    group.each(labels.path,
               [&](int64_t q) { atomic_min(&w.claim[c.col[r.path[q]]], claim_of(k)); });
    group.one([&] { r.search->listed = labels.listed; });
  }

  // Moves the prices and the pairs of search k, if it has all its columns. By a warp.
  __device__ void move(int64_t k, const Record& r) const {
    const Search found = *r.search;
    if (found.outcome != kFound) return;
    const int lane = team.lane();
    const auto is_own = [&](int32_t j) { return w.claim[j] == claim_of(k); };
    bool own = true;
    for (int32_t q = lane; q < found.listed; q += kWarpSize) own &= is_own(r.col[q]);
    for (int32_t q = lane; q < found.path; q += kWarpSize) own &= is_own(c.col[r.path[q]]);
    own = __ballot_sync(kAllLanes, own) == kAllLanes;
    if (own) {
      for (int32_t q = lane; q < found.listed; q += kWarpSize) {
        const int64_t by = found.end - r.dist[q];
        w.price[r.col[q]] -= by;
        w.u[w.owner[r.col[q]]] += by;
      }
      __syncwarp();
      for (int32_t q = lane; q < found.path; q += kWarpSize) {
        const int32_t edge = r.path[q], i = c.row[edge];
        w.pair[i] = edge;
        w.owner[c.col[edge]] = i;
      }
      __syncwarp();
    }
    if (lane != 0) return;
    r.search->outcome = own ? kMoved : kConflict;
    atomicAdd(own ? &tally().moves : &tally().conflicts, 1);
    if (!own) return;
    w.u[found.start] = found.u + found.end;
    if (found.stays != kNone) w.pair[found.stays] = kStays;
  }

  // The searches of the next wave: those that did not keep their path, then new ones.
  __device__ void fill(int32_t count, int32_t most) const {
    if (team.rank != 0) return;
    const Team block = team.alone();
    const int32_t size = w.control->batch, next = w.control->next;
    const int32_t* from = w.batch[steps % 2];
    int32_t* const to = w.batch[(steps + 1) % 2];
    const int32_t again = compact(
        block, size, w.of_warps, to, [&](int64_t k) { return w.search[k].outcome == kConflict; },
        [&](int64_t k) { return from[k]; });
    const int32_t fresh = min(most - again, count - next);
    block.each(fresh, [&](int64_t k) { to[again + k] = w.list[0][next + k]; });
    block.one([&] {
      w.control->batch = again + fresh;
      w.control->next = next + fresh;
    });
  }

  // A search by a warp or a block.
  template <class Group>
  __device__ void search(const Group& group, const Table& table, int64_t k, int32_t start,
                         int64_t room) const {
    PathSearch<Group> path{group, c, w, table, width};
    const Outcome outcome = path.run(start);
    write_record(path, k, record(k, room), outcome);
  }

  // Waves of searches until all rows of the list have been matched or need a larger table, or few
  // searches keep their paths. Few searches are made by a block each, many by a warp each;
  // `by_blocks`: never so many.
  __device__ __noinline__ void play(int32_t count, bool by_blocks) {
    constexpr int32_t kFewMoves = 8;  // one of so many searches
    const int warp = team.warp_of_block();
    const Table of_warp(team.s.labels[warp], tables + warp * slots * kSlotBytes, slots);
    const Table of_block(team.s.of_block, tables, slots * Team::kTeamWarps);
    // Searches of a wave, and columns of a search.
    const int64_t room = min(w.vertices, int64_t(of_block.most)), own_room = w.recorded();
    const int64_t few = min(int64_t(kFewSearches), w.waves() * own_room / room);
    team.sync();
    team.one([&] { w.control->batch = w.control->next = 0; });
    team.sync();
    for (;;) {
      fill(count, int32_t(by_blocks ? max(few, int64_t(1)) : w.waves()));
      ++steps;
      team.one([&] { tally() = {0, 0}; });
      team.sync();
      const int32_t size = w.control->batch;
      const int32_t* const batch = w.batch[steps % 2];
      if (size == 0) return;
      const bool wide = by_blocks || size <= few;
      const int64_t wave_room = wide ? room : own_room;
      if (wide) {
        for (int32_t k = team.rank; k < size; k += team.blocks) {
          search(team.alone(), of_block, k, batch[k], room);
        }
      } else {
        team.each_by_warp(size,
                          [&](int64_t k) { search(WarpTeam{}, of_warp, k, batch[k], own_room); });
      }
      team.sync();
      bool no_way = false;
      team.each_by_warp(size, [&](int64_t k) {
        no_way |= w.search[k].outcome == kNoWay;
        move(k, record(k, wave_room));
      });
      if (no_way) w.control->wrong = 1;
      team.sync();
      const int32_t others = by_blocks ? size : tally().conflicts;
      if (w.control->wrong || tally().moves * kFewMoves < others) return;
    }
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WAVES_CUH_
