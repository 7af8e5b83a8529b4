// Launch plan of a batch: the kernel, the number of threads, and the layout of shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_PLAN_H_
#define JAXMATCH_CUDA_ASSIGNMENT_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "assignment/cuda/batch.h"

namespace jaxmatch::assignment {

// Upper bounds on the numbers of rows and columns of a problem in canonical form (canonical.cuh).
// Masks may reduce these numbers.
struct Sides {
  int64_t rows, cols;
  explicit Sides(const AssignmentOperands& o)
      : rows(o.unmatched_cost ? o.n : std::min(o.n, o.m)),
        cols(o.unmatched_cost ? o.m : std::max(o.n, o.m)) {}
};

// A kernel and its parameters. choose() takes the first entry of kChoices that fits. The choice
// does not depend on the size of the batch: up to 128 columns, one warp is at most 4 % slower than
// a block of four warps, for 16 to 4096 problems (`kernels` in
// benchmarks/results/assignment_gpu.json). benchmarks/notes/assignment_gpu.md describes how the
// values of `effort` were found.
struct Choice {
  int64_t most_cols;
  int columns_per_lane;
  int most_warps;  // a problem has a warp for every 32 columns, but at most this many warps
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

// True if `asked` contains the request `what`. `asked` is the value of the environment variable
// JAXMATCH_CUDA_KERNEL, or null if it is not set. Tests and benchmarks set it to requests that are
// separated by commas:
// - "block": solve each problem with a block, even where one warp would do.
// - "auction": run an auction wherever there is room for its results.
// - "no-auction": never run an auction.
// - "cluster-1", "cluster-2": use at most this many blocks for each auction.
// - "all-search": all warps of a block take part in searches. This is for racecheck of
//   compute-sanitizer: once some warps of a block have used a barrier without the others, racecheck
//   reports false hazards across later barriers of the whole block.
inline bool asks_for(const char* asked, std::string_view what) {
  return asked != nullptr && std::string_view(asked).find(what) != std::string_view::npos;
}

inline const Choice& choose(const AssignmentOperands& o, const char* asked) {
  const bool block = asks_for(asked, "block");
  const Sides sides(o);
  for (const Choice& choice : kChoices) {
    // One-warp kernels are not used if a block is requested, nor for int64 costs, whose sums may
    // need 128 bits.
    if (choice.one_warp() && (block || o.cost_dtype == Dtype::kS64)) continue;
    if (sides.cols <= choice.most_cols) return choice;
  }
  return *(std::end(kChoices) - 1);
}

// With one warp per problem, costs of up to this many bytes are copied to shared memory even where
// they could be read in place. Larger copies would leave too little shared memory for other
// problems.
constexpr int64_t kMostShared = 10 << 10;

// Applies to problems that one warp solves. If shared memory has room for kProblemsAtOnce of them,
// kProblemsPerBlock problems share a block, because a multiprocessor holds only half as many blocks
// as warps.
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

// Hands out parts of shared memory, aligned to 16 bytes, as byte offsets.
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

// Lays out the shared memory of one problem. `ties`: also reserves room for the initialisation for
// tied costs (start_ties.cuh) if that may be useful.
inline SharedLayout lay_out(const AssignmentOperands& o, const Choice& choice, bool copy_in_shared,
                            bool ties) {
  // The initialisation for tied costs stores a bit for every pair of a row and a column.
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
  SharedStack tiles = stack;  // unused once the solve begins, so later arrays overlap the tiles
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

// Number of costs, with padding, in the workspace copy of one problem; 0 if no copy is ever needed.
inline int64_t copied_costs(const AssignmentOperands& o) {
  const Sides sides(o);
  return may_copy(o) ? sides.rows * copied_stride(sides.cols, 4, false) : 0;
}

struct Plan {
  bool one_warp;
  int columns_per_lane;
  int64_t blocks;
  int threads, bytes;  // per block: number of threads, and bytes of shared memory
};

// Returns the launch plan of `b`, and sets b.shared, b.effort and b.all_search. `most_bytes` is the
// limit on the shared memory of a block; the plan exceeds it if even the smallest layout does.
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
