// The state of one transport problem on CUDA, in global memory.
//
// A block works on it alone, so that what it uses often stays in its L1 cache; costs are read past
// that cache.
#ifndef JAXMATCH_CUDA_TRANSPORT_WORKSPACE_H_
#define JAXMATCH_CUDA_TRANSPORT_WORKSPACE_H_

#include <cstdint>

#include "common/host_device.h"
#include "common/sizes.h"

namespace jaxmatch::transport {

// Mass of a row that a column holds; 0 if it left. It leaves once the price of the column is below
// `level`.
struct Holding {
  int64_t mass;
  double level, key;  // of the heap: at least the level
  int32_t row, col;
  int32_t left, right;  // of a skew heap, or `left` of a list
  int32_t next;         // of the same row
};

struct Workspace {
  int64_t *supply, *demand;                // [n], [m] in units
  int64_t *rest, *held;                    // [n] free mass, [m]
  int64_t* price;                          // [nodes] u of rows, v of columns, in whole units
  int64_t *flow, *arc_cost;                // [nodes] of the arc to the parent
  uint64_t* key;                           // [entries] row << 32 | column, for sorting
  int64_t* mass;                           // [entries]
  float *v, *u;                            // of the auction: [m] prices, [n] least reduced costs
  float* shadow;                           // [nodes] of the prices, rounded
  double *row_dual, *col_dual;             // [n], [m]
  Holding* pool;                           // [holdings]
  int32_t *top, *head;                     // [m] the heap and this round's bids of a column
  int32_t *next_bid, *bid_col, *bid_slot;  // [n] of listed rows
  int32_t* list[2];                        // [n] rows with free mass
  int32_t* of_row;                         // [n] the first holding
  int32_t *unused, *gone;  // [holdings] slots of the pool, and those that became free
  int32_t *above, *size;   // [nodes + 1] of the tree: parents, sizes of subtrees
  int32_t* mark;           // [nodes + 1]
  int64_t holdings, entries, bytes;

  JAXMATCH_HOST_DEVICE Workspace(char* base, int64_t n, int64_t m) {
    const int64_t nodes = n + m;
    holdings = 4 * nodes + 64;
    for (entries = 1; entries < holdings + nodes;) entries *= 2;
    bytes = 0;
    take(base, supply, n);
    take(base, demand, m);
    take(base, rest, n);
    take(base, held, m);
    take(base, price, nodes + 1);
    take(base, flow, nodes + 1);
    take(base, arc_cost, nodes + 1);
    take(base, key, entries);
    take(base, mass, entries);
    take(base, v, m);
    take(base, u, n);
    take(base, shadow, nodes);
    take(base, row_dual, n);
    take(base, col_dual, m);
    take(base, pool, holdings);
    take(base, top, m);
    take(base, head, m);
    take(base, next_bid, n);
    take(base, bid_col, n);
    take(base, bid_slot, n);
    take(base, list[0], n);
    take(base, list[1], n);
    take(base, of_row, n);
    take(base, unused, holdings);
    take(base, gone, holdings);
    take(base, above, nodes + 1);
    take(base, size, nodes + 1);
    take(base, mark, nodes + 1);
  }

 private:
  template <class T>
  JAXMATCH_HOST_DEVICE void take(char* base, T*& array, int64_t count) {
    array = reinterpret_cast<T*>(base + bytes);
    bytes += (count * int64_t(sizeof(T)) + 15) / 16 * 16;
  }
};

constexpr Size kSizes[] = {
    {"transport.workspace",  // arguments: n, m
     [](const int64_t* a) { return words(Workspace(nullptr, a[0], a[1]).bytes); }},
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_WORKSPACE_H_
