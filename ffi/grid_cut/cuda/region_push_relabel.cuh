// The minimum cut of one grid, by all blocks of a cooperative launch or by one block.
//
// The method is push-relabel by regions (Delong and Boykov, CVPR 2008), with concurrent tiles
// (Shekhovtsov and Hlavac, IJCV 104, 2013, section 4). In each round a tile pushes and relabels on
// its own, while the heights of its halo (the adjacent cells of other tiles) do not change. Then
// tiles exchange the flow across their borders.
//
// From time to time a relabelling resets heights to distances to the nearest deficit: tiles lower
// distances from infinity and exchange them. A relabelling ends when no distance changes. It may
// end early, with inexact distances, once some excess is found to reach a deficit. Only the first
// relabellings may: excess whose distance is not known yet is at rest, and in a hard grid the
// excess that is left soon lies far from all deficits that it can reach. A solve ends when exact
// distances show that no excess reaches a deficit. Correctness relies on this test only.
//
// At first, threads push and relabel without synchronisation (GridSweeps::race), so heights may
// become invalid. After GridCutTuning::racing relabellings, every relabelling is exact, and heights
// stay valid in between:
// - Pushing and relabelling alternate, and cells push only to neighbours that are lower by one.
// - A push across a border is revoked if the other end has risen so far that the reverse arc would
//   lead down by more than one. Both tiles can tell this from the heights that they exchange.
// From then on heights only rise, so the number of rounds is polynomial, as in any push-relabel
// method.
#ifndef JAXMATCH_GRID_CUT_CUDA_REGION_PUSH_RELABEL_CUH_
#define JAXMATCH_GRID_CUT_CUDA_REGION_PUSH_RELABEL_CUH_

#include <cstdint>

#include "grid_cut/cuda/barrier.cuh"
#include "grid_cut/cuda/borders.cuh"
#include "grid_cut/cuda/tile.cuh"

namespace jaxmatch::grid_cut {

struct GridCutTuning {
  int rounds = 4;            // push rounds between two relabellings
  int first_rounds = 4;      // push rounds before the first relabelling
  int sweeps = 8;            // sweeps of pushes and relabellings per round
  int early = 4;             // number of relabellings that may end early (see above)
  int exchanges = 2;         // exchanges before a relabelling may end early
  int distance_sweeps = 32;  // maximum sweeps of distances between two exchanges
  int racing = 1024;         // number of relabellings after which heights are kept valid
};

// Device memory for the messages between tiles, and for tiles that are not in shared memory.
struct GridCutScratch {
  char* messages;  // [2, tiles, links]
  char* stored;    // all cells: [1 + arcs, cells] numbers, then [cells] heights
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
        links_(reinterpret_cast<GridLink*>(memory + tiling.tile_bytes(sizeof(T)))),
        messages_(reinterpret_cast<GridMessage<T>*>(scratch.messages)),
        stored_(reinterpret_cast<T*>(scratch.stored)),
        tuning_(tuning),
        spent_(spent),
        block_(block),
        blocks_(blocks) {}

  // Finds a minimum cut. At the end distances are exact, and the source side consists of the cells
  // whose height is below kGridFar. fill(tile, global) must set the excess and residual capacities
  // of a tile's cells; `global` maps a place in the tile to a place in the grid. If fill() returns
  // true because numbers do not fit T, run() returns false without solving.
  template <class Fill>
  __device__ bool run(const Fill& fill) {
    bool unfit = false;
    if (tiling_.tiles() > 1) find_links<kArcs>(tiling_, links_);
    each_tile(false, [&] {
      tile_.clear_halo();
      unfit |= fill(tile_, [&](GridPlace p) { return global(p); });
      // Valid initial heights, exact or nearly so for most cells.
      tile_.each_cell([&](int a, int) { tile_.height(a) = tile_.excess(a) < 0 ? 0 : 1; });
      __syncthreads();
      publish();
    });
    if (barrier_.barrier_reduce(unfit)) return false;
    next_turn();
    int rounds = tuning_.first_rounds;
    for (bool again = true; again;) {
      const int64_t start = clock64();
      push_rounds(rounds);
      rounds = tuning_.rounds;
      const int64_t middle = clock64();
      again = relabel();
      if (threadIdx.x == 0) {
        spent_->push += int32_t(middle - start);
        spent_->relabel += int32_t(clock64() - middle);
      }
    }
    return true;
  }

  // Calls f(index of the cell, its place in the grid, its place in shared memory) for each cell,
  // while the halo of its tile is up to date. Each thread visits its cells in an order that does
  // not depend on the course of the solve.
  template <class F>
  __device__ void each_result(F f) {
    backwards_ = false;
    each_tile(true, [&] {
      collect();
      tile_.each_cell([&](int a, int i) {
        const GridPlace g = global(tiling_.cell(i));
        if (shape_.holds(g.z, g.y, g.x)) f(number(g), g, a);
      });
    });
  }
  __device__ const GridTile<kArcs, T>& tile() const { return tile_; }
  __device__ int relabellings() const { return relabellings_; }

 private:
  // Converts coordinates in the tile to coordinates in the grid. The result may lie outside the
  // grid.
  __device__ GridPlace global(GridPlace p) const {
    return {tiling_.solid ? tz_ * tiling_.size_z + p.z - 1 : 0, ty_ * tiling_.size_y + p.y - 1,
            tx_ * tiling_.size_x() + p.x - 1};
  }
  __device__ int64_t number(GridPlace g) const {
    return (int64_t(g.z) * shape_.height + g.y) * shape_.width + g.x;
  }

  // Calls f for each tile of this block. A block with several tiles keeps one in shared memory and
  // stores it before it loads the next. The order alternates, so that the last tile of a pass is
  // the first of the next. `known` is true once the tiles have been filled.
  template <class F>
  __device__ void each_tile(bool known, F f) {
    const int count = (tiling_.tiles() - block_ + blocks_ - 1) / blocks_;
    for (int i = 0; i < count; ++i) {
      const int t = block_ + (backwards_ ? count - 1 - i : i) * blocks_;
      if (t != tile_number_) {
        if (tile_number_ >= 0) store();
        go_to(t);
        if (known) restore();
      }
      f();
      __syncthreads();
    }
    backwards_ = !backwards_;
  }
  __device__ void go_to(int t) {
    tile_number_ = t;
    tx_ = t % tiling_.count_x;
    ty_ = t / tiling_.count_x % tiling_.count_y;
    tz_ = t / tiling_.count_x / tiling_.count_y;
    beside_ = 0;
    for (int step = 0; step < 27; ++step) {
      const int x = tx_ + step % 3 - 1, y = ty_ + step / 3 % 3 - 1, z = tz_ + step / 9 - 1;
      const bool there = unsigned(x) < unsigned(tiling_.count_x) &&
                         unsigned(y) < unsigned(tiling_.count_y) &&
                         unsigned(z) < unsigned(tiling_.count_z);
      beside_ |= unsigned(there) << step;
    }
  }
  // stored_ holds arrays over all cells of the grid: the excess, the arcs of each direction, then
  // the heights.
  __device__ int32_t* stored_heights() const {
    return reinterpret_cast<int32_t*>(stored_ + (kArcs + 1) * shape_.cells());
  }
  __device__ void store() {
    tile_.each_cell([&](int a, int i) {
      const GridPlace g = global(tiling_.cell(i));
      if (!shape_.holds(g.z, g.y, g.x)) return;
      const int64_t at = number(g);
      stored_[at] = tile_.excess(a);
#pragma unroll
      for (int k = 0; k < kArcs; ++k) stored_[(k + 1) * shape_.cells() + at] = tile_.arc(k, a);
      stored_heights()[at] = tile_.height(a);
    });
    __syncthreads();
  }
  __device__ void restore() {
    tile_.clear_halo();
    tile_.each_cell([&](int a, int i) {
      const GridPlace g = global(tiling_.cell(i));
      const bool there = shape_.holds(g.z, g.y, g.x);
      const int64_t at = there ? number(g) : 0;
      // All loads come before the first store, because the compiler would not move a load across a
      // store that might alias it.
      T given[kArcs + 1];
#pragma unroll
      for (int k = 0; k <= kArcs; ++k) given[k] = there ? stored_[k * shape_.cells() + at] : T(0);
      const int32_t height = there ? stored_heights()[at] : kGridFar;
      tile_.excess(a) = given[0];
#pragma unroll
      for (int k = 0; k < kArcs; ++k) tile_.arc(k, a) = given[k + 1];
      tile_.height(a) = height;
    });
    __syncthreads();
  }

  // Exchange across borders. A turn is one pass over all tiles. The work on a tile begins with
  // collect(), which reads the messages from the neighbouring tiles, and ends with publish(), which
  // writes messages to them. Messages are double-buffered: messages written in one turn are read in
  // the next.

  // Calls f(link, index of the message to the other tile, index of the message from it) for each
  // link of the tile.
  template <class F>
  __device__ void each_link(F f) const {
    if (tiling_.tiles() == 1) return;
    const int links = tiling_.links();
    for (int l = threadIdx.x; l < links; l += blockDim.x) {
      const GridLink link = links_[l];
      if (link.direction < 0 || !(beside_ >> link.beside & 1)) continue;
      const int64_t mine = int64_t(tile_number_) * links + l;
      f(link, mine, mine + link.peer);
    }
  }
  __device__ GridMessage<T>* messages(int turn) const {
    return messages_ + int64_t(turn) * tiling_.tiles() * tiling_.links();
  }
  __device__ void next_turn() { turn_ ^= 1; }

  // Sends the flow pushed across the border, and the heights of the cells along the border. Returns
  // true if this thread has sent any flow.
  __device__ bool publish() {
    bool any = false;
    each_link([&](const GridLink& link, int64_t mine, int64_t) {
      T& sent = tile_.arc(link.direction, link.halo);
      any |= sent != 0;
      write_message(messages(turn_) + mine, {sent, tile_.height(link.cell)});
      sent = 0;
    });
    return any;
  }
  // Loads the heights of the halo and receives the flow across the border. Both ends of an arc may
  // have pushed, because neither knew the other's new height. Except while racing, a push is
  // revoked if it would leave a residual arc that leads down by more than one.
  __device__ void collect() {
    if (tiling_.tiles() == 1) return;
    const bool racing = is_racing();
    each_link([&](const GridLink& link, int64_t mine, int64_t peer) {
      const GridMessage<T> m = read_message(messages(turn_ ^ 1) + peer);
      const T sent = racing ? T(0) : read_message(messages(turn_ ^ 1) + mine).sent;
      const int32_t here = tile_.height(link.cell);
      tile_.height(link.halo) = m.height;
      T more = 0;
      if (sent > 0 && m.height > here + 1) more += sent;                   // own push, revoked
      if (m.sent > 0 && (racing || here <= m.height + 1)) more += m.sent;  // push of the other tile
      if (more == 0) return;
      tile_.arc(opposite<kArcs>(link.direction), link.cell) += more;
      tile_.add(link.cell, more);
    });
    __syncthreads();
  }

  __device__ void push_rounds(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      bool any = false;
      each_tile(true, [&] {
        collect();
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
        any |= publish();
      });
      if (threadIdx.x == 0) ++spent_->rounds;
      any = barrier_.barrier_reduce(any);
      next_turn();
      if (!any) break;
    }
  }
  __device__ bool is_racing() const { return relabellings_ < tuning_.racing; }

  // Resets heights to distances. Returns true if any excess can still reach a deficit; in that case
  // distances may be inexact.
  __device__ bool relabel() {
    // Heights must be valid when racing ends, so the relabelling just before must be exact.
    const bool may_stop = relabellings_ < tuning_.early && relabellings_ + 1 < tuning_.racing;
    GridVote vote{};
    for (int exchange = 0; vote.other || exchange == 0; ++exchange) {
      if (vote.any && may_stop && exchange >= tuning_.exchanges) break;
      const bool start = exchange == 0;
      bool changed = start, active = false;
      each_tile(true, [&] {
        collect();
        if (start) tile_.start_distances();
        // A single tile gets no distances from other tiles, so one update is final.
        changed |=
            tile_.update_distances(tiling_.tiles() > 1 ? tuning_.distance_sweeps : INT32_MAX);
        publish();
        active |= tile_.has_active();
      });
      if (threadIdx.x == 0) ++spent_->distance_rounds;
      vote = barrier_.barrier_reduce(GridVote{active, changed && tiling_.tiles() > 1});
      next_turn();
    }
    ++relabellings_;
    return vote.any;
  }

  GridTile<kArcs, T> tile_;
  const GridTiling& tiling_;
  const GridShape& shape_;
  GridBarrier& barrier_;
  GridLink* const links_;
  GridMessage<T>* const messages_;
  T* const stored_;
  const GridCutTuning& tuning_;
  GridCutControl* const spent_;  // counters of this block
  const int block_, blocks_;
  int relabellings_ = 0;
  int turn_ = 0, tile_number_ = -1, tx_ = 0, ty_ = 0, tz_ = 0;
  bool backwards_ = false;
  unsigned beside_ = 0;  // bits of the 3 x 3 x 3 tiles around this one; 1: the tile exists
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_REGION_PUSH_RELABEL_CUH_
