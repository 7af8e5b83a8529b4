// The tree of subproblems (Murty, Operations Research 16, 1968; Miller, Stone and Cox, IEEE
// Transactions on Aerospace and Electronic Systems 33, 1997).
//
// A node is a subproblem together with its best assignment, which is an entry of the list. In the
// subproblem the first rows, in the node's order of rows, have forced pairs, and the next row has
// forbidden pairs. All other assignments of the subproblem are divided among the node's children.
// In child t, where t is a place in this order, the rows before place t keep the pairs that they
// have in the node, and the row at place t must not keep its pair. So the assignments of all nodes
// differ. A child's best assignment differs from that of its parent by one shortest augmenting
// path. Until this path has been found, the child's key (see Key) is only a lower bound on its
// cost.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

// The key of a child is twice its excess cost over the best assignment, plus 1 if this cost is only
// a lower bound. So an exact cost comes before an equal lower bound.
using Key = int64_t;
constexpr Key kNoKey = INT64_MAX;  // no child, or a child that needs no more work
inline Key exact_key(int64_t cost) { return 2 * cost; }
inline Key bound_key(int64_t cost) { return 2 * cost + 1; }
inline bool is_bound(Key key) { return key & 1; }
inline int64_t cost_of(Key key) { return key >> 1; }

struct Node {
  int64_t cost;    // excess over the cost of the best assignment
  int32_t parent;  // kNone for the best assignment
  int32_t forced;  // number of forced rows, which are first in the order
  Least next;      // the least key of a child, and the child's place in the order
};

struct Tree {
  int32_t rows;
  int64_t stride;  // number of columns, padded to a multiple of 8
  int64_t keys;    // number of rows, padded to a multiple of 8
  int32_t size;
  Node* node;        // [k]
  int32_t* col4row;  // [k, rows + 1]
  int32_t* order;    // [k, rows] the order of rows
  int64_t* v;        // [k, stride]
  Key* key;          // [k, keys] keys of children, by place in the order
  int64_t* rise;     // [k, keys] rise of the dual of the column that a child's row gives up

  int32_t* order_of(int32_t x) const { return order + int64_t(x) * rows; }
  int32_t* col4row_of(int32_t x) const { return col4row + int64_t(x) * (rows + 1); }
  int64_t* v_of(int32_t x) const { return v + x * stride; }
  Key* keys_of(int32_t x) const { return key + x * keys; }
  int64_t* rises_of(int32_t x) const { return rise + x * keys; }

  // Recomputes node[x].next, the least key of a child of x.
  void renew(int32_t x) { node[x].next = first_least(keys_of(x), keys); }

  // Calls f(column) for each column that child `at` of x forbids to its row, order_of(x)[at].
  template <class F>
  void for_forbidden(int32_t x, int32_t at, const F& f) const {
    const int32_t row = order_of(x)[at];
    f(col4row_of(x)[row]);
    for_forbidden(x, row, at == node[x].forced, f);
  }
  // Calls f(column) for each column that node x itself forbids to `row`. `has` is whether x forbids
  // any column to this row.
  template <class F>
  void for_forbidden(int32_t x, int32_t row, bool has, const F& f) const {
    while (has && node[x].parent != kNone) {
      const int32_t parent = node[x].parent;
      f(col4row_of(parent)[row]);
      has = node[parent].forced == node[x].forced;
      x = parent;
    }
  }
};

// A binary heap of nodes, ordered by the least key of a child, then by the node's number.
struct Queue {
  const Tree& tree;
  int32_t* node;  // [k]
  int32_t size = 0;

  bool before(int32_t a, int32_t b) const {
    const Key x = tree.node[a].next.value, y = tree.node[b].next.value;
    return x < y || (x == y && a < b);
  }
  void push(int32_t x) {
    int32_t at = size++;
    for (; at > 0 && before(x, node[(at - 1) / 2]); at = (at - 1) / 2)
      node[at] = node[(at - 1) / 2];
    node[at] = x;
  }
  // Restores the heap after the key of its first node has grown.
  void sink() {
    const int32_t x = node[0];
    int32_t at = 0;
    for (;;) {
      int32_t child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && before(node[child + 1], node[child])) ++child;
      if (!before(node[child], x)) break;
      node[at] = node[child];
      at = child;
    }
    node[at] = x;
  }
};

// The k least costs found so far, in a heap with the greatest on top. Once there are k costs,
// assignments that cost at least as much as the greatest are not needed.
struct KnownCosts {
  int64_t* cost;  // [k]
  int64_t size, k;

  int64_t limit() const { return size < k ? kFar : cost[0]; }
  void add(int64_t x) {
    if (size < k) {
      int64_t at = size++;
      for (; at > 0 && x > cost[(at - 1) / 2]; at = (at - 1) / 2) cost[at] = cost[(at - 1) / 2];
      cost[at] = x;
      return;
    }
    if (x >= cost[0]) return;
    int64_t at = 0;
    for (;;) {
      int64_t child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && cost[child + 1] > cost[child]) ++child;
      if (cost[child] <= x) break;
      cost[at] = cost[child];
      at = child;
    }
    cost[at] = x;
  }
};
