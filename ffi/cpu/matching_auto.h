// The method auto on the CPU: many short searches first, then few long ones for all at once.
#ifndef JAXMATCH_CPU_MATCHING_AUTO_H_
#define JAXMATCH_CPU_MATCHING_AUTO_H_

#include <algorithm>
#include <cstdint>

#include "matching_budget.h"
#include "matching_hopcroft_karp.h"
#include "matching_state.h"

namespace jaxmatch {

// Most free rows have a free column nearby, or no way to any. So at first each row searches alone,
// breadth first, up to a bound that grows from pass to pass: such searches stay in the cache, and
// take the rows in the order in which they lie in memory. A search that comes to its end without a
// free column takes all that it has seen out of the graph for good (a Hungarian tree: no augmenting
// path ever enters it). When this gets dearer than walking the whole graph, one search from all
// rows left grows a tree for each (MS-BFS; Azad, Buluc and Pothen, TPDS 2017), phase by phase.
// Only the rows' direction of the graph is read. O(e sqrt(n)): the passes cost a few walks over
// the graph, and phases beyond the usual number go to Hopcroft and Karp.
class AutoSearch {
 public:
  AutoSearch(MatchingState& s, Scratch& scratch)
      : s_(s),
        scratch_(scratch),
        free_rows_(scratch.take(s.n)),
        queue_(scratch.take(s.n)),
        parent_(scratch.take(s.m)),
        seen_(scratch.take_bitmap(s.m)) {}

  // Returns a set of columns as a search from all free rows would leave it behind.
  Bitmap run() {
    for (int32_t i = 0; i < s_.n; ++i) {
      free_rows_[num_free_] = i;
      num_free_ += s_.col4row[i] < 0 && s_.row_ptr[i] < s_.row_ptr[i + 1];
    }
    for (int32_t j = 0; j < s_.m; ++j) {
      free_cols_ += s_.row4col[j] < 0 && s_.col_ptr[j] < s_.col_ptr[j + 1];
    }
    search_alone();
    if (num_free_ == 0 || free_cols_ == 0) return finish();
    return search_together() ? finish() : HopcroftKarp(s_, scratch_).run(false);
  }

 private:
  enum class Outcome { kAugmented, kNoPath, kCut };
  struct Leaf {
    int32_t row, tree;
  };

  // Where all columns with edges are matched, they are a cover themselves.
  Bitmap finish() {
    if (free_cols_ > 0) return seen_;
    for (int32_t j = 0; j < s_.m; ++j) {
      if (s_.row4col[j] >= 0) seen_.set(j);
    }
    return seen_;
  }

  // Keeps in free_rows_ the rows for which the question is still open.
  void search_alone() {
    SearchBudget budget(s_.edges(), num_free_);
    bool another = num_free_ > 0;
    while (another) {
      int32_t left = 0;
      int64_t work = 0;
      bool dear = false;
      for (int32_t k = 0; k < num_free_; ++k) {
        const int32_t i = free_rows_[k];
        if (dear || search(i, budget.bound(), &work) == Outcome::kCut) free_rows_[left++] = i;
        if (free_cols_ == 0) return;
        dear = dear || budget.too_dear(work, k + 1 - left);
      }
      num_free_ = left;
      another = budget.next_pass(work, left) && !dear;
    }
  }

  // Breadth first from the free row `root`, over at most `bound` edges.
  Outcome search(int32_t root, int64_t bound, int64_t* work) {
    int32_t begin = 0, end = 0, found = -1;
    int64_t looked = 0;
    queue_[end++] = root;
    while (begin < end && found < 0) {
      const int32_t i = queue_[begin];
      const int32_t last = s_.row_ptr[i + 1];
      int32_t k = s_.row_ptr[i];
      looked += last - k;
      if (looked > bound) break;
      ++begin;
      for (; k < last; ++k) {
        const int32_t j = s_.col_ind[k];
        if (seen_[j]) continue;
        seen_.set(j);
        parent_[j] = i;
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          found = j;
          break;
        }
        queue_[end++] = r;
      }
    }
    *work += std::min(looked, bound);
    if (found < 0 && begin == end) return Outcome::kNoPath;
    for (int32_t k = 1; k < end; ++k) seen_.clear(s_.col4row[queue_[k]]);
    if (found < 0) return Outcome::kCut;
    seen_.clear(found);
    s_.augment(found, parent_);
    --free_cols_;
    return Outcome::kAugmented;
  }

  // Phases of one search from all rows in free_rows_, until one of them finds no path. False if it
  // gave up before.
  bool search_together() {
    constexpr int kMaxPhases = 100;
    Bitmap gone = scratch_.take_bitmap(s_.m);
    gone.copy(seen_, s_.m);
    path_end_ = scratch_.take(num_free_);
    leaves_ = reinterpret_cast<Leaf*>(scratch_.take(2 * int64_t(s_.n)));
    for (int phase = 0; phase < kMaxPhases; ++phase) {
      if (!grow_forest()) return true;
      int32_t left = 0;
      for (int32_t t = 0; t < num_free_; ++t) {
        if (path_end_[t] < 0) {
          free_rows_[left++] = free_rows_[t];
        } else {
          s_.augment(path_end_[t], parent_);
          --free_cols_;
        }
      }
      num_free_ = left;
      seen_.copy(gone, s_.m);
      if (num_free_ == 0 || free_cols_ == 0) return true;
    }
    return false;
  }

  // Breadth first from all free rows at once. A tree stops to grow when it has met a free column,
  // which is then its path_end_. True if any has.
  bool grow_forest() {
    constexpr int32_t kAhead = 8;
    int32_t end = 0;
    for (; end < num_free_; ++end) {
      leaves_[end] = {free_rows_[end], end};
      path_end_[end] = -1;
    }
    bool found = false;
    for (int32_t begin = 0; begin < end; ++begin) {
      if (begin + 2 * kAhead < end) {
        __builtin_prefetch(s_.row_ptr + leaves_[begin + 2 * kAhead].row);
        __builtin_prefetch(s_.col_ind + s_.row_ptr[leaves_[begin + kAhead].row]);
      }
      const auto [i, tree] = leaves_[begin];
      if (path_end_[tree] >= 0) continue;
      for (int32_t k = s_.row_ptr[i], last = s_.row_ptr[i + 1]; k < last; ++k) {
        const int32_t j = s_.col_ind[k];
        if (seen_[j]) continue;
        seen_.set(j);
        parent_[j] = i;
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          path_end_[tree] = j;
          found = true;
          break;
        }
        leaves_[end++] = {r, tree};
      }
    }
    return found;
  }

  MatchingState& s_;
  Scratch& scratch_;
  int32_t* free_rows_;           // [n], free rows with edges that may have a path
  int32_t* queue_;               // [n]
  int32_t* parent_;              // [m], the row from which a column was reached
  Bitmap seen_;                  // [m], by the search that goes on, and what is out of the graph
  int32_t* path_end_ = nullptr;  // a tree's free column, or -1
  Leaf* leaves_ = nullptr;       // [n], the rows of a forest in the order in which it reached them
  int32_t num_free_ = 0;
  int32_t free_cols_ = 0;  // with edges
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_MATCHING_AUTO_H_
