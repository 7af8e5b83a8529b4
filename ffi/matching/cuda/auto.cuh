// The method "auto" for one large graph on a GPU: a greedy matching, then pushes for short
// augmenting paths, then tree grafting for all other paths.
#ifndef JAXMATCH_MATCHING_CUDA_AUTO_CUH_
#define JAXMATCH_MATCHING_CUDA_AUTO_CUH_

#include "matching/cuda/karp_sipser.cuh"
#include "matching/cuda/push.cuh"
#include "matching/cuda/start.cuh"
#include "matching/cuda/tree_grafting.cuh"

namespace jaxmatch::matching {

struct AutoTuning {
  WorkSharingTuning work_sharing;
  int32_t highest = 16;
  int most_pushes = 16;
  int32_t crowd = 32;        // no pushes after a phase that has found at most this many paths
  int relabels = 8;          // most global relabellings
  int relabel_pushes = 128;  // most pushes of a token after each relabelling
};

enum class Stage : int32_t { kBegin, kSolve, kEnd, kInvalid, kRescued };

// Checks the graph and makes the initial matching. False if the graph is invalid.
__device__ inline bool begin_matching(MatchingGrid& grid, const MatchingState& s,
                                      const int32_t* start, MatchingInit init) {
  clear_mates(grid, s);
  if (!graph_is_valid(grid, s)) return false;
  if (start) take_over(grid, s, start);
  switch (init) {
    case MatchingInit::kNone:
      break;
    case MatchingInit::kKarpSipser:
      KarpSipser(grid, s).run(start != nullptr);
      match_cheaply(grid, s);  // for rows that gave up after too many attempts
      break;
    case MatchingInit::kCheap:
      match_cheaply(grid, s);
      break;
    case MatchingInit::kAuto:
      match_by_degree<8>(grid, s.rows(), s.cols(), 1, 1);
      match_by_degree<8>(grid, s.cols(), s.rows(), 1, 1);
      match_by_degree<8>(grid, s.rows(), s.cols(), 2, 2);
      match_by_degree<8>(grid, s.cols(), s.rows(), 2, 2);
      match_by_degree<32>(grid, s.rows(), s.cols(), 3, INT32_MAX);
      break;
  }
  return true;
}

// True if there are fewer free columns with edges than free rows with edges.
__device__ inline bool search_from_cols(MatchingGrid& grid, const MatchingState& s) {
  const auto count = [&](MatchingSide side, int32_t* total) {
    int32_t mine = 0;
    grid.each(side.count, [&](int64_t x) {
      mine += __ldcg(side.mate + x) < 0 && side.ptr[x + 1] > side.ptr[x];
    });
    mine = __reduce_add_sync(kAllLanes, mine);
    if (grid.lane() == 0 && mine > 0) atomicAdd(total, mine);
  };
  count(s.rows(), &grid.tally()->count);
  count(s.cols(), &grid.tally()->found);
  const Tally free = grid.barrier_reduce();
  return free.found < free.count;
}

// Extends the current matching to a maximum one.
class AutoSolve {
 public:
  __device__ AutoSolve(MatchingGrid& grid, const MatchingState& s, AutoTuning tuning)
      : grid_(grid), s_(s), tuning_(tuning) {}

  __device__ void begin() {
    const bool from_cols = search_from_cols(grid_, s_);
    if (grid_.leader()) s_.control->roots_are_cols = from_cols;
    grid_.barrier_reduce();
    pushing().short_paths(tuning_.highest, tuning_.most_pushes);
    tree_grafting().begin();
  }
  // Runs `phases` phases, or to the end if `phases` is negative. Returns true if the matching is
  // maximum.
  __device__ bool run(int64_t phases) {
    bool done = false;
    for (int32_t last = INT32_MAX; !done && phases != 0; --phases) {
      const int32_t found = tree_grafting().phase();
      done = found == 0;
      // If trees compete for the same targets, every phase finds only about half of the remaining
      // paths. Pushes avoid this, but they read only kNeighbours neighbours of a vertex. So they
      // are used if vertices have at most kNeighbours neighbours on average.
      const bool crowded = found > tuning_.crowd && found > last / 3;
      if (crowded && tuning_.relabels > 0 && s_.graph.capacity <= Pushing::kNeighbours * s_.side) {
        tree_grafting().write_mates();
        push_with_labels();
        tree_grafting().begin();
        last = INT32_MAX;
      } else {
        last = found;
      }
    }
    tree_grafting().write_mates();
    return done;
  }
  __device__ bool write_cover() {
    const MatchingResults& r = s_.results;
    tree_grafting().write_cover(from_cols() ? r.col_cover : r.row_cover,
                                from_cols() ? r.row_cover : r.col_cover);
    return true;
  }

 private:
  __device__ bool from_cols() const { return __ldcg(&s_.control->roots_are_cols) != 0; }
  __device__ MatchingSide a() const { return from_cols() ? s_.cols() : s_.rows(); }
  __device__ MatchingSide b() const { return from_cols() ? s_.rows() : s_.cols(); }
  __device__ void push_with_labels() {
    for (int32_t k = 0, last = INT32_MAX; k < tuning_.relabels; ++k) {
      const int32_t tokens = pushing().relabel_and_push(last, tuning_.relabel_pushes);
      if (tokens == 0 || tokens > last / 2) break;
      last = tokens;
    }
    tuning_.relabels = 0;  // push_with_labels() runs at most once per launch
  }
  __device__ Pushing pushing() const { return Pushing(grid_, s_, a(), b(), tuning_.work_sharing); }
  __device__ TreeGrafting tree_grafting() const {
    return TreeGrafting(grid_, s_, a(), b(), tuning_.work_sharing);
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  AutoTuning tuning_;
};

// Runs `budget` steps of `solver`, or to the end if `budget` is negative. `solver` has begin(),
// run(budget) and write_cover(). A later call with the same control words does not repeat finished
// stages, but it writes the results again.
template <class Solver>
__device__ inline void solve_matching(MatchingGrid& grid, const MatchingState& s, Solver solver,
                                      const int32_t* start, MatchingInit init, int64_t budget) {
  Stage stage = Stage(__ldcg(&s.control->stage));
  if (stage == Stage::kBegin) {
    stage = begin_matching(grid, s, start, init) ? Stage::kSolve : Stage::kInvalid;
    if (stage == Stage::kSolve) solver.begin();
  }
  if (stage == Stage::kSolve && solver.run(budget)) stage = Stage::kEnd;
  bool proved = stage == Stage::kEnd && solver.write_cover();
  if constexpr (!std::is_same_v<Solver, AutoSolve>) {
    // A fallback for methods in which races between threads may lose a pair, so that they end with
    // fewer pairs than possible. Tree grafting, which loses none, adds the missing pairs.
    AutoSolve rescue(grid, s, {});
    if (stage == Stage::kEnd && !proved) {
      rescue.begin();
      rescue.run(-1);
      stage = Stage::kRescued;
    }
    if (stage == Stage::kRescued) proved = rescue.write_cover();
  }
  if (proved) {
    write_pairs(grid, s, kOptimal);
  } else if (stage == Stage::kInvalid) {
    write_invalid(grid, s);
  } else {
    write_unfinished(grid, s);
  }
  grid.barrier_reduce();
  if (grid.leader()) {
    s.control->stage = int32_t(stage);
    s.control->done = stage != Stage::kSolve;
    s.control->step = grid.steps();
  }
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_AUTO_CUH_
