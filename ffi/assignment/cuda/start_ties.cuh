// Initialisation for heavily tied costs: a maximum matching on the tight pairs (C_ij - v_j = u_i),
// which are stored as bits. Augmenting paths are found by breadth-first search from all free rows
// at once (Hopcroft and Karp 1973). When there are no more paths, the dual update of the Hungarian
// method makes further pairs tight. The Dijkstra searches of augment.cuh would instead scan the
// many rows at equal distance one by one.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_START_TIES_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_START_TIES_CUH_

#include "assignment/cuda/scan_costs.cuh"

namespace jaxmatch::assignment {

// In a set of columns, column j is bit j % 128 / 4 of word j / 128 * 4 + j % 4. This is the order
// in which ballots over the packs of a warp return bits.
constexpr int kTightPack = 4;
__device__ inline int tight_word(int j) { return j / 128 * kTightPack + j % kTightPack; }
__device__ inline unsigned tight_bit(int j) { return 1u << (j % 128 / kTightPack); }

// Alternating trees that grow from the free rows, in shared memory. A row is in a tree if its root
// is not kNone.
template <class S>
struct Forest {
  const S& s;
  const int words;          // number of words that hold a bit for each column
  uint32_t* const tight;    // [rows, words] tight pairs
  uint32_t* const visited;  // [words] columns in trees
  int* const claim;         // [cols] lowest row that reaches the column; kNone once in a tree
  int* const end;           // [rows] for each root, the first free column of its tree
  Index* const root;        // [rows] root of the tree of each row, or kNone
  Index* const frontiers;   // two lists [rows]: the rows of this level and of the next level
  int* const counter;       // sizes of the frontiers, the number of paths, the least slack

  __device__ explicit Forest(const S& state)
      : s(state),
        words((s.cols + 127) / 128 * kTightPack),
        tight(at<uint32_t>(s.f.b.shared.tight)),
        visited(at<uint32_t>(s.f.b.shared.visited)),
        claim(at<int>(s.f.b.shared.claim)),
        end(at<int>(s.f.b.shared.end)),
        root(at<Index>(s.f.b.shared.root)),
        frontiers(at<Index>(s.f.b.shared.frontiers)),
        counter(at<int>(s.f.b.shared.counter)) {}

  template <class T>
  __device__ T* at(int offset) const {
    return s.f.template shared<T>(offset);
  }
};

// Called by one warp. Sets the bits of the columns of row i for which `test(j, C_ij - v_j)` is
// true. Lane w returns word w.
template <class S, class Test>
__device__ uint32_t collect_bits(const S& s, int i, const Test& test) {
  uint32_t mine = 0;
  const int lane = s.group.lane();
  for (int first = 0, word = 0; first < s.cols; first += 128, word += kTightPack) {
    const int j = first + lane * kTightPack;
    const auto raws = s.load(s.start(j), i, j);
    const auto v = s.duals(j);
#pragma unroll
    for (int k = 0; k < kTightPack; ++k) {
      const bool holds = j + k < s.cols && test(j + k, s.less(raws.x[k], v.x[k]));
      const uint32_t bits = __ballot_sync(kAllLanes, holds);
      if (lane == word + k) mine = bits;
    }
  }
  return mine;
}

// Called by one warp. Returns u_i = min_j C_ij - v_j. Lane w gets in `mine` word w of the set of
// columns that attain this minimum. The row must fit in `kPacks` packs per lane, so that its
// reduced costs stay in registers.
template <int kPacks, class S>
__device__ typename S::Key find_tight_row(const S& s, int i, uint32_t& mine) {
  typename S::Key x[kPacks * kTightPack], least = S::Arithmetic::kForbidden;
  int at = 0;
  for_some_columns<kPacks>(s, i, 0, [&](int, typename S::Key y) {
    x[at++] = y;
    least = y < least ? y : least;
  });
  least = S::Arithmetic::warp_min(least);
#pragma unroll
  for (int n = 0; n < kPacks * kTightPack; ++n) {  // the padding is infinitely far
    const uint32_t bits = __ballot_sync(kAllLanes, x[n] == least);
    if (s.group.lane() == n) mine = bits;
  }
  return least;
}

template <class S>
__device__ void find_tight_pairs(const Forest<S>& t) {
  using A = typename S::Arithmetic;
  const S& s = t.s;
  const auto& g = s.group;
  for (int i = g.warp(); i < s.rows; i += g.warps()) {
    typename S::Key least = A::kForbidden;
    uint32_t bits = 0;
    if (s.cols <= 2 * kTightPack * kWarpSize) {
      least = find_tight_row<2>(s, i, bits);
    } else if (s.cols <= 4 * kTightPack * kWarpSize) {
      least = find_tight_row<4>(s, i, bits);
    } else {
      for_each_column(s, i, [&](int, typename S::Key x) { least = x < least ? x : least; });
      least = A::warp_min(least);
      bits = collect_bits(s, i, [&](int, typename S::Key x) { return x == least; });
    }
    if (!(least < A::kInfinity) && g.lane() == 0) s.control[kInfeasibleFlag] = 1;
    if (!s.fits(least) && g.lane() == 0) s.control[kTooWideFlag] = 1;
    if (g.lane() < t.words) t.tight[i * t.words + g.lane()] = bits;
    if (g.lane() == 0) s.u[i] = least;
  }
  g.sync();
}

// Grows alternating trees from the free rows along tight pairs, level by level, until each tree
// reaches a free column or cannot grow. If several rows reach a column at the same level, it joins
// the tree of the row with the lowest index. Returns the number of trees that reached a free
// column.
template <class S>
__device__ int grow_forest(const Forest<S>& t, int free_count) {
  const S& s = t.s;
  const auto& g = s.group;
  for (int j = g.thread; j < s.cols; j += g.size) t.claim[j] = INT32_MAX;
  for (int i = g.thread; i < s.rows; i += g.size) {
    t.root[i] = kNone;
    t.end[i] = INT32_MAX;
  }
  for (int w = g.thread; w < t.words; w += g.size) t.visited[w] = 0;
  if (g.thread < kCounters) t.counter[g.thread] = 0;
  g.sync();
  for (int k = g.thread; k < free_count; k += g.size) {
    const Index i = s.free_rows[k];
    t.root[i] = i;
    t.frontiers[k] = i;
  }
  int count = free_count;
  g.sync();
  for (int level = 0; count > 0; ++level) {
    const Index* frontier = t.frontiers + (level & 1) * s.rows;
    Index* next = t.frontiers + (~level & 1) * s.rows;
    int* next_count = &t.counter[~level & 1];
    // Each lane handles one word of one row, so that a warp handles several rows.
    for (int at = g.thread; at < count * t.words; at += g.size) {
      const int i = frontier[at / t.words], w = at % t.words;
      if (t.end[t.root[i]] != INT32_MAX) continue;
      for (uint32_t bits = t.tight[i * t.words + w] & ~t.visited[w]; bits; bits &= bits - 1) {
        const int bit = __ffs(bits) - 1;
        atomicMin(&t.claim[w / kTightPack * 128 + bit * kTightPack + w % kTightPack], i);
      }
    }
    g.sync();
    if (g.thread == 0) t.counter[level & 1] = 0;
    for (int j = g.thread; j < s.cols; j += g.size) {
      const int i = t.claim[j];
      if (i == INT32_MAX || i == kNone) continue;
      t.claim[j] = kNone;  // less than any row, so that the column joins no other tree
      atomicOr(&t.visited[tight_word(j)], tight_bit(j));
      s.pred[j] = Index(i);
      const int owner = s.row4col[j], root = t.root[i];
      if (owner == kNone) {
        if (atomicMin(&t.end[root], j) == INT32_MAX) atomicAdd(&t.counter[kPaths], 1);
      } else {
        t.root[owner] = Index(root);
        next[atomicAdd(next_count, 1)] = Index(owner);
      }
    }
    g.sync();
    count = *next_count;
  }
  return t.counter[kPaths];
}

// Augments the matching along one path of each tree that reached a free column. Lists the rows that
// are still free, in order, and returns their number.
template <class S>
__device__ int flip_paths(const Forest<S>& t, int free_count) {
  const S& s = t.s;
  const auto& g = s.group;
  for (int k = g.thread; k < free_count; k += g.size) {
    const int root = s.free_rows[k];
    if (t.end[root] != INT32_MAX) flip_path(s, root, t.end[root]);
  }
  g.sync();
  return list_free_rows(s);
}

// The dual update of the Hungarian method, for when no tree can grow: raises u of the rows in trees
// and lowers v of the columns in trees, until a new pair is tight.
template <class S>
__device__ void update_duals(const Forest<S>& t) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const S& s = t.s;
  const auto& g = s.group;
  const auto outside = [&](int j) { return !(t.visited[tight_word(j)] & tight_bit(j)); };
  if (g.thread == 0) t.counter[kSlack] = __float_as_int(A::kForbidden);
  g.sync();
  for (int i = g.warp(); i < s.rows; i += g.warps()) {
    if (t.root[i] == kNone) continue;
    Key least = A::kForbidden;
    for_each_column(s, i, [&](int j, Key x) {
      if (j < s.cols && x < least && outside(j)) least = x;
    });
    least = A::warp_min(least);
    // Slacks are not negative, so their bits, read as integers, have the same order.
    if (g.lane() == 0) atomicMin(&t.counter[kSlack], __float_as_int(least - s.u[i]));
  }
  g.sync();
  const Key slack = __int_as_float(t.counter[kSlack]);
  if (!(slack < A::kInfinity)) {
    if (g.thread == 0) s.control[kInfeasibleFlag] = 1;
    g.sync();
    return;
  }
  for (int i = g.warp(); i < s.rows; i += g.warps()) {
    uint32_t bits = 0;
    const bool in_tree = t.root[i] != kNone;
    if (in_tree) {
      const Key target = s.u[i] + slack;
      bits = collect_bits(s, i, [&](int j, Key x) { return x == target && outside(j); });
      __syncwarp();
      if (g.lane() == 0) s.u[i] = target;
      if (g.lane() == 0 && !s.fits(target)) s.control[kTooWideFlag] = 1;
    }
    if (g.lane() < t.words) {
      uint32_t& word = t.tight[i * t.words + g.lane()];
      word = in_tree ? word | bits : word & ~t.visited[g.lane()];
    }
  }
  g.sync();
  for (int j = g.thread; j < s.cols; j += g.size) {
    if (outside(j)) continue;
    s.v[j] -= slack;
    if (!s.fits_dual(s.v[j])) s.control[kTooWideFlag] = 1;
  }
  g.sync();
}

template <class S>
__device__ void match_tied(const S& s) {
  const Forest<S> t(s);
  int count = list_free_rows(s);
  find_tight_pairs(t);
  for (int updates = 0; count > 0;) {
    if (s.control[kInfeasibleFlag] || s.control[kTooWideFlag]) break;
    if (grow_forest(t, count) > 0) {
      count = flip_paths(t, count);
    } else if (updates++ < s.f.b.effort.dual_updates) {
      update_duals(t);
    } else {
      break;
    }
  }
  s.group.sync();
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_START_TIES_CUH_
