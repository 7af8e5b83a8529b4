// The method "auto" on the CPU: many short searches from one free row each, then a few joint
// searches from all free rows.
#ifndef JAXMATCH_MATCHING_CPU_AUTO_H_
#define JAXMATCH_MATCHING_CPU_AUTO_H_

#include <algorithm>
#include <cstdint>

#include "matching/cpu/budget.h"
#include "matching/cpu/check_graph.h"
#include "matching/cpu/hopcroft_karp.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// Most free rows have a free column nearby, or no path to one. So at first, passes run a separate
// breadth-first search from each free row. The bound on the edges that a search scans grows from
// pass to pass. The data of such a search fit into the cache, and a pass takes the free rows in
// memory order. A search that visits everything it can reach without finding a free column removes
// its tree from the graph (a Hungarian tree: no augmenting path ever enters it). When separate
// searches become more expensive than a scan of the whole graph, joint searches follow: each grows
// a tree from every remaining free row at once (MS-BFS; Azad, Buluc and Pothen, TPDS 2017). The
// algorithm takes O(e sqrt(n)) time: the passes cost a few scans of the graph, and after a fixed
// number of joint searches Hopcroft and Karp's algorithm takes over.
class AutoSearch {
 public:
  AutoSearch(PartialMatching& s, HostArena& scratch)
      : s_(s),
        scratch_(scratch),
        free_rows_(scratch.take<int32_t>(s.n)),
        queue_(scratch.take<int32_t>(s.n)),
        origin_(scratch.take<int32_t>(s.n)),
        seen_(s.m, scratch) {}

  // Returns the columns of a minimum vertex cover, see finish().
  Bitmap run() {
    for (int32_t i = 0; i < s_.n; ++i) {
      free_rows_[num_free_] = i;
      num_free_ += s_.col4row[i] < 0 && s_.row_ptr[i] < s_.row_ptr[i + 1];
    }
    free_cols_ = count_with_edges(s_.col_ptr, s_.m) - s_.cardinality;
    search_alone();
    if (num_free_ == 0 || free_cols_ == 0) return finish();
    return search_together() ? finish() : HopcroftKarp(s_, scratch_).run(false);
  }

 private:
  enum class Outcome { kAugmented, kNoPath, kCut };
  struct PathEnd {
    int32_t col, at;  // free column or -1; position in queue_ of the row that reached it
  };

  // Returns the columns that alternating paths from free rows reach. If every column with edges is
  // matched, returns all matched columns instead, which then cover all edges.
  Bitmap finish() {
    if (free_cols_ > 0) return seen_;
    for (int32_t j = 0; j < s_.m; ++j) {
      if (s_.row4col[j] >= 0) seen_.set(j);
    }
    return seen_;
  }

  // Runs passes of separate searches. Rows whose searches were cut off or did not run stay in
  // free_rows_.
  void search_alone() {
    SearchBudget budget(s_.edges(), num_free_);
    bool another = num_free_ > 0;
    while (another) {
      int32_t left = 0;
      int64_t work = 0;
      bool expensive = false;
      for (int32_t k = 0; k < num_free_; ++k) {
        const int32_t i = free_rows_[k];
        if (expensive || search(i, budget.bound(), &work) == Outcome::kCut) free_rows_[left++] = i;
        if (free_cols_ == 0) return;
        expensive = expensive || budget.too_expensive(work, k + 1 - left);
      }
      num_free_ = left;
      another = budget.next_pass(work, left) && !expensive;
    }
  }

  // Searches breadth first from the free row `root`, over at most `bound` edges.
  Outcome search(int32_t root, int64_t bound, int64_t* work) {
    int32_t begin = 0, end = 0, found = -1;
    int64_t scanned = 0;
    origin_[end] = -1;
    queue_[end++] = root;
    while (begin < end && found < 0) {
      const int32_t i = queue_[begin];
      const int32_t last = s_.row_ptr[i + 1];
      int32_t k = s_.row_ptr[i];
      scanned += last - k;
      if (scanned > bound) break;
      ++begin;
      for (; k < last; ++k) {
        const int32_t j = s_.col_ind[k];
        if (seen_[j]) continue;
        seen_.set(j);
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          found = j;
          break;
        }
        origin_[end] = begin - 1;
        queue_[end++] = r;
      }
    }
    *work += std::min(scanned, bound);
    poll_.after(8 * scanned);
    if (found < 0 && begin == end) return Outcome::kNoPath;
    for (int32_t k = 1; k < end; ++k) seen_.clear(s_.col4row[queue_[k]]);
    if (found < 0) return Outcome::kCut;
    seen_.clear(found);
    augment({found, begin - 1});
    return Outcome::kAugmented;
  }

  // Augments along the path from the free column of `end` up to the root of its search tree.
  void augment(PathEnd end) {
    for (auto [col, at] = end; at >= 0; at = origin_[at]) {
      const int32_t row = queue_[at];
      const int32_t next = s_.col4row[row];
      s_.match(row, col);
      col = next;
    }
    ++s_.cardinality;
    --free_cols_;
  }

  // Runs phases until one finds no path. A phase is one joint search from all rows in free_rows_.
  // Returns false if the limit on phases is reached first.
  bool search_together() {
    constexpr int kMaxPhases = 100;
    Bitmap gone(s_.m, scratch_);
    gone.copy(seen_, s_.m);
    path_end_ = scratch_.take<PathEnd>(num_free_);
    tree_ = scratch_.take<int32_t>(s_.n);
    for (int phase = 0; phase < kMaxPhases; ++phase) {
      if (!grow_forest()) return true;
      int32_t left = 0;
      for (int32_t t = 0; t < num_free_; ++t) {
        if (path_end_[t].col < 0) {
          free_rows_[left++] = free_rows_[t];
        } else {
          augment(path_end_[t]);
        }
      }
      num_free_ = left;
      seen_.copy(gone, s_.m);
      if (num_free_ == 0 || free_cols_ == 0) return true;
    }
    return false;
  }

  // Searches breadth first from all free rows at once. A tree stops growing when it reaches a free
  // column, which is stored in path_end_. Returns true if any tree reaches a free column.
  bool grow_forest() {
    constexpr int32_t kAhead = 8;
    int32_t end = 0;
    for (; end < num_free_; ++end) {
      queue_[end] = free_rows_[end];
      origin_[end] = -1;
      tree_[end] = end;
      path_end_[end] = {-1, -1};
    }
    bool found = false;
    for (int32_t begin = 0; begin < end; ++begin) {
      if (begin + 2 * kAhead < end) {
        __builtin_prefetch(s_.row_ptr + queue_[begin + 2 * kAhead]);
        __builtin_prefetch(s_.col_ind + s_.row_ptr[queue_[begin + kAhead]]);
      }
      const int32_t i = queue_[begin], tree = tree_[begin];
      poll_.after(32);
      if (path_end_[tree].col >= 0) continue;
      for (int32_t k = s_.row_ptr[i], last = s_.row_ptr[i + 1]; k < last; ++k) {
        const int32_t j = s_.col_ind[k];
        if (seen_[j]) continue;
        seen_.set(j);
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          path_end_[tree] = {j, begin};
          found = true;
          break;
        }
        origin_[end] = begin;
        tree_[end] = tree;
        queue_[end++] = r;
      }
    }
    return found;
  }

  PartialMatching& s_;
  HostArena& scratch_;
  int32_t* free_rows_;  // [n], free rows with edges that may have a path
  int32_t* queue_;      // [n], rows in the order of the search
  int32_t* origin_;     // [n], position in queue_ of the predecessor of each queued row
  Bitmap seen_;         // [m], columns reached by the current search or removed from the graph
  PathEnd* path_end_ = nullptr;  // the end of each tree's path
  int32_t* tree_ = nullptr;      // [n], tree of each queued row
  int32_t num_free_ = 0;
  int32_t free_cols_ = 0;  // number of free columns with edges
  Poll poll_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_AUTO_H_
