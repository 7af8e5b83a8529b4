// The minimum cut of one grid by the blocks of a launch that know of each other, or by one block.
//
// Push-relabel by regions (Delong and Boykov, CVPR 2008) with tiles that work at the same time
// (Shekhovtsov and Hlavac, IJCV 104, 2013, section 4): in each round a tile pushes and relabels for
// itself, with the heights of its halo as they were at the round's begin; then tiles tell each
// other what went over their borders. Now and then heights become distances again: tiles lower them
// from infinity and tell each other, until nothing changes or, before that, some excess is found
// to be within reach. A solve is over when exact distances say that no excess reaches a deficit: it
// is this that correctness rests on.
//
// Between these relabellings threads race at first, and heights may become wrong. Should that not
// have come to an end after GridCutTuning::racing relabellings, all of them are exact, and heights
// stay valid between them: cells push to neighbours one below while heights stand still, and a push
// over the border is taken back where the other end has risen meanwhile so far that the arc back
// would lead down by more than one, which both tiles see. Then heights only rise, and the number of
// rounds is polynomial as for any push-relabel.
#ifndef JAXMATCH_GRID_CUT_CUDA_REGION_PUSH_RELABEL_CUH_
#define JAXMATCH_GRID_CUT_CUDA_REGION_PUSH_RELABEL_CUH_

#include <cstdint>

#include "grid_cut/cuda/barrier.cuh"
#include "grid_cut/cuda/borders.cuh"
#include "grid_cut/cuda/tile.cuh"

namespace jaxmatch::grid_cut {

struct GridCutTuning {
  int rounds = 4;            // between two relabellings
  int first_rounds = 4;      // before the first
  int sweeps = 8;            // pushes and relabellings in a round
  int exchanges = 2;         // after which distances need not be exact where excess can move
  int distance_sweeps = 32;  // sweeps of distances between two exchanges
  int racing = 1024;         // relabellings before threads wait for each other
};

// What blocks tell each other, in memory of the device.
struct GridCutScratch {
  char* messages;  // [2, tiles, links]
  char* stored;    // [1 + arcs, cells] of T and [cells] heights: tiles that take turns
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

  // Ends with exact distances: the cells on the source's side are those that are not far.
  // fill(tile, from a place in the tile to one in the grid) sets excess and residual capacities of
  // all cells, and returns whether one has numbers that do not fit: then this does, with nothing
  // done.
  template <class Fill>
  __device__ bool run(const Fill& fill) {
    bool unfit = false;
    if (tiling_.tiles() > 1) find_links<kArcs>(tiling_, links_);
    each_tile(false, [&] {
      tile_.clear_halo();
      unfit |= fill(tile_, [&](GridPlace p) { return global(p); });
      // Valid to begin with: few cells need more than this says.
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

  // f(number of the cell, its place in the grid and in shared memory), with the halo's heights; for
  // each thread in an order that does not depend on how the solve went.
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
  // A cell's place in the grid; the halo may lie outside of it.
  __device__ GridPlace global(GridPlace p) const {
    return {tiling_.solid ? tz_ * tiling_.size_z + p.z - 1 : 0, ty_ * tiling_.size_y + p.y - 1,
            tx_ * tiling_.size_x() + p.x - 1};
  }
  __device__ int64_t number(GridPlace g) const {
    return (int64_t(g.z) * shape_.height + g.y) * shape_.width + g.x;
  }

  // Of a block that has several tiles one is in shared memory, and stored when another one comes.
  // They take turns forwards and backwards, so that the last one is the next first one.
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
  // By number of the cell: excess, arcs, and heights.
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
      // All loads before anything is written, as nobody knows that it lies elsewhere.
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

  // -------------------------------------------------------------------------------------------
  // Over the borders. Whatever a tile does begins with collecting what the ones beside it have
  // published, and ends with publishing. What is written in one turn is read in the next; the two
  // have memory of their own, so that nobody writes what another one still reads.

  // f(the link, the numbers of the message to the other tile and of that from it)
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

  // Returns whether this thread has anything under way.
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
  // Heights of the halo, and what has come over the border. Both ends of an arc may have pushed, as
  // neither knew how far the other one would rise; what would leave an arc that leads down by more
  // than one is taken back.
  __device__ void collect() {
    if (tiling_.tiles() == 1) return;
    const bool racing = is_racing();
    each_link([&](const GridLink& link, int64_t mine, int64_t peer) {
      const GridMessage<T> m = read_message(messages(turn_ ^ 1) + peer);
      const T sent = racing ? T(0) : read_message(messages(turn_ ^ 1) + mine).sent;
      const int32_t here = tile_.height(link.cell);
      tile_.height(link.halo) = m.height;
      T more = 0;
      if (sent > 0 && m.height > here + 1) more += sent;                   // taken back
      if (m.sent > 0 && (racing || here <= m.height + 1)) more += m.sent;  // not taken back there
      if (more == 0) return;
      tile_.arc(opposite<kArcs>(link.direction), link.cell) += more;
      tile_.add(link.cell, more);
    });
    __syncthreads();
  }

  // -------------------------------------------------------------------------------------------

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

  // Whether any excess can still reach a deficit. Where it can, distances need not be exact.
  __device__ bool relabel() {
    // Heights that are to stay valid have to be so when threads stop racing.
    const bool may_stop = relabellings_ + 1 < tuning_.racing;
    GridVote vote{};
    for (int exchange = 0; vote.other || exchange == 0; ++exchange) {
      if (vote.any && may_stop && exchange >= tuning_.exchanges) break;
      const bool start = exchange == 0;
      bool changed = start, active = false;
      each_tile(true, [&] {
        collect();
        if (start) tile_.start_distances();
        // A tile that is alone hears of nothing new later.
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
  GridCutControl* const spent_;  // of this block
  const int block_, blocks_;
  int relabellings_ = 0;
  int turn_ = 0, tile_number_ = -1, tx_ = 0, ty_ = 0, tz_ = 0;
  bool backwards_ = false;
  unsigned beside_ = 0;  // which of the 27 tiles around there are
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_REGION_PUSH_RELABEL_CUH_
