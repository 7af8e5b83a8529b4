// The memory of one problem on CUDA.
#ifndef JAXMATCH_CUDA_K_BEST_WORKSPACE_H_
#define JAXMATCH_CUDA_K_BEST_WORKSPACE_H_

#include <cstdint>

#include "common/host_device.h"
#include "common/sizes.h"
#include "k_best/cpu/problem.h"

namespace jaxmatch::k_best {

constexpr int kWarpSize = 32, kThreads = 256, kWarps = kThreads / kWarpSize;
constexpr int64_t kLongestSide = 4096, kLongestList = 1 << 14;

// Places arrays one after another. With a null base, it only measures the total size of the arrays.
class Memory {
 public:
  JAXMATCH_HOST_DEVICE explicit Memory(char* base) : base_(base) {}
  template <class T>
  JAXMATCH_HOST_DEVICE void take(T*& array, int64_t count) {
    array = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (count * int64_t(sizeof(T)) + 15) / 16 * 16;
  }
  JAXMATCH_HOST_DEVICE int64_t bytes() const { return bytes_; }

 private:
  char* base_;
  int64_t bytes_ = 0;
};

// Upper bounds on the sizes of a problem, whatever its masks are.
struct Bounds {
  int64_t n, m, rows, stride, k;

  JAXMATCH_HOST_DEVICE Bounds(int64_t n, int64_t m, int64_t most)
      : n(n), m(m), rows(n < m ? n : m), stride(((n < m ? m : n) + 7) / 8 * 8), k(1) {
    // There are cols! / (cols - rows)! assignments.
    const int64_t cols = n < m ? m : n;
    for (int64_t i = 0; i < rows && k < most; ++i) k *= cols - i;
    k = k < most ? k : most;
  }
};

// The arrays of one warp's search, indexed by column (see k_best/cpu/search.h).
struct Search {
  int64_t *open, *dist;
  int32_t *from, *row4col;
};

// The arrays that are accessed most. They are in shared memory if they fit. Those after `search`
// are for partitioning a node (k_best/cuda/partition.cuh).
struct State {
  Search search[kWarps];
  int64_t* into;    // [stride] least reduced cost of each column
  int64_t* bound;   // [rows] least reduced cost of each row, by place in the order
  int32_t* owner;   // [stride] place of each column's row in the order
  int32_t* sorted;  // [rows] the new order of rows
  int32_t* banned;  // [stride] set if the first row that is not forced must not use the column

  JAXMATCH_HOST_DEVICE void take(Memory& memory, const Bounds& size) {
    for (Search& s : search) {
      memory.take(s.open, size.stride);
      memory.take(s.dist, size.stride);
      memory.take(s.from, size.stride);
      memory.take(s.row4col, size.stride);
    }
    memory.take(into, size.stride);
    memory.take(bound, size.rows);
    memory.take(owner, size.stride);
    memory.take(sorted, size.rows);
    memory.take(banned, size.stride);
  }
};

JAXMATCH_HOST_DEVICE inline int64_t* take_costs(Memory& memory, const Bounds& size) {
  int64_t* cost;
  memory.take(cost, (size.rows + 1) * size.stride);
  return cost;
}

struct Workspace {
  int32_t *n_list, *m_list;
  // The tree of subproblems, see k_best/cpu/tree.h.
  int64_t* cost;      // [k]
  int32_t* parent;    // [k]
  int32_t* forced;    // [k]
  int32_t* col4row;   // [k, rows + 1]
  int32_t* order;     // [k, rows]
  int64_t* v;         // [k, stride]
  int64_t* key;       // [k, rows]
  int64_t* rise;      // [k, rows]
  int64_t* next_key;  // [kWarps, k] least key among a warp's children of a node
  int32_t* next_at;   // [kWarps, k] place of the child with this key
  int64_t* known;     // [k] the least costs found so far
  double* value;      // [k] cost of each node, negated if costs are maximised
  int32_t* rank;      // [k] nodes in the order of the results
  State state;
  int64_t* costs;  // [rows + 1, stride] in units
  int64_t bytes;

  JAXMATCH_HOST_DEVICE Workspace(char* base, const Bounds& size) {
    Memory memory(base);
    memory.take(n_list, size.n);
    memory.take(m_list, size.m);
    memory.take(cost, size.k);
    memory.take(parent, size.k);
    memory.take(forced, size.k);
    memory.take(col4row, size.k * (size.rows + 1));
    memory.take(order, size.k * size.rows);
    memory.take(v, size.k * size.stride);
    memory.take(key, size.k * size.rows);
    memory.take(rise, size.k * size.rows);
    memory.take(next_key, kWarps * size.k);
    memory.take(next_at, kWarps * size.k);
    memory.take(known, size.k);
    memory.take(value, size.k);
    memory.take(rank, size.k);
    state.take(memory, size);
    costs = take_costs(memory, size);
    bytes = memory.bytes();
  }
};

// A batch: its first problem, and the memory of all problems.
struct KBestBatch {
  KBestProblem first;
  bool state_in_shared, costs_in_shared;
  char* workspace;
  int64_t workspace_bytes;  // bytes of one problem
};

constexpr Size kSizes[] = {
    {"k_best.longest_side", constant<kLongestSide>},
    {"k_best.longest_list", constant<kLongestList>},
    {"k_best.workspace",  // arguments: n, m, k
     [](const int64_t* a) { return words(Workspace(nullptr, Bounds(a[0], a[1], a[2])).bytes); }},
};

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_WORKSPACE_H_
