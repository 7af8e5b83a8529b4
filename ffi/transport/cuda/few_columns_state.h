// What a problem with many rows and few columns, or the reverse, needs beside the workspace.
#ifndef JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_STATE_H_
#define JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_STATE_H_

#include <cstdint>

#include "common/host_device.h"
#include "transport/cuda/kernels.h"

namespace jaxmatch::transport {

constexpr int kMostFewColumns = 256;
constexpr int kLoadsInTurn = 3;
// The pairs of a column are divided among at most so many blocks.
constexpr int kMostParts = 4;
#ifdef JAXMATCH_EMULATED
constexpr int kSpareRoom = 1;  // of a column: it is used up often
#else
constexpr int kSpareRoom = 32;
#endif

// Whether the shorter side is so short that searches on it cost little beside scans of the longer
// side.
JAXMATCH_HOST_DEVICE inline bool has_few_columns(int64_t n, int64_t m) {
  constexpr int64_t kRowsPerColumn = 16;
  const int64_t few = n < m ? n : m, many = n < m ? m : n;
  return few <= kMostFewColumns && many / kRowsPerColumn >= few;
}
// Whether rows are the shorter side: they are then called columns.
JAXMATCH_HOST_DEVICE inline bool has_few_rows(int64_t n, int64_t m) {
  return n < m && has_few_columns(n, m);
}

// In the shared memory of a block. Most arrays have an entry for each column.
struct alignas(16) FewColumnsState {
  float v[kMostFewColumns];        // prices of the ascent
  int32_t tiled;                   // rows of its tile
  float wants[kMostFewColumns];    // of the load
  uint32_t load[kMostFewColumns];  // of the rows of this block; then the number of those placed
  int32_t base[kMostFewColumns];   // where those begin
  // Of the first block.
  int64_t price[kMostFewColumns];
  int64_t excess[kMostFewColumns];   // mass above the demand
  int32_t before[kMostFewColumns];   // the column before it on its path, or kNone
  uint64_t pair[kMostFewColumns];    // the pair of that column that moves, see ColumnArcs
  int64_t had[kMostFewColumns];      // the mass of that pair
  int64_t left[kMostFewColumns];     // what of it does not move
  int64_t flow[kMostFewColumns];     // what moves to this column
  int32_t owner[kMostFewColumns];    // the first column to which the same pair moves
  int32_t order[kMostFewColumns];    // in which the search has found columns
  int32_t changed[kMostFewColumns];  // lengths must be found again
  // By warp and lane.
  int64_t least[kThreads];
  uint64_t of_pair[kThreads];
};

// What the ascent has in shared memory behind the state, as floats: rows of softmax and sums of
// their products, then a matrix.
struct CurveMemory {
  int64_t cols;

  JAXMATCH_HOST_DEVICE int64_t pairs() const { return cols * (cols - 1) / 2; }
  JAXMATCH_HOST_DEVICE int64_t tile() const {
    constexpr int64_t kLeast = 4 * kThreads;  // what the warps add at once
    return 32 * cols > kLeast ? 32 * cols : kLeast;
  }
  JAXMATCH_HOST_DEVICE int64_t bytes() const {
    const int64_t sums = tile() + pairs(), matrix = cols * (cols + 3) / 2;
    return ((sums > matrix ? sums : matrix) * int64_t(sizeof(float)) + 15) / 16 * 16;
  }
};
// Of the lengths of all arcs, which take the place of that if they fit.
JAXMATCH_HOST_DEVICE inline int64_t lengths_bytes(int64_t n, int64_t m) {
  if (!has_few_columns(n, m)) return 0;
  const int64_t few = n < m ? n : m;
  return (few * few * int64_t(sizeof(int64_t)) + 15) / 16 * 16;
}
// All of it; 0 if there are many columns.
JAXMATCH_HOST_DEVICE inline int64_t few_columns_bytes(int64_t n, int64_t m, bool with_lengths) {
  if (!has_few_columns(n, m)) return 0;
  const int64_t curve = CurveMemory{n < m ? n : m}.bytes(),
                lengths = with_lengths ? lengths_bytes(n, m) : 0;
  return int64_t(sizeof(FewColumnsState)) + (curve > lengths ? curve : lengths);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_STATE_H_
