// A breadth-first search from many vertices by all blocks of a launch: level by level while levels
// are large, then asynchronously with work sharing between blocks.
//
// The search keeps a list of entries (SearchEntry: neighbours to scan) in global memory. Each block
// has two stages, buffers in shared memory: one holds entries to search, the other takes the
// entries found.
#ifndef JAXMATCH_MATCHING_CUDA_WORK_SHARING_BFS_CUH_
#define JAXMATCH_MATCHING_CUDA_WORK_SHARING_BFS_CUH_

#include "matching/cuda/expand.cuh"

namespace jaxmatch::matching {

#ifndef JAXMATCH_EMULATED
constexpr int kStaged = 3072;  // capacity of each of a block's two stages, in entries
#endif
constexpr int64_t kMatchingSharedBytes = sizeof(MatchingShared) + 2 * kStaged * sizeof(SearchEntry);

struct WorkSharingTuning {
  int narrow = 131072;  // largest level, in entries, that blocks search asynchronously
  int patience = 150;   // microseconds after the last success until a search ends
  int share = 64;       // smallest number of entries that one block offers to another
};

// Ends a search when it has `goal` successes, or some time after its last success. A success is a
// path found, or a free vertex reached (see the search rule).
class Patience {
 public:
  __device__ Patience(int microseconds, int32_t goal) {
    patience_ = microseconds * kCycles;
    goal_ = goal;
    since_ = clock64();
  }

  __device__ bool ends(int32_t found) {
    const int64_t now = clock64();
    if (found != found_) since_ = now;
    found_ = found;
    return found >= goal_ || (found > 0 && now - since_ > patience_);
  }

 private:
  static constexpr int64_t kCycles = 1700;  // clock cycles in about a microsecond

  int64_t patience_, since_;
  int32_t goal_, found_ = 0;
};

// The list begins with the entries to start from; entries found are appended. `rule`, the search
// rule (for example TreeRule), decides which trees grow and what happens with a claimed target. It
// counts successes in control->found.
template <class Rule>
class WorkSharingBfs {
 public:
  __device__ WorkSharingBfs(MatchingGrid& grid, const MatchingState& s, Rule rule,
                            const int32_t* adj, WorkSharingTuning tuning)
      : grid_(grid), s_(s), c_(*s.control), rule_(rule), adj_(adj), tuning_(tuning) {}

  // Searches from the first `roots` entries of the list, until no entry is left or Patience ends
  // the search. Sets control->entries to the length of the list.
  __device__ void run(int32_t roots, int32_t goal) {
    // work_sharing() divides the entries among the blocks, and each share must fit into a stage.
    const int32_t narrow = min(tuning_.narrow, int(gridDim.x) * kStaged);
    int32_t first = 0, last = roots;
    while (last - first > narrow) {
      const int32_t more = level(first, last);
      first = last;
      last += more;
    }
    if (grid_.leader()) {
      c_.entries = last;
      c_.working = int32_t(gridDim.x);
      c_.stop = 0;
      c_.tickets = c_.offers = 0;
    }
    grid_.barrier_reduce();
    if (first < last) work_sharing(first, last, goal);
    const int32_t offers = load_l2(&c_.offers);
    grid_.each(offers, [&](int64_t k) { s_.offers[k] = {0, 0}; });
    grid_.barrier_reduce();
  }

  __device__ static int32_t load_l2(const int32_t* at) { return __ldcg(at); }
  __device__ SearchEntry* list() const { return s_.list[load_l2(&c_.turn)]; }
  __device__ static SearchEntry* stage(int which) {
    char* const stages = matching_shared + sizeof(MatchingShared);
    return reinterpret_cast<SearchEntry*>(stages) + which * kStaged;
  }
  // Joins both stages of the block into one empty stage, which append_entry() fills. flush() copies
  // the stage to `list`.
  __device__ FoundEntries staging(SearchEntry* list, int32_t* listed) const {
    __syncthreads();
    if (threadIdx.x == 0) in_block().staged = 0;
    __syncthreads();
    return {stage(0), 2 * kStaged, &in_block().staged, &in_block().edges, list, listed, nullptr};
  }
  __device__ void flush(const FoundEntries& out) const {
    __syncthreads();
    const int n = min(*out.staged, out.room);
    if (threadIdx.x == 0) in_block().base = n > 0 ? atomicAdd(out.listed, n) : 0;
    __syncthreads();
    copy(out.list + in_block().base, out.stage, n);
    __syncthreads();
  }
  __device__ static void copy(SearchEntry* to, const SearchEntry* from, int count) {
    for (int k = threadIdx.x; k < count; k += blockDim.x) to[k] = from[k];
  }
  __device__ static SearchEntry read(const SearchEntry* at) {
    const int4 x = __ldcg(reinterpret_cast<const int4*>(at));
    return {x.x, x.y, x.z, x.w};
  }

 private:
  // Searches entries [first, last) of the list, which form one level. Returns the number of entries
  // found.
  __device__ int32_t level(int32_t first, int32_t last) {
    SearchEntry* const entries = list();
    FoundEntries out = staging(entries + last, &grid_.tally()->count);
    const int32_t count = last - first;
    const int32_t each = min(32, (count + grid_.warps() - 1) / grid_.warps());
    for (int32_t k = grid_.warp() * each; k < count; k += grid_.warps() * each) {
      const bool exists = grid_.lane() < each && k + grid_.lane() < count;
      const SearchEntry mine =
          exists ? read(entries + first + k + grid_.lane()) : SearchEntry{0, 0, 0, 0};
      expand(s_, rule_, adj_, mine, out);
    }
    flush(out);
    if (grid_.leader()) ++c_.levels;
    return grid_.barrier_reduce().count;
  }

  // Divides entries [first, last) of the list among the blocks. Each block then also searches the
  // entries that it finds, and offers some of them to idle blocks. An idle block draws a ticket and
  // waits for the offer with the ticket's number.
  __device__ void work_sharing(int32_t first, int32_t last, int32_t goal) {
    MatchingShared& b = in_block();
    const int32_t share = max(tuning_.share, (last - first + int(gridDim.x) - 1) / int(gridDim.x));
    first += int32_t(blockIdx.x) * share;
    int now = 0, begin = 0, end = max(0, min(share, last - first));
    int edges = INT32_MAX;  // upper bound on the edges in stage(now)
    int staged = 0;         // number of entries in the other stage
    bool listed = true;     // whether stage(now)[begin .. end) is in the list
    Patience patience(tuning_.patience, goal);
    for (int k = threadIdx.x; k < end; k += blockDim.x) stage(now)[k] = read(list() + first + k);
    if (threadIdx.x == 0) b.staged = b.edges = b.begin = 0;
    __syncthreads();
    bool stop = false;
    while (!stop) {
      if (begin == end) {
        // Continue with the entries that this block has found, or else with an offer of another
        // block.
        if (staged == 0) {
          end = wait_for_offer(stage(now));
          if (end == 0) break;
          edges = INT32_MAX;
          listed = true;
          begin = 0;
        } else {
          now = 1 - now;
          begin = b.begin;  // search_few() has searched the entries before it
          end = staged;
          edges = b.edges;
          listed = false;
        }
        staged = 0;
        __syncthreads();
        if (threadIdx.x == 0) b.staged = b.edges = b.begin = 0;
        __syncthreads();
      }
      int32_t base = 0;
      int4 seen{};
      int32_t found = 0;
      if (threadIdx.x == 0) {
        if (!listed) base = atomicAdd(&c_.entries, end);
        seen = __ldcg(reinterpret_cast<const int4*>(&c_.working));
        found = load_l2(&c_.found);
      }
      const int room = kStaged - staged;
      const int part = edges <= room ? end - begin : fitting(stage(now) + begin, end - begin, room);
      const FoundEntries out{stage(1 - now), kStaged,     &b.staged, &b.edges,
                             list(),         &c_.entries, &s_};
      if (end - begin <= kFew && edges <= kFewEdges) {
        if (threadIdx.x < 32) {
          // `alone`: no other block has work, so only this block can publish entries.
          const bool alone = __shfl_sync(kAllLanes, int(seen.x == 1), 0);
          search_few(stage(now) + begin, end - begin, out, patience, alone);
        }
        __syncthreads();
      } else {
        if (threadIdx.x == 0) b.begin = 0;
        search_stage(stage(now) + begin, part, out);
      }
      if (threadIdx.x == 0) {
        b.base = base;
        b.stop = seen.y;
        b.idle = seen.z - seen.w;
        if (patience.ends(found)) atomicExch(&c_.stop, 1);
      }
      __syncthreads();
      if (!listed) copy(list() + b.base, stage(now), end);
      listed = true;
      begin += part;
      stop = b.stop != 0;
      staged = min(b.staged, kStaged);
      const int waiting = staged - b.begin;
      const bool crowded = staged > kStaged - kRoom;
      if (!stop && waiting > 0 && (crowded || (b.idle > 0 && waiting >= 2 * tuning_.share))) {
        const int kept = offer(stage(1 - now) + b.begin, waiting, b.idle, crowded);
        staged -= waiting - kept;
      }
      __syncthreads();  // all threads have read b.staged
      if (threadIdx.x == 0) b.staged = staged;
      __syncthreads();
    }
    // If the search was stopped, the entries found last are not in the list yet.
    if (staged > 0) {
      if (threadIdx.x == 0) b.base = atomicAdd(&c_.entries, staged);
      __syncthreads();
      copy(list() + b.base, stage(1 - now), staged);
    }
    grid_.barrier_reduce();
  }
  static constexpr int kFew = 32, kFewEdges = 96;  // limits for search_few()
  static constexpr int kRoom =
      kStaged / 2;  // entries that a round must have room for; more than one entry adds

  // Returns the largest k such that the first k entries have at most `room` neighbours together.
  __device__ int fitting(const SearchEntry* entries, int count, int room) {
    MatchingShared& b = in_block();
    const int at = threadIdx.x, lane = grid_.lane(), warp = at / 32;
    int sum = at < count ? entries[at].degree : 0;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) b.sums[warp] = sum;
    if (at == 0) b.end = 0;
    __syncthreads();
    int before = 0;
    if (lane < warp) before = b.sums[lane];
    sum += __reduce_add_sync(kAllLanes, before);
    const unsigned fit = __ballot_sync(kAllLanes, at < count && sum <= room);
    if (lane == 0 && fit) atomicMax(&b.end, warp * 32 + __popc(fit));
    __syncthreads();
    return b.end;
  }
  __device__ void search_stage(const SearchEntry* entries, int count, const FoundEntries& out) {
    const int warps = int(blockDim.x / 32), each = min(32, (count + warps - 1) / warps);
    for (int k = int(threadIdx.x / 32) * each; k < count; k += warps * each) {
      const bool exists = grid_.lane() < each && k + grid_.lane() < count;
      expand(s_, rule_, adj_, exists ? entries[k + grid_.lane()] : SearchEntry{0, 0, 0, 0}, out);
    }
    __syncthreads();
  }
  // One warp searches level after level, while there is little to search. Sets in_block().begin to
  // the first found entry that it has not searched, and in_block().edges to the number of
  // neighbours of the entries from there on.
  __device__ void search_few(const SearchEntry* entries, int count, const FoundEntries& out,
                             Patience& patience, bool alone) {
    MatchingShared& b = in_block();
    int begin = 0;
    for (int rounds = 1;; ++rounds) {
      expand(s_, rule_, adj_,
             grid_.lane() < count ? entries[grid_.lane()] : SearchEntry{0, 0, 0, 0}, out, alone);
      __syncwarp();
      const int end = *out.staged, edges = *out.edges;
      entries = out.stage + begin;
      count = end - begin;
      if (count == 0 || count > kFew || edges > kFewEdges || end > kStaged - kRoom) break;
      if (rounds % 16 == 0) {
        bool stop = false;
        if (grid_.lane() == 0) stop = poll(&c_.working).y != 0 || patience.ends(load_l2(&c_.found));
        if (__any_sync(kAllLanes, stop)) break;
      }
      begin = end;
      __syncwarp();
      if (grid_.lane() == 0) *out.edges = 0;
      __syncwarp();
    }
    if (grid_.lane() == 0) b.begin = begin;
  }
  // Offers entries at the end of the stage to `idle` blocks. With `all`, offers the whole stage.
  // Returns the number of entries kept.
  __device__ int offer(const SearchEntry* entries, int count, int idle, bool all) {
    MatchingShared& b = in_block();
    int offers = min(max(idle, 0), count / tuning_.share - 1);
    int size = count / (offers + 1);
    if (all) {
      offers = max(idle, 1);
      size = (count + offers - 1) / offers;
      offers = (count + size - 1) / size;
    }
    const int kept = all ? 0 : count - offers * size;
    __syncthreads();  // all threads have read b.base
    if (threadIdx.x == 0) b.base = atomicAdd(&c_.entries, count - kept);
    __syncthreads();
    copy(list() + b.base, entries + kept, count - kept);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(&c_.working, offers);
      const int32_t slot = atomicAdd(&c_.offers, offers);
      __threadfence();
      for (int p = 0; p < offers; ++p) {
        publish(s_, slot + p, b.base + p * size, min(size, count - kept - p * size));
      }
    }
    return kept;
  }
  // Waits for an offer and copies its entries into the stage. Returns their number; 0 means that
  // the search is over.
  __device__ int wait_for_offer(SearchEntry* entries) {
    MatchingShared& b = in_block();
    if (threadIdx.x == 0) {
      b.count = 0;
      atomicSub(&c_.working, 1);
      SearchOffer* const mine = s_.offers + atomicAdd(&c_.tickets, 1);
      for (;;) {
        const int2 x = poll(mine);
        if (x.y > 0) {
          b.base = x.x;
          b.count = x.y;
          *mine = {0, 0};
          __threadfence();
          break;
        }
        const int2 all = poll(&c_.working);
        if (all.x == 0 || all.y != 0) break;
      }
    }
    __syncthreads();
    const int count = b.count;
    for (int k = threadIdx.x; k < count; k += blockDim.x) entries[k] = read(list() + b.base + k);
    __syncthreads();
    return count;
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  MatchingControl& c_;
  Rule rule_;
  const int32_t* adj_;
  WorkSharingTuning tuning_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_WORK_SHARING_BFS_CUH_
