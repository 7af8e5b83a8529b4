// Launch plan of a batch: the kernel, the number of threads, and the layout of shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_PLAN_H_
#define JAXMATCH_CUDA_ASSIGNMENT_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "assignment/cuda/batch.h"

namespace jaxmatch::assignment {

// Upper bounds of the sides of a problem in canonical form.
struct Sides {
  int64_t rows, cols;
  explicit Sides(const AssignmentOperands& o)
      : rows(o.unmatched_cost ? o.n : std::min(o.n, o.m)),
        cols(o.unmatched_cost ? o.m : std::max(o.n, o.m)) {}
};

// A kernel and its parameters. choose() takes the first entry of kChoices that fits. The choice
// does not depend on the size of the batch: up to 128 columns, one warp is at most 4 % slower than
// a block of four, for 16 to 4096 problems (`kernels` in benchmarks/results/assignment_gpu.json).
// benchmarks/notes/assignment_gpu.md describes how the efforts were found.
struct Choice {
  int64_t most_cols;
  int columns_per_lane;
  int most_warps;  // a problem has a warp for every 32 columns, but at most this many
  Effort effort;

  bool one_warp() const { return most_warps == 1; }
};

constexpr Choice kChoices[] = {
    {32, 1, 1, {0.5, 0, 0, 0}},           // one warp
    {64, 2, 1, {0.5, 0, 0, 0}},           // one warp
    {128, 4, 1, {0.5, 0, 0, 0}},          // one warp
    {256, 4, 8, {4, 0.25, 1, 64}},        // eight warps bid, one searches
    {512, 4, 12, {4, 0.25, 1, 64}},       // three or four warps search
    {INT32_MAX, 4, 16, {8, 0.25, 1, 64}}  // one warp searches for every 256 columns
};

// True if `asked` contains `what`. `asked` holds requests of tests and measurements, separated by
// commas, or is null:
// - "block": use a block even if a warp would do.
// - "auction": run an auction wherever there is room for its results. "no-auction": never run one.
// - "cluster-1", "cluster-2": use at most this many blocks for each auction.
// - "all-search": no warp waits while others search. This is for racecheck of compute-sanitizer. In
//   any program, racecheck reports hazards across a block-wide barrier once some warps of the block
//   have used another barrier.
inline bool asks_for(const char* asked, std::string_view what) {
  return asked != nullptr && std::string_view(asked).find(what) != std::string_view::npos;
}

inline const Choice& choose(const AssignmentOperands& o, const char* asked) {
  const bool block = asks_for(asked, "block");
  const Sides sides(o);
  for (const Choice& choice : kChoices) {
    // Kernels of one warp are not used for int64, which may need 128-bit sums, or if a block is
    // requested.
    if (choice.one_warp() && (block || o.cost_dtype == Dtype::kS64)) continue;
    if (sides.cols <= choice.most_cols) return choice;
  }
  return *(std::end(kChoices) - 1);
}

// With one warp per problem, costs of up to this many bytes are copied to shared memory even where
// they could be read in place. More would leave too little room for other problems.
constexpr int64_t kMostShared = 10 << 10;

// If shared memory has room for kProblemsAtOnce problems of one warp, kProblemsPerBlock of them
// share a block, because a multiprocessor holds only half as many blocks as warps.
constexpr int kProblemsPerBlock = 2, kProblemsAtOnce = 32;

inline int warps_per_problem(const Choice& choice, int64_t cols) {
  return int(std::min<int64_t>(std::max<int64_t>((cols + 31) / 32, 1), choice.most_warps));
}

inline bool may_transpose(const AssignmentOperands& o) {
  return !o.unmatched_cost && (o.n > o.m || o.col_mask);
}

// True if a problem may need a copy of its costs in canonical form.
inline bool may_copy(const AssignmentOperands& o) {
  return o.row_mask || o.col_mask || may_transpose(o) || size_of(o.cost_dtype) == 2;
}

// Assigns offsets in shared memory, aligned to 16 bytes.
struct SharedStack {
  int64_t used = 0;
  int take(int64_t bytes) {
    const int64_t offset = used;
    used += (bytes + 15) / 16 * 16;
    return int(offset);
  }
};

inline int64_t shared_copy_bytes(const AssignmentOperands& o, const Choice& choice) {
  const auto [rows, cols] = Sides(o);
  const int word = size_of(o.cost_dtype) == 8 ? 8 : 4;
  return rows * copied_stride(cols, choice.columns_per_lane, true) * word;
}

// Lays out the shared memory of one problem. `ties`: reserves room for the start for ties
// (start_ties.cuh) if it may be useful.
inline SharedLayout lay_out(const AssignmentOperands& o, const Choice& choice, bool copy_in_shared,
                            bool ties) {
  // The start for ties holds a bit for every pair.
  constexpr int64_t kMostTiedCols = 1024;
  const auto [rows, cols] = Sides(o);
  const int64_t width = padded_width(cols, choice.columns_per_lane, choice.one_warp());
  const int word = size_of(o.cost_dtype) == 8 ? 8 : 4;
  const int key = o.cost_dtype == Dtype::kS64 ? 16 : 8;
  SharedStack stack;
  SharedLayout s{};
  s.row_ids = stack.take(o.row_mask ? o.n * 2 : 0);
  s.col_ids = stack.take(o.col_mask ? o.m * 2 : 0);
  s.control = stack.take(kControls * 4);
  s.slots = stack.take(choice.one_warp() ? 0 : kSlotBytes);
  s.costs = copy_in_shared ? stack.take(shared_copy_bytes(o, choice)) : -1;
  SharedStack tiles = stack;  // unused once the solve begins: later arrays overlap them
  if (may_transpose(o) && !copy_in_shared) {
    s.tiles = tiles.take(choice.one_warp() ? kTileEntries * word : kTileBytes);
  }
  s.v = stack.take(width * key);
  s.u = stack.take(rows * key);
  s.leave = stack.take(o.unmatched_cost ? rows * key : 0);
  s.reach = stack.take(cols * key);
  s.row4col = stack.take(width * 2);
  s.col4row = stack.take(rows * 2);
  s.free_rows = stack.take(rows * 4);
  s.pred = stack.take(std::max(rows, cols) * 2);
  s.tight = -1;
  if (!choice.one_warp()) {
    s.claim = stack.take(cols * 4);
    if (ties && o.n == o.m && !o.unmatched_cost && cols <= kMostTiedCols && word == 4) {
      const int64_t words = (cols + 127) / 128 * 4;
      s.tight = stack.take(rows * words * 4);
      s.visited = stack.take(words * 4);
      s.end = stack.take(rows * 4);
      s.root = stack.take(rows * 2);
      s.frontiers = stack.take(rows * 4);
      s.counter = stack.take(kCounters * 4);
    }
  }
  s.bytes = int(std::max(stack.used, tiles.used));
  return s;
}

// Number of costs in a problem's copy in the workspace; 0 if no copy is ever needed.
inline int64_t copied_costs(const AssignmentOperands& o) {
  const Sides sides(o);
  return may_copy(o) ? sides.rows * copied_stride(sides.cols, 4, false) : 0;
}

struct Plan {
  bool one_warp;
  int columns_per_lane;
  int64_t blocks;
  int threads, bytes;  // of a block
};

// Sets the layout and the effort of `b`. `most_bytes` is the limit of shared memory; the plan
// exceeds it if even the smallest layout does.
inline Plan make_plan(AssignmentBatch& b, const char* asked, int most_bytes) {
  const Choice& choice = choose(b, asked);
  const bool in_shared = (may_copy(b) && b.workspace_costs == 0) ||
                         (choice.one_warp() && shared_copy_bytes(b, choice) <= kMostShared);
  b.shared = lay_out(b, choice, in_shared, true);
  if (b.shared.bytes > most_bytes) b.shared = lay_out(b, choice, in_shared, false);
  const bool share = choice.one_warp() && b.shared.bytes * kProblemsAtOnce <= most_bytes;
  const int problems = share ? kProblemsPerBlock : 1;
  b.effort = choice.effort;
  b.all_search = asks_for(asked, "all-search");
  return {choice.one_warp(), choice.columns_per_lane, (b.batch + problems - 1) / problems,
          32 * problems * warps_per_problem(choice, Sides(b).cols), b.shared.bytes * problems};
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_PLAN_H_
