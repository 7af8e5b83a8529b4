// A wave runs path searches from many free rows at once. The changes that a search asks for are
// made unless an earlier search of the wave changes one of the same columns. Changes of other
// columns do no harm: prices only fall, so cost - price only rises, and no shorter path appears.
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
  int width;          // minimum number of lanes per row
  char* tables;       // the block's hash tables, in shared memory
  int32_t slots;      // slots of a warp's hash table
  int64_t steps = 0;  // waves so far

  // Most searches of a wave in which each search gets a whole block, and so a larger table.
  static constexpr int kFewSearches = 128;

  // Where a search records its path and changes. A record has space for `room` columns.
  struct Record {
    Search* search;
    int64_t* dist;
    int32_t *col, *path;
  };
  __device__ Record record(int64_t k, int64_t room) const {
    return {w.search + k, w.moved_dist + k * room, w.moved + k * room, w.path + k * (room + 1)};
  }

  // The counts of this wave. The last wave has its own counts, which slow blocks may still read.
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
    // Columns of the path may be as far away as the path's end. The loop above has left these out,
    // so all columns of the path are claimed here.
    group.each(labels.path,
               [&](int64_t q) { atomic_min(&w.claim[c.col[r.path[q]]], claim_of(k)); });
    group.one([&] { r.search->listed = labels.listed; });
  }

  // One warp makes the changes of prices and pairs that search k has recorded, if this search holds
  // the claims on all columns that it would change.
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

  // Lists the start rows of the next wave: first the rows whose searches lost a column to another
  // search, then new rows.
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

  // A warp or a block (`group`) runs search k, from row `start`, and records the result.
  template <class Group>
  __device__ void search(const Group& group, const Table& table, int64_t k, int32_t start,
                         int64_t room) const {
    PathSearch<Group> path{group, c, w, table, width};
    const Outcome outcome = path.run(start);
    write_record(path, k, record(k, room), outcome);
  }

  // Plays waves until each of the `count` listed rows is matched or needs a larger hash table, or
  // until the paths of too few searches can be used. In a wave of few searches, a block runs each
  // search; in larger waves, a warp does. With `by_blocks`, all waves are kept that small.
  __device__ __noinline__ void play(int32_t count, bool by_blocks) {
    constexpr int32_t kFewMoves = 8;  // stop if conflicts exceed used paths by this factor
    const int warp = team.warp_of_block();
    const Table of_warp(team.s.labels[warp], tables + warp * slots * kSlotBytes, slots);
    const Table of_block(team.s.of_block, tables, slots * Team::kTeamWarps);
    // Columns that a search may record: `room` if a block runs it, `own_room` if a warp does. In
    // waves of at most `few` searches, blocks run them.
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
