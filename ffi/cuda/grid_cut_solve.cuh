// The minimum cut of one grid by the blocks of a launch that know of each other, or by one block.
//
// Push-relabel by regions (Delong and Boykov, CVPR 2008) with tiles that work at the same time
// (Shekhovtsov and Hlavac, IJCV 104, 2013, section 4): in each round a tile pushes and relabels for
// itself, with the heights of its halo as they were at the round's begin; then tiles tell each
// other what went over their borders. All heights become exact distances now and then, and a solve
// is over when these say that no excess reaches a deficit: it is this that correctness rests on.
//
// Between exact distances threads race at first, and heights may become wrong. Should that not have
// come to an end after GridCutTuning::racing exact distances, it goes on with heights that are
// always valid: cells push to neighbours one below while heights stand still, and a push over the
// border is taken back where the other end has risen meanwhile so far that the arc back would lead
// down by more than one, which both tiles see. Then heights only rise, and the number of rounds is
// polynomial as for any push-relabel.
#ifndef JAXMATCH_CUDA_GRID_CUT_SOLVE_CUH_
#define JAXMATCH_CUDA_GRID_CUT_SOLVE_CUH_

#include <cstdint>

#include "grid_cut_barrier.cuh"
#include "grid_cut_tile.cuh"

namespace jaxmatch {

struct GridCutTuning {
  int rounds = 4;        // between two exact relabellings
  int first_rounds = 4;  // before the first
  int sweeps = 8;        // pushes and relabellings in a round
  int racing = 1024;     // exact relabellings before threads wait for each other

  // For measurements: four bits x for each of the first three, in order; x > 0 stands for 2^x / 2.
  static GridCutTuning of(int64_t choice) {
    GridCutTuning t;
    int shift = 0;
    for (int* field : {&t.rounds, &t.first_rounds, &t.sweeps}) {
      const int x = int(choice >> shift & 15);
      if (x > 0) *field = (1 << x) / 2;
      shift += 4;
    }
    return t;
  }
};

// What blocks tell each other, in memory of the device.
struct GridCutScratch {
  int32_t* heights;  // [2, cells]
  char* boxes;       // [2, tiles, arcs, halo] of T: what was pushed out of each tile
  char* stored;      // [1 + arcs, cells] of T and [cells] heights: tiles that take turns
};

template <int kArcs, class T>
class GridCutSolve {
 public:
  __device__ GridCutSolve(const GridTiling& tiling, const GridShape& shape, GridBarrier& barrier,
                          const GridCutScratch& scratch, const GridCutTuning& tuning,
                          GridCutControl* spent, int block, int blocks, char* memory)
      : tile_(tiling, memory),
        tiling_(tiling),
        shape_(shape),
        barrier_(barrier),
        heights_(scratch.heights),
        boxes_(reinterpret_cast<T*>(scratch.boxes)),
        stored_(reinterpret_cast<T*>(scratch.stored)),
        tuning_(tuning),
        spent_(spent),
        block_(block),
        blocks_(blocks),
        resident_(tiling.tiles() <= blocks) {}

  // Ends with exact distances: the cells on the source's side are those that are not far.
  // fill(tile, from a place in the tile to one in the grid) sets excess and residual capacities.
  template <class Fill>
  __device__ void run(const Fill& fill) {
    each_tile(false, [&] {
      tile_.clear();
      fill(tile_, [&](GridPlace p) { return global(p); });
      __syncthreads();
      // Valid to begin with: few cells need more than this says.
      tile_.each_cell([&](int a, int) { tile_.height[a] = tile_.excess[a] < 0 ? 0 : 1; });
      __syncthreads();
      publish_heights();
    });
    barrier_.meet(false);
    next_turn();
    int rounds = tuning_.first_rounds;
    for (bool again = true; again;) {
      const int64_t start = clock64();
      push_rounds(rounds);
      rounds = tuning_.rounds;
      const int64_t middle = clock64();
      again = relabel_exactly();
      if (threadIdx.x == 0) {
        spent_->push += int32_t(middle - start);
        spent_->relabel += int32_t(clock64() - middle);
      }
    }
  }

  // f(number of the cell, its place in the grid and in shared memory), with the halo's heights.
  template <class F>
  __device__ void each_result(F f) {
    each_tile(true, [&] {
      collect_heights_alone();
      tile_.each_cell([&](int a, int i) {
        const GridPlace g = global(tiling_.cell(i));
        if (shape_.holds(g.z, g.y, g.x)) f(number(g), g, a);
      });
    });
  }
  __device__ const GridTile<kArcs, T>& tile() const { return tile_; }
  __device__ int relabellings() const { return relabellings_; }

 private:
  // A cell's place in the grid; the halo may lie outside of it.
  __device__ GridPlace global(GridPlace p) const {
    return {tiling_.solid ? tz_ * tiling_.size_z + p.z - 1 : 0, ty_ * tiling_.size_y + p.y - 1,
            tx_ * tiling_.size_x() + p.x - 1};
  }
  __device__ int64_t number(GridPlace g) const {
    return (int64_t(g.z) * shape_.height + g.y) * shape_.width + g.x;
  }

  // Tiles that stay in shared memory are there; others come and go.
  template <class F>
  __device__ void each_tile(bool known, F f) {
    for (int t = block_; t < tiling_.tiles(); t += blocks_) {
      tile_number_ = t;
      tx_ = t % tiling_.count_x;
      ty_ = t / tiling_.count_x % tiling_.count_y;
      tz_ = t / tiling_.count_x / tiling_.count_y;
      if (known && !resident_) restore();
      f();
      __syncthreads();
      if (!resident_) store();
    }
  }
  template <class F>
  __device__ void each_stored(F f) {
    int32_t* const heights = reinterpret_cast<int32_t*>(stored_ + (kArcs + 1) * shape_.cells());
    tile_.each_cell([&](int a, int i) {
      const GridPlace g = global(tiling_.cell(i));
      if (!shape_.holds(g.z, g.y, g.x)) return;
      const int64_t at = number(g);
      f(tile_.excess[a], stored_[at]);
      for (int k = 0; k < kArcs; ++k) f(tile_.arc(k, a), stored_[(k + 1) * shape_.cells() + at]);
      f(tile_.height[a], heights[at]);
    });
  }
  __device__ void store() {
    each_stored([](const auto& here, auto& there) { there = here; });
    __syncthreads();
  }
  __device__ void restore() {
    tile_.clear();
    each_stored([](auto& here, const auto& there) { here = there; });
    __syncthreads();
  }

  // -------------------------------------------------------------------------------------------
  // Over the borders. What is written in one turn is read in the next; the two have memory of their
  // own, so that nobody writes what another one still reads.

  __device__ void next_turn() { turn_ ^= 1; }
  __device__ T& box(int turn, int tile, int k, int q) const {
    return boxes_[((int64_t(turn) * tiling_.tiles() + tile) * kArcs + k) * tiling_.halo() + q];
  }
  __device__ int32_t& published(int turn, int64_t cell) const {
    return heights_[turn * shape_.cells() + cell];
  }

  __device__ void publish_heights() {
    if (tiling_.tiles() == 1) return;
    tile_.each_halo_arc([&](GridPlace, int, int, GridPlace to) {
      const GridPlace g = global(to);
      if (!shape_.holds(g.z, g.y, g.x)) return;
      __stcg(&published(turn_, number(g)), tile_.height[tiling_.at(to)]);
    });
  }
  __device__ void collect_heights() {
    for (int q = threadIdx.x; q < tiling_.halo(); q += blockDim.x) {
      const GridPlace p = tiling_.halo_place(q), g = global(p);
      if (!shape_.holds(g.z, g.y, g.x)) continue;
      tile_.height[tiling_.at(p)] = __ldcg(&published(turn_ ^ 1, number(g)));
    }
    __syncthreads();
  }
  // Returns whether this thread has anything under way.
  __device__ bool publish_pushes() {
    bool any = false;
    if (tiling_.tiles() == 1) return any;
    tile_.each_halo_arc([&](GridPlace p, int q, int j, GridPlace) {
      T& sent = tile_.arc(j, tiling_.at(p));
      any |= sent != 0;
      __stcg(&box(turn_, tile_number_, opposite<kArcs>(j), q), sent);
      sent = 0;
    });
    return any;
  }
  // Heights of the halo, and what has come over the border. Where heights are valid at most one end
  // of an arc has pushed, the higher one.
  __device__ void collect_pushes() {
    if (tiling_.tiles() == 1) return;
    const bool racing = is_racing();
    tile_.each_halo_arc([&](GridPlace p, int q, int j, GridPlace to) {
      const GridPlace g = global(p);
      if (!shape_.holds(g.z, g.y, g.x)) return;
      const int a = tiling_.at(to), k = opposite<kArcs>(j);
      const int32_t here = tile_.height[a];
      const int32_t there = __ldcg(&published(turn_ ^ 1, number(g)));
      const T sent = racing ? T(0) : __ldcg(&box(turn_ ^ 1, tile_number_, k, q));
      // The same arc, as the tile beside this one numbers it.
      const GridStep s = tiling_.tile_step(p);
      const int beside = tile_number_ + (s.z * tiling_.count_y + s.y) * tiling_.count_x + s.x;
      const GridPlace back{to.z - s.z * tiling_.size_z, to.y - s.y * tiling_.size_y,
                           to.x - s.x * tiling_.size_x()};
      const T received = __ldcg(&box(turn_ ^ 1, beside, j, tiling_.halo_index(back)));
      tile_.height[tiling_.at(p)] = there;
      T more = 0;
      if (sent > 0 && there > here + 1) more += sent;                       // taken back
      if (received > 0 && (racing || here <= there + 1)) more += received;  // not taken back there
      if (more == 0) return;
      tile_.arc(k, a) += more;
      tile_.add(a, more);
    });
    __syncthreads();
  }

  // -------------------------------------------------------------------------------------------

  __device__ void push_rounds(int rounds) {
    bool first = true;
    for (int round = 0; round < rounds; ++round) {
      bool any = false;
      each_tile(true, [&] {
        if (first) {
          collect_heights_alone();
        } else {
          collect_pushes();
        }
        bool active = true;
        if (is_racing()) {
          active = __syncthreads_or(tile_.race(tuning_.sweeps));
        } else {
          for (int sweep = 0; sweep < tuning_.sweeps && active; ++sweep) {
            tile_.push();
            __syncthreads();
            active = __syncthreads_or(tile_.relabel());
          }
        }
        any |= active;
        any |= publish_pushes();
        publish_heights();
      });
      first = false;
      if (threadIdx.x == 0) ++spent_->rounds;
      any = barrier_.meet(any);
      next_turn();
      pending_ = true;
      if (!any) break;
    }
  }
  __device__ void collect_heights_alone() {
    if (tiling_.tiles() > 1) collect_heights();
  }
  __device__ bool is_racing() const { return relabellings_ < tuning_.racing; }

  // Whether any excess can still reach a deficit.
  __device__ bool relabel_exactly() {
    bool start = true, again = true;
    while (again) {
      bool changed = start;
      each_tile(true, [&] {
        if (start) {
          if (pending_) collect_pushes();
          tile_.start_distances();
        } else {
          collect_heights_alone();
        }
        changed |= tile_.settle_distances();
        publish_heights();
      });
      pending_ = pending_ && !start;
      if (threadIdx.x == 0) ++spent_->settlings;
      again = barrier_.meet(changed && tiling_.tiles() > 1);
      next_turn();
      start = false;
    }
    bool active = false;
    each_tile(true, [&] {
      tile_.each_cell(
          [&](int a, int) { active |= tile_.excess[a] > 0 && tile_.height[a] < kGridFar; });
    });
    ++relabellings_;
    return barrier_.meet(active);
  }

  GridTile<kArcs, T> tile_;
  const GridTiling& tiling_;
  const GridShape& shape_;
  GridBarrier& barrier_;
  int32_t* const heights_;
  T* const boxes_;
  T* const stored_;
  const GridCutTuning& tuning_;
  GridCutControl* const spent_;  // of this block
  const int block_, blocks_;
  const bool resident_;
  int relabellings_ = 0;
  int turn_ = 0, tile_number_ = 0, tx_ = 0, ty_ = 0, tz_ = 0;
  bool pending_ = false;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GRID_CUT_SOLVE_CUH_
