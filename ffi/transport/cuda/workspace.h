// The state of one transport problem on CUDA, in global memory.
#ifndef JAXMATCH_CUDA_TRANSPORT_WORKSPACE_H_
#define JAXMATCH_CUDA_TRANSPORT_WORKSPACE_H_

#include <cstdint>

#include "common/cuda/team_slots.h"
#include "common/host_device.h"
#include "common/status.h"
#include "transport/cuda/few_columns_state.h"

namespace jaxmatch::transport {

using team::kMostBlocks, team::Slots;

// Supplies and demands as multiples of one unit, with equal totals.
struct Masses {
  double unit;  // a power of two; 1 for integers
  int64_t total;
  bool rounded;  // a mass was rounded to the unit, or demands were scaled
  Status status;
  bool coarse;     // rounding changed a mass by more than the error allowed by spare()
  double lacking;  // mass that one side lacks, if the totals differ too much; else 0
};

// The mass of one row that one column holds. It becomes free when the column's price falls below
// `level`.
struct alignas(16) Holding {
  int64_t mass;
  float level;
  int32_t row;
};

// The holdings of a column: `count` entries of the pool, from `first` on. There is room for `room`
// entries.
struct alignas(16) Segment {
  int32_t first, count, room;
};

// A bid of a row for a column, with all free mass of the row.
struct alignas(16) Bid {
  int64_t mass;
  float level;
  int32_t next;  // next bid for the same column
};

constexpr int kExponentWords = 64;  // 32-bit words of a set of exponents

// The state that the blocks of a problem share.
struct Control {
  Masses masses;
  uint32_t exponents[2 * kExponentWords];
  int32_t listed[3];  // number of rows listed for a round of the auction, by round % 3
  int32_t used;       // used places of the pool
  int32_t stuck;      // a row that must bid has no allowed column
  int32_t full;       // some column found no place in the pool for its holdings
  int32_t bids;
  int32_t arcs;   // number of arcs of a plan; in the simplex method, whether an arc may enter
  int32_t stem;   // number of tree arcs that a pivot reverses
  int32_t found;  // a result of one block that all blocks read
  // Totals of recomputed flows, see transport/plan_flows.inc.h.
  int32_t flows, with_flow;
  double paid, lost;
};

// The positions in an Euler tour of a tree where the tour enters and leaves the subtree of a node.
struct alignas(8) Visit {
  int32_t first, last;

  JAXMATCH_HOST_DEVICE bool holds(int32_t at) const { return first <= at && at <= last; }
  JAXMATCH_HOST_DEVICE int32_t size() const { return (last - first + 1) / 2; }
};

// The bytes of shared memory for a tree of `nodes` nodes: a Visit and a parent for each.
JAXMATCH_HOST_DEVICE constexpr int64_t tree_bytes(int64_t nodes) {
  return (nodes * int64_t(sizeof(Visit) + sizeof(int32_t)) + 15) / 16 * 16;
}

// The new state of a node whose child becomes its parent.
struct Turned {
  int32_t node, parent, first, last;
  int64_t flow;
};

struct Workspace {
  uint64_t* arrivals;  // number of arrivals at barriers between blocks; zero at launch
  Slots* slots;        // [2]
  Control* control;
  int64_t *supply, *demand;     // [n], [m] in units
  double* real;                 // [nodes] float masses, with demands scaled to sum to the supplies
  int64_t *rest, *held;         // [n] free mass of rows, [m] mass that columns hold
  int64_t* price;               // [nodes] u of rows, v of columns, in whole units
  int64_t* flow;                // [nodes] mass on the arc to the parent
  uint64_t* key;                // [entries] arcs: row << 32 | column
  int64_t* mass;                // [entries] masses of these arcs; in the simplex method their costs
  uint64_t* saved_key;          // [nodes] arcs of another plan
  int64_t* saved_mass;          // [nodes] their masses
  float *v, *u;                 // for the auction: [m] prices, [n] least reduced costs
  float* shadow;                // [nodes] prices rounded to float32
  double *row_dual, *col_dual;  // [n], [m]
  Holding* pool[2];             // [holdings] two pools, used alternately
  Segment* segment;             // [m]
  int32_t* head;                // [m] head of the list of the column's bids in this round, or kNone
  Bid* bid;                     // [n] bids of the listed rows
  int32_t* bid_col;             // [n] columns of the bids, or kNone
  int32_t* list[2];             // [n] rows with free mass, by round % 2
  Visit* tour;                  // [nodes + 1] Euler tour, if it does not fit into shared memory
  int32_t* above;               // [nodes + 1] parents
  Turned* turned;               // [nodes] nodes whose arc to the parent a pivot reverses
  int32_t* in_forest;           // [entries] which arcs are in the forest, see Forest
  int32_t* scratch[4];          // [nodes + 1]; in an auction scratch[0] has the bid of each row
  // For few columns (few_columns.cuh):
  // - length, arc: [kMostParts * few * few] lengths of arcs between columns, and the pairs behind
  //   these arcs, see ColumnArcs
  // - col_price, col_excess: [few] prices, and masses above the demand
  // - changed: [few] columns whose arcs must be recomputed
  // - load: [kLoadsInTurn * few] mass that each column gets in the ascent
  // - curve: [kLoadsInTurn * pairs] sums of products in the ascent, for pairs of columns
  int64_t* length;
  uint64_t* arc;
  int64_t *col_price, *col_excess;
  int32_t* changed;
  uint32_t *load, *curve;
  int64_t nodes, holdings, entries, bytes;

  JAXMATCH_HOST_DEVICE Workspace(char* base, int64_t n, int64_t m) {
    nodes = n + m;
    holdings = 12 * nodes + 64;
    for (entries = 1; entries < holdings + nodes;) entries *= 2;
    bytes = 0;
    take(base, arrivals, 1);
    take(base, slots, 2);
    take(base, control, 1);
    take(base, supply, n);
    take(base, demand, m);
    take(base, real, nodes);
    take(base, rest, n);
    take(base, held, m);
    take(base, price, nodes + 1);
    take(base, flow, nodes + 1);
    take(base, key, entries);
    take(base, mass, entries);
    take(base, saved_key, nodes);
    take(base, saved_mass, nodes);
    take(base, v, m);
    take(base, u, n);
    take(base, shadow, nodes);
    take(base, row_dual, n);
    take(base, col_dual, m);
    take(base, pool[0], holdings);
    take(base, pool[1], holdings);
    take(base, segment, m);
    take(base, head, m);
    take(base, bid, n);
    take(base, bid_col, n);
    take(base, list[0], n);
    take(base, list[1], n);
    take(base, tour, nodes + 1);
    take(base, above, nodes + 1);
    take(base, turned, nodes);
    take(base, in_forest, entries);
    for (int32_t*& array : scratch) take(base, array, nodes + 1);
    const int64_t few = has_few_columns(n, m) ? (n < m ? n : m) : 0;
    take(base, length, kMostParts * few * few);
    take(base, arc, kMostParts * few * few);
    take(base, col_price, few);
    take(base, col_excess, few);
    take(base, changed, few);
    take(base, load, kLoadsInTurn * few);
    take(base, curve, few > 0 ? kLoadsInTurn * CurveMemory{few}.pairs() : 0);
  }

  // Moves the arrays that are used most to `base`, in the shared memory of a block that works
  // alone. Returns their size in bytes.
  JAXMATCH_HOST_DEVICE int64_t move_state(char* base, int64_t n, int64_t m) {
    const int64_t own = bytes;
    bytes = 0;
    take(base, control, 1);
    take(base, supply, n);
    take(base, demand, m);
    take(base, rest, n);
    take(base, held, m);
    take(base, price, nodes + 1);
    take(base, flow, nodes + 1);
    take(base, shadow, nodes);
    take(base, v, m);
    take(base, segment, m);
    take(base, head, m);
    take(base, bid, n);
    take(base, bid_col, n);
    take(base, list[0], n);
    take(base, list[1], n);
    const int64_t moved = bytes;
    bytes = own;
    return moved;
  }

 private:
  template <class T>
  JAXMATCH_HOST_DEVICE void take(char* base, T*& array, int64_t count) {
    array = reinterpret_cast<T*>(base + bytes);
    bytes += (count * int64_t(sizeof(T)) + 15) / 16 * 16;
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_WORKSPACE_H_
