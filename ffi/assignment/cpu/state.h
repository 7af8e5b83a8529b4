// State of one solve in canonical form: costs are minimised, and every row must take a column or
// pay its unmatched cost. A row that pays its unmatched cost is called dropped.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// Remains at least kInfinity when any sum of costs is added to it or subtracted from it.
template <class Acc>
constexpr Acc kNever = 4 * kInfinity<Acc>;

constexpr int32_t kNone = -1;     // partner of a row or column that is not matched yet
constexpr int32_t kDropped = -2;  // partner of a row that stays unmatched, at its unmatched cost

// Invariants of a solve, except during an auction (C is scale * cost, u_i = min_j C_ij - v_j):
//   - a matched pair is tight: C_ij - v_j = u_i; a dropped row has unmatched[i] <= u_i;
//   - v only decreases, so lower bounds on reduced costs stay valid;
//   - searches from free rows and row reduction never match a dropped row again;
//   - where columns may stay unmatched, v_j <= 0, with equality if the column was never matched. A
//     warm start or an auction may put v_j lower; settle_free_columns() then restores equality.
template <class LanesType, class ElemType>
struct State {
  static constexpr bool kStored = true;  // costs are in memory; PointState computes costs instead
  using Lanes = LanesType;
  using Acc = typename Lanes::Acc;
  using Elem = ElemType;

  Elem* gathered;         // the copy of the costs, or null
  const Elem* cost;       // the costs, in place or in `gathered`
  int64_t stride;         // number of costs from one row of `cost` to the next
  const int32_t* row_id;  // [rows] the row of `cost` that holds row i; null if it is row i itself
  int32_t rows, cols;
  Acc scale;  // factor of all costs: 1, or -1 to maximise, times a power of two that keeps huge
              // doubles in range
  const Acc* unmatched;  // [rows] scaled unmatched costs; null if every row must be matched
  bool cols_optional;    // whether columns may stay unmatched

  int32_t* col4row;  // [rows] column of each row, kNone or kDropped
  int32_t* row4col;  // [cols] row of each column, or kNone
  Acc* v;            // [padded cols] column duals; -infinity in the padding

  // State of one search (assignment/cpu/augment.h). Other functions use these arrays as scratch.
  Acc* dist;           // [padded] length of the shortest path found to the column
  Acc* label;          // [padded] v + min(dist, Search::bound); -infinity if settled
  Acc* barrier;        // [padded] 0 for a free column, kNever for a matched one
  int32_t* pred;       // [cols] the row before the column on that path
  int32_t* position;   // [cols] index of the column in the open list, or kNone
  int32_t* open_col;   // [cols] the open list: columns that are reached, but not settled
  Acc* open_key;       // [padded] `dist` of each column of the open list
  int32_t* settled;    // [cols] list of the settled columns
  int32_t* free_rows;  // [rows] list of free rows
  Acc* next_best;      // [rows] see Auction (assignment/cpu/auction.h)

  mutable Poll poll;

  const Elem* row(int64_t i) const { return cost + (row_id ? row_id[i] : i) * stride; }
  Elem cost_of(int64_t i, int64_t j) const { return row(i)[j]; }
  Acc entry(int64_t i, int64_t j) const { return Acc(widen(cost_of(i, j))) * scale; }
  Acc leave(int64_t i) const { return unmatched ? unmatched[i] : kNever<Acc>; }
};
