// The method "auto" on the CPU for one large graph and many threads.
#ifndef JAXMATCH_MATCHING_CPU_AUTO_PARALLEL_H_
#define JAXMATCH_MATCHING_CPU_AUTO_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "matching/cpu/budget.h"
#include "matching/cpu/hopcroft_karp.h"
#include "matching/cpu/parallel.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// The algorithm of AutoSearch (auto.h) on many threads. Separate searches run concurrently and
// never wait: a search skips columns that another search owns. A search that has skipped columns
// and found no path is repeated in the next pass. A joint search grows its forest level by level,
// with all threads on the same level.
class ParallelAutoSearch {
 public:
  // True if this class is faster than AutoSearch. With two threads, the cost of atomic claims uses
  // up the gain.
  static bool pays(const PartialMatching& s, const Spread& spread) {
    return spread.threads() >= 4 && s.edges() >= 1 << 18;
  }

  ParallelAutoSearch(PartialMatching& s, HostArena& scratch, const Spread& spread)
      : s_(s),
        scratch_(scratch),
        spread_(spread),
        free_rows_(s, scratch),
        after_(scratch.take<int32_t>(s.n)),
        parent_(scratch.take<int32_t>(s.m)),
        owner_(scratch.take<int32_t>(s.m, kNoOwner)) {}

  // Returns the columns that alternating paths from free rows reach.
  Bitmap run() {
    search_alone();
    if (!search_together()) return HopcroftKarp(s_, scratch_).run(false);
    Bitmap reached(s_.m, scratch_);
    for (int32_t j = 0; j < s_.m; ++j) {
      if (owner_[j] != kNoOwner) reached.set(j);
    }
    return reached;
  }

 private:
  // The owner of a column also owns the row matched to it. An owner is a separate search (the
  // number of its root), a tree of a joint search (the position of its root in free_rows_), or one
  // of these:
  static constexpr int32_t kNoOwner = -1;
  static constexpr int32_t kGone = -2;  // a column of a Hungarian tree, removed from the graph

  struct Leaf {
    int32_t row, tree;
  };

  // Makes `owner` the owner of column j if it has none. On success, all writes of the previous
  // owner are visible.
  bool acquire(int32_t j, int32_t owner) {
    int32_t expected = kNoOwner;
    return __atomic_compare_exchange_n(owner_ + j, &expected, owner, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
  }
  void release(int32_t j, int32_t to) { __atomic_store_n(owner_ + j, to, __ATOMIC_RELEASE); }

  void search_alone() {
    SearchBudget budget(s_.edges(), free_rows_.count());
    bool* settled = scratch_.take<bool>(s_.n);
    bool another = free_rows_.count() > 0;
    while (another) {
      Progress progress;
      std::fill_n(settled, free_rows_.count(), false);
      spread_(free_rows_.count(), kSearchNs, [&](int64_t first, int64_t last) {
        search_range(first, last, budget, settled, &progress);
      });
      s_.cardinality += free_rows_.keep([&](int32_t k) { return !settled[k]; });
      another = budget.next_pass(progress.work, free_rows_.count()) && !progress.expensive;
    }
  }

  // The progress of all threads together in a pass.
  struct Progress {
    std::atomic<int64_t> work{0}, settled{0};
    std::atomic<bool> expensive{false};
  };

  void search_range(int64_t first, int64_t last, const SearchBudget& budget, bool* settled,
                    Progress* progress) {
    constexpr auto kRelaxed = std::memory_order_relaxed;
    int64_t work = 0, done = 0;
    const auto report = [&] {
      const int64_t all_work = progress->work.fetch_add(work, kRelaxed) + work;
      const int64_t all_done = progress->settled.fetch_add(done, kRelaxed) + done;
      if (budget.too_expensive(all_work, all_done)) progress->expensive.store(true, kRelaxed);
      work = done = 0;
    };
    Poll poll;
    for (int64_t k = first; k < last && !progress->expensive.load(kRelaxed); ++k) {
      const int64_t before = work;
      settled[k] = search(free_rows_[k], budget.bound(), &work);
      poll.after(8 * (work - before));
      done += settled[k];
      if (work > budget.sample() / 64) report();
    }
    report();
  }

  // Searches breadth first from the free row `root`, over at most `bound` edges. Returns true if
  // the row needs no further search. The queue is a linked list through after_. No other search
  // writes after_ for the rows in the queue, because the owner of a column also owns the column's
  // row.
  bool search(int32_t root, int64_t bound, int64_t* work) {
    int32_t tail = root, found = -1;
    int64_t scanned = 0;
    bool complete = true;
    after_[root] = -1;
    for (int32_t i = root; i >= 0 && found < 0; i = after_[i]) {
      const int32_t last = s_.row_ptr[i + 1];
      int32_t k = s_.row_ptr[i];
      scanned += last - k;
      if (scanned > bound) {
        complete = false;
        break;
      }
      for (; k < last; ++k) {
        const int32_t j = s_.col_ind[k];
        const int32_t owner = load_relaxed(owner_ + j);
        if (owner == root || owner == kGone) continue;
        if (owner != kNoOwner || !acquire(j, root)) {
          complete = false;
          continue;
        }
        parent_[j] = i;
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          found = j;
          break;
        }
        after_[tail] = r;
        after_[r] = -1;
        tail = r;
      }
    }
    *work += std::min(scanned, bound);
    const int32_t to = found < 0 && complete ? kGone : kNoOwner;
    int32_t i = root;
    if (found < 0) {
      i = after_[root];  // the root is still free
    } else {
      s_.flip(found, parent_);
      complete = true;
    }
    // The rows from i on, in the order of the queue, are now matched to exactly the columns that
    // the search has acquired. As soon as the column of row i is released, another search may own
    // row i and write after_[i]. So after_[i] is read before the release.
    while (i >= 0) {
      const int32_t next = after_[i];
      release(s_.col4row[i], to);
      i = next;
    }
    return complete;
  }

  // Runs phases until one finds no path. A phase is one joint search from all rows in free_rows_.
  // Returns false if the limit on phases is reached first.
  bool search_together() {
    constexpr int kMaxPhases = 100;
    path_end_ = scratch_.take<int32_t>(free_rows_.count());
    leaves_ = scratch_.take<Leaf>(s_.n);
    next_leaves_ = scratch_.take<Leaf>(s_.n);
    for (int phase = 0; phase < kMaxPhases; ++phase) {
      if (!grow_forest()) return true;
      spread_(free_rows_.count(), kSearchNs, [&](int64_t first, int64_t last) {
        for (int64_t t = first; t < last; ++t) {
          if (path_end_[t] >= 0) s_.flip(path_end_[t], parent_);
        }
      });
      s_.cardinality += free_rows_.drop_matched();
      spread_(s_.m, 0.3, [&](int64_t first, int64_t last) {
        for (int64_t j = first; j < last; ++j) owner_[j] = owner_[j] >= 0 ? kNoOwner : owner_[j];
      });
    }
    return false;
  }

  // Searches breadth first from all free rows at once, level by level. A tree stops growing when it
  // reaches a free column, which is stored in path_end_. Returns true if any tree reaches a free
  // column.
  bool grow_forest() {
    int32_t width = free_rows_.count();
    for (int32_t t = 0; t < width; ++t) {
      leaves_[t] = {free_rows_[t], t};
      path_end_[t] = -1;
    }
    std::atomic<bool> found{false};
    while (width > 0) {
      std::atomic<int32_t> end{0};
      spread_(width, kLeafNs, [&](int64_t first, int64_t last) {
        if (grow(first, last, &end)) found.store(true, std::memory_order_relaxed);
      });
      std::swap(leaves_, next_leaves_);
      width = end;
    }
    return found;
  }

  // Expands leaves_[first .. last), a part of a level. Returns true if one of them reaches a free
  // column.
  bool grow(int64_t first, int64_t last, std::atomic<int32_t>* end) {
    constexpr int32_t kBuffer = 128;
    Leaf buffer[kBuffer];
    int32_t filled = 0;
    bool found = false;
    const auto flush = [&] {
      std::copy_n(buffer, filled, next_leaves_ + end->fetch_add(filled, std::memory_order_relaxed));
      filled = 0;
    };
    for (int64_t t = first; t < last; ++t) {
      const auto [i, tree] = leaves_[t];
      if (load_relaxed(path_end_ + tree) >= 0) continue;
      for (int32_t k = s_.row_ptr[i], row_end = s_.row_ptr[i + 1]; k < row_end; ++k) {
        const int32_t j = s_.col_ind[k];
        if (load_relaxed(owner_ + j) != kNoOwner || !acquire(j, tree)) continue;
        parent_[j] = i;
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          store_relaxed(path_end_ + tree, j);
          found = true;
          break;
        }
        buffer[filled++] = {r, tree};
        if (filled == kBuffer) flush();
      }
    }
    flush();
    return found;
  }

  static constexpr double kLeafNs = 20;

  PartialMatching& s_;
  HostArena& scratch_;
  const Spread& spread_;
  FreeRows free_rows_;           // rows that may have a path
  int32_t* after_;               // [n], linked lists: the row that follows each row in the queue of
                                 // the same search
  int32_t* parent_;              // [m], the row from which each column was reached
  int32_t* owner_;               // [m], the owner of each column
  int32_t* path_end_ = nullptr;  // the last free column that each tree has reached, or -1
  Leaf* leaves_ = nullptr;       // [n], the rows of the current level of the forest
  Leaf* next_leaves_ = nullptr;  // [n], the next level
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_AUTO_PARALLEL_H_
