// The team that solves one large problem on the CPU: threads of XLA's pool, led by the calling
// thread.
#ifndef JAXMATCH_LARGE_CPU_TEAM_H_
#define JAXMATCH_LARGE_CPU_TEAM_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <queue>
#include <vector>

#include "assignment/large/core/search.h"
#include "common/compensated_sum.h"
#include "common/cpu/poll.h"
#include "common/cpu/thread_pool.h"
#include "common/handler.h"

namespace jaxmatch::assignment::large {

// Every function returns after all threads have finished, so sync() has nothing to do.
class PoolTeam {
 public:
  explicit PoolTeam(ffi::ThreadPool* pool) : pool_(pool) {}
  static constexpr bool kSearchesInOwnKernel = false;  // see assignment/large/sharded/solve.h

  void sync() {}
  static int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  static LabelLayout label_layout(const LargeState& s) { return {s, false}; }
  // Arcs are read from the candidate sets, without a cache.
  template <class P>
  static void gather_arcs(const P&, const Search&) {}
  // Calls f(position, step) for the usable arcs of row i.
  template <class P, class F>
  static void for_each_arc(const P& p, const Search& search, Lanes g, int64_t i, F f) {
    for_each_core_arc(p, search, g, i, f);
  }
  static const double* prices(const LargeState& s) { return s.v_real; }
  template <class F>
  void leader(F f) {
    f();
  }
  template <class F>
  void leader_lanes(F f) {
    f(Lanes{});
  }

  template <class F>
  void each(int64_t count, F f) {
    parallel_for(count, 3, [&](int64_t k) { f(k); });
  }
  // Lowers each column's label to the least offer that scan(block, column, offer) finds in all
  // blocks of rows, and sets the parent accordingly. Each thread processes neighbouring columns,
  // one block after another.
  template <class Wanted, class Scan>
  void lower_offers(int64_t cols, int64_t blocks, int64_t* label, uint64_t* parent, Wanted wanted,
                    Scan scan) {
    constexpr int64_t kWidth = 256;
    parallel_for((cols + kWidth - 1) / kWidth, 1e4, [&](int64_t tile) {
      const int64_t first = tile * kWidth, last = std::min(cols, first + kWidth);
      Offer best[kWidth];
      int64_t at[kWidth], count = 0;
      for (int64_t j = first; j < last; ++j) {
        if (!wanted(j)) continue;
        best[count] = {slack_of_label(label[j]), parent[j]};
        at[count++] = j;
      }
      for (int64_t b = 0; b < blocks; ++b) {
        for (int64_t k = 0; k < count; ++k) scan(b, at[k], best[k]);
      }
      for (int64_t k = 0; k < count; ++k) {
        label[at[k]] = whole_or_far(best[k].least);
        parent[at[k]] = best[k].place;
      }
    });
  }
  // Calls f(column, first row, step); here one thread processes a column.
  template <class F>
  void row_groups(int64_t cols, F f) {
    parallel_for(cols, 1e4, [&](int64_t j) { f(j, 0, 1); });
  }
  template <class F>
  void rows(int64_t count, F f) {
    parallel_for(count, 300, [&](int64_t i) { f(Lanes{}, i); });
  }
  // The number of threads per row.
  static int64_t shares(int64_t, int64_t) { return 1; }
  // Calls f(row), which reads `costs` costs.
  template <class F>
  void whole_rows(int64_t count, int64_t costs, F f) {
    parallel_for(count, double(costs), f);
  }
  // Calls publish(lanes, k, find(lanes, k, first, last)), where find() scans columns `first` to
  // `last` of the k-th row. Here one thread processes a row.
  template <class Part, class Find, class Publish>
  void share_rows(int64_t count, int64_t cols, Find find, Publish publish) {
    whole_rows(count, cols,
               [&](int64_t k) { publish(Lanes{}, k, Part(find(Lanes{}, k, int64_t{0}, cols))); });
  }
  template <class F>
  int64_t sum(int64_t count, F f) {
    return parallel_sum(count, 3, [&](int64_t k) { return int64_t(f(k)); });
  }
  template <class F>
  int64_t sum_rows(int64_t count, F f) {
    return parallel_sum(count, 300, [&](int64_t i) { return int64_t(f(Lanes{}, i)); });
  }
  // Like sum_rows() above, but only for rows whose label is not negative.
  template <class Label, class F>
  int64_t sum_rows(int64_t count, Label label_of, F f) {
    return parallel_sum(count, 300, [&](int64_t i) {
      const int64_t label = label_of(i);
      return label >= 0 ? int64_t(f(Lanes{}, i, label)) : 0;
    });
  }
  template <class Label, class F>
  void rows(int64_t count, Label label_of, F f) {
    parallel_for(count, 300, [&](int64_t i) {
      const int64_t label = label_of(i);
      if (label >= 0) f(Lanes{}, i, label);
    });
  }
  template <class F>
  int64_t wide_sum(int64_t count, F f) {
    return sum(count, f);
  }
  // Runs label correcting to its fixed point. poll(memo) loads a row's label. check(memo, label)
  // returns the label to propagate, or -1. relax(lanes, row, label) relaxes the row's arcs. When
  // the value of watch() changes, on_change(column, value) is called for every column. Returns the
  // number of rounds, which is one.
  //
  // One thread processes rows in the order of labels (Dijkstra 1959), so that a row's label is
  // final when it is relaxed. Label correcting by all threads at once took 76 rounds for one search
  // on 3000 points.
  template <class Memo, class Init, class Watch, class Poll, class Check, class Relax,
            class OnChange>
  int64_t relax_to_fixed_point(int64_t rows, int64_t cols, Init init, Watch watch, Poll poll,
                               Check check, Relax relax, OnChange on_change) {
    std::vector<Memo> memos(rows);
    for (int64_t i = 0; i < rows; ++i) {
      Memo memo = memos[i] = init(i);  // check() changes only this copy
      const int64_t label = check(memo, poll(memo));
      if (label >= 0) queue_.push({label, int32_t(i)});
    }
    for (int64_t seen = kFar;;) {
      const int64_t current = watch();
      if (current != seen && (queue_.empty() || queue_.top().label >= current)) {
        seen = current;
        for (int64_t j = 0; j < cols; ++j) on_change(j, seen);
      } else if (queue_.empty()) {
        return 1;
      } else {
        poll_.after(200);
        const int64_t i = queue_.top().row;
        queue_.pop();
        const int64_t label = check(memos[i], poll(memos[i]));
        if (label >= 0) relax(Lanes{}, i, label);
      }
    }
  }
  // Lowers *at to x. If *owner is not negative, it is the row that *at belongs to, and is queued
  // with x as its priority. The values of x have the same order as the labels.
  template <class X>
  void propagate_min(X* at, X x, const int32_t* owner) {
    if (x >= *at) return;
    *at = x;
    if (*owner >= 0) queue_.push({int64_t(x), *owner});
  }

  // Computes the range of all costs, and the column minima in v_real. Each task reads some columns
  // of all rows, row by row.
  template <class P>
  void scan_costs(P& p) {
    QuantRange& all = p.s.control->range;
    all = QuantRange{};
    constexpr int64_t kWidth = 8 * kVectorColumns;
    parallel_for((p.s.m + kWidth - 1) / kWidth, double(p.s.n * kWidth), [&](int64_t tile) {
      const int64_t first = tile * kWidth, last = std::min(p.s.m, first + kWidth);
      std::fill(p.s.v_real + first, p.s.v_real + last, infinity());
      typename P::Range range;
      for (int64_t i = 0; i < p.s.n; ++i) {
        if (!p.has_row(i)) continue;
        vectorized([&]() JAXMATCH_VECTORIZED {
          int64_t j = first;
          for (; j + kVectorColumns <= last; j += kVectorColumns) {
            scan_row(p, i, j, kVectorColumns, range);
          }
          if (j < last) scan_row(p, i, j, int(last - j), range);
        });
      }
      const QuantRange found = QuantRange::of(range);
      atomic_max(&all.most, found.most);
      atomic_min(&all.lowest, found.lowest);
      atomic_min(&all.invalid, found.invalid);
    });
  }

  double ordered_sum(int64_t count, const double* x) {
    FullRangeSum sum;
    for (int64_t k = 0; k < count; ++k) sum.add(x[k]);
    return sum.value();
  }

 private:
  // Includes neighbouring columns of a row in the range and the column minima.
  template <class P>
  JAXMATCH_INLINE static void scan_row(const P& p, int64_t i, int64_t first, int count,
                                       typename P::Range& range) {
    const double sign = p.maximize ? -1 : 1;
    double* const least = p.s.v_real + first;
    typename P::Element cost[kVectorColumns];
    p.costs.load_row(i, first, count, cost);
    if (!p.col_mask) {
      typename P::Range mine = range;  // in registers
      for (int a = 0; a < count; ++a) p.include(mine, cost[a]);
      range = mine;
      for (int a = 0; a < count; ++a) least[a] = lesser(least[a], sign * widen(cost[a]));
      return;
    }
    for (int a = 0; a < count; ++a) {
      if (!p.has_col(first + a)) continue;
      p.include(range, cost[a]);
      least[a] = lesser(least[a], sign * widen(cost[a]));
    }
  }
  template <class F>
  void parallel_for(int64_t count, double item_ns, const F& f) {
    for_each_range(*pool_, count, item_ns, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) f(k);
    });
  }
  template <class F>
  int64_t parallel_sum(int64_t count, double item_ns, const F& f) {
    std::atomic<int64_t> total{0};
    for_each_range(*pool_, count, item_ns, [&](int64_t first, int64_t last) {
      int64_t part = 0;
      for (int64_t k = first; k < last; ++k) part += f(k);
      total.fetch_add(part, std::memory_order_relaxed);
    });
    return total.load();
  }

  struct QueueEntry {
    int64_t label;
    int32_t row;
    bool operator<(const QueueEntry& other) const { return label > other.label; }  // min-heap
  };

  ffi::ThreadPool* pool_;
  std::priority_queue<QueueEntry> queue_;
  Poll poll_;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CPU_TEAM_H_
