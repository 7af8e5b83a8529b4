// The memory that problems with many rows and few columns, or the reverse, need besides the
// workspace.
#ifndef JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_STATE_H_
#define JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_STATE_H_

#include <cstdint>

#include "common/host_device.h"
#include "transport/cuda/kernels.h"

namespace jaxmatch::transport {

constexpr int kMostFewColumns = 256;
constexpr int kLoadsInTurn = 3;
// The rows that a column holds are divided among at most this many blocks.
constexpr int kMostParts = 4;
#ifdef JAXMATCH_EMULATED
constexpr int kSpareRoom = 1;  // unused places that a column gets; few, so that tests use them up
#else
constexpr int kSpareRoom = 32;
#endif

// Whether the shorter side is so short that searches on it take little time, compared with scans of
// the longer side.
JAXMATCH_HOST_DEVICE inline bool has_few_columns(int64_t n, int64_t m) {
  constexpr int64_t kRowsPerColumn = 16;
  const int64_t few = n < m ? n : m, many = n < m ? m : n;
  return few <= kMostFewColumns && many / kRowsPerColumn >= few;
}
// Whether rows are few and columns are many. The rows are then called columns (few_columns.cuh).
JAXMATCH_HOST_DEVICE inline bool has_few_rows(int64_t n, int64_t m) {
  return n < m && has_few_columns(n, m);
}

// This struct lies in the shared memory of a block. Most of its arrays have an entry for each
// column.
struct alignas(16) FewColumnsState {
  float v[kMostFewColumns];        // prices in the ascent (ascent.cuh)
  int32_t tiled;                   // number of rows in the tile of the ascent
  float wants[kMostFewColumns];    // load (mass in the ascent) that the column should get
  uint32_t load[kMostFewColumns];  // load of this block's rows; in place_rows() their number
  int32_t base[kMostFewColumns];   // place in the column's segment of this block's first row
  // Only the first block uses the arrays from here to `changed`.
  int64_t price[kMostFewColumns];
  int64_t excess[kMostFewColumns];   // mass above the demand
  int32_t before[kMostFewColumns];   // the column before this one on its path, or kNone
  uint64_t pair[kMostFewColumns];    // the pair that moves from `before` here, see ColumnArcs
  int64_t had[kMostFewColumns];      // the mass of that pair
  int64_t left[kMostFewColumns];     // mass of the pair that stays
  int64_t flow[kMostFewColumns];     // mass of the pair that moves to this column
  int32_t owner[kMostFewColumns];    // the first column to which this pair moves
  int32_t order[kMostFewColumns];    // columns in the order in which the search found them
  int32_t changed[kMostFewColumns];  // whether the lengths of the column's arcs must be recomputed
  // The arrays from here on have an entry for each thread.
  int64_t least[kThreads];
  uint64_t of_pair[kThreads];
};

// The shared memory of the ascent (ascent.cuh), in floats. It comes after FewColumnsState. It holds
// rows of softmax and sums of products, then the matrix of a Newton step in their place.
struct CurveMemory {
  int64_t cols;

  JAXMATCH_HOST_DEVICE int64_t pairs() const { return cols * (cols - 1) / 2; }
  JAXMATCH_HOST_DEVICE int64_t tile() const {
    constexpr int64_t kLeast = 4 * kThreads;  // most numbers that warps add between two barriers
    return 32 * cols > kLeast ? 32 * cols : kLeast;
  }
  JAXMATCH_HOST_DEVICE int64_t bytes() const {
    const int64_t sums = tile() + pairs(), matrix = cols * (cols + 3) / 2;
    return ((sums > matrix ? sums : matrix) * int64_t(sizeof(float)) + 15) / 16 * 16;
  }
};
// The bytes of the lengths of all arcs. If there is room, they are put where the ascent had its
// memory.
JAXMATCH_HOST_DEVICE inline int64_t lengths_bytes(int64_t n, int64_t m) {
  if (!has_few_columns(n, m)) return 0;
  const int64_t few = n < m ? n : m;
  return (few * few * int64_t(sizeof(int64_t)) + 15) / 16 * 16;
}
// The bytes of shared memory that this file describes; 0 if columns are many.
JAXMATCH_HOST_DEVICE inline int64_t few_columns_bytes(int64_t n, int64_t m, bool with_lengths) {
  if (!has_few_columns(n, m)) return 0;
  const int64_t curve = CurveMemory{n < m ? n : m}.bytes(),
                lengths = with_lengths ? lengths_bytes(n, m) : 0;
  return int64_t(sizeof(FewColumnsState)) + (curve > lengths ? curve : lengths);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_STATE_H_
