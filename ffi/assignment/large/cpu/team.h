// The team that solves one large problem on the CPU: threads of XLA's pool, led by the caller.
#ifndef JAXMATCH_CPU_POOL_TEAM_H_
#define JAXMATCH_CPU_POOL_TEAM_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <queue>
#include <vector>

#include "assignment/large/core/search.h"
#include "common/compensated_sum.h"
#include "common/cpu/thread_pool.h"
#include "common/handler.h"

namespace jaxmatch::assignment::large {

// Every function returns when the work is done by all: there is nothing to wait for in sync().
class PoolTeam {
 public:
  explicit PoolTeam(ffi::ThreadPool* pool) : pool_(pool) {}
  static constexpr bool kSearchesApart = false;  // see assignment/large/sharded/solve.h

  void sync() {}
  static int64_t now() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  static Seats seats(const CoreState& s) { return {s, false}; }
  // Arcs are looked up in the cores.
  template <class P>
  static void gather_arcs(const P&, const Search&) {}
  // f(seat, step) for the arcs of row i that a search can use.
  template <class P, class F>
  static void for_each_arc(const P& p, const Search& how, Lanes g, int64_t i, F f) {
    for_each_core_arc(p, how, g, i, f);
  }
  static const double* prices(const CoreState& s) { return s.v_real; }
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
    spread(count, 3, [&](int64_t k) { f(k); });
  }
  // Labels of columns and their parents become the least that look(block, column, offer) finds in
  // all blocks of rows, or stay. A thread looks at neighbouring columns of one block after another.
  template <class Wanted, class Look>
  void lower_offers(int64_t cols, int64_t blocks, int64_t* label, uint64_t* parent, Wanted wanted,
                    Look look) {
    constexpr int64_t kWidth = 256;
    spread((cols + kWidth - 1) / kWidth, 1e4, [&](int64_t tile) {
      const int64_t first = tile * kWidth, last = std::min(cols, first + kWidth);
      Offer best[kWidth];
      int64_t at[kWidth], count = 0;
      for (int64_t j = first; j < last; ++j) {
        if (!wanted(j)) continue;
        best[count] = {slack_of_label(label[j]), parent[j]};
        at[count++] = j;
      }
      for (int64_t b = 0; b < blocks; ++b) {
        for (int64_t k = 0; k < count; ++k) look(b, at[k], best[k]);
      }
      for (int64_t k = 0; k < count; ++k) {
        label[at[k]] = whole_or_far(best[k].least);
        parent[at[k]] = best[k].place;
      }
    });
  }
  // f(column, first row, step): as many threads for each column as there are.
  template <class F>
  void row_groups(int64_t cols, F f) {
    spread(cols, 1e4, [&](int64_t j) { f(j, 0, 1); });
  }
  template <class F>
  void rows(int64_t count, F f) {
    spread(count, 300, [&](int64_t i) { f(Lanes{}, i); });
  }
  // How many threads look at one of so few rows.
  static int64_t shares(int64_t, int64_t) { return 1; }
  // f(row), which looks at so many costs.
  template <class F>
  void whole_rows(int64_t count, int64_t costs, F f) {
    spread(count, double(costs), f);
  }
  template <class F>
  int64_t sum(int64_t count, F f) {
    return spread_sum(count, 3, [&](int64_t k) { return int64_t(f(k)); });
  }
  template <class F>
  int64_t sum_rows(int64_t count, F f) {
    return spread_sum(count, 300, [&](int64_t i) { return int64_t(f(Lanes{}, i)); });
  }
  // The same for rows whose label is not negative.
  template <class Label, class F>
  int64_t sum_rows(int64_t count, Label label_of, F f) {
    return spread_sum(count, 300, [&](int64_t i) {
      const int64_t label = label_of(i);
      return label >= 0 ? int64_t(f(Lanes{}, i, label)) : 0;
    });
  }
  template <class Label, class F>
  void rows(int64_t count, Label label_of, F f) {
    spread(count, 300, [&](int64_t i) {
      const int64_t label = label_of(i);
      if (label >= 0) f(Lanes{}, i, label);
    });
  }
  template <class F>
  int64_t wide_sum(int64_t count, F f) {
    return sum(count, f);
  }
  // Work for each row whose label is not negative, until there is none left. A row's memo is what
  // it remembers from one look to the next: check() compares it with what look() finds, and says
  // what to work with. hear() is for each column when watch() tells news. Returns the number of
  // rounds: one.
  //
  // By one thread, in the order of labels (Dijkstra 1959): so that a row has its last label when it
  // is looked at. Label correcting by all threads took 76 rounds for a search among 3000 points.
  template <class Memo, class Init, class Watch, class Look, class Check, class Work, class Hear>
  int64_t settle(int64_t rows, int64_t cols, Init init, Watch watch, Look look, Check check,
                 Work work, Hear hear) {
    std::vector<Memo> memos(rows);
    for (int64_t i = 0; i < rows; ++i) {
      Memo memo = memos[i] = init(i);  // it has not been looked at yet
      const int64_t label = check(memo, look(memo));
      if (label >= 0) to_look_at_.push({label, int32_t(i)});
    }
    for (int64_t heard = kFar;;) {
      const int64_t news = watch();
      if (news != heard && (to_look_at_.empty() || to_look_at_.top().label >= news)) {
        heard = news;
        for (int64_t j = 0; j < cols; ++j) hear(j, heard);
      } else if (to_look_at_.empty()) {
        return 1;
      } else {
        const int64_t i = to_look_at_.top().row;
        to_look_at_.pop();
        const int64_t label = check(memos[i], look(memos[i]));
        if (label >= 0) work(Lanes{}, i, label);
      }
    }
  }
  // Lowers a number from which the label of row *owner follows, if that is one. Numbers have the
  // order of the labels.
  template <class X>
  void pass_on(X* at, X x, const int32_t* owner) {
    if (x >= *at) return;
    *at = x;
    if (*owner >= 0) to_look_at_.push({int64_t(x), *owner});
  }

  // The range of all costs, and the least of each column in v_real: a task takes some columns of
  // all rows, and reads them row by row.
  template <class P>
  void look_at_costs(P& p) {
    GridRange& all = p.s.control->range;
    all = GridRange{};
    constexpr int64_t kWidth = 8 * kMostAbreast;
    spread((p.s.m + kWidth - 1) / kWidth, double(p.s.n * kWidth), [&](int64_t tile) {
      const int64_t first = tile * kWidth, last = std::min(p.s.m, first + kWidth);
      std::fill(p.s.v_real + first, p.s.v_real + last, infinity());
      typename P::Range range;
      for (int64_t i = 0; i < p.s.n; ++i) {
        if (!p.has_row(i)) continue;
        vectorized([&]() JAXMATCH_VECTORIZED {
          int64_t j = first;
          for (; j + kMostAbreast <= last; j += kMostAbreast) {
            look_at_row(p, i, j, kMostAbreast, range);
          }
          if (j < last) look_at_row(p, i, j, int(last - j), range);
        });
      }
      const GridRange found = GridRange::of(range);
      raise_to(&all.most, found.most);
      lower_to(&all.lowest, found.lowest);
      lower_to(&all.invalid, found.invalid);
    });
  }

  double ordered_sum(int64_t count, const double* x) {
    FullRangeSum sum;
    for (int64_t k = 0; k < count; ++k) sum.add(x[k]);
    return sum.value();
  }

 private:
  // At neighbouring columns of a row.
  template <class P>
  JAXMATCH_INLINE static void look_at_row(const P& p, int64_t i, int64_t first, int count,
                                          typename P::Range& range) {
    const double sign = p.maximize ? -1 : 1;
    double* const least = p.s.v_real + first;
    typename P::Element cost[kMostAbreast];
    p.costs.look_along(i, first, count, cost);
    if (!p.col_mask) {
      typename P::Range mine = range;  // in registers
      for (int a = 0; a < count; ++a) p.look_at(mine, cost[a]);
      range = mine;
      for (int a = 0; a < count; ++a) least[a] = lesser(least[a], sign * widen(cost[a]));
      return;
    }
    for (int a = 0; a < count; ++a) {
      if (!p.has_col(first + a)) continue;
      p.look_at(range, cost[a]);
      least[a] = lesser(least[a], sign * widen(cost[a]));
    }
  }
  template <class F>
  void spread(int64_t count, double item_ns, const F& f) {
    for_each_range(*pool_, count, item_ns, [&](int64_t first, int64_t last) {
      for (int64_t k = first; k < last; ++k) f(k);
    });
  }
  template <class F>
  int64_t spread_sum(int64_t count, double item_ns, const F& f) {
    std::atomic<int64_t> total{0};
    for_each_range(*pool_, count, item_ns, [&](int64_t first, int64_t last) {
      int64_t part = 0;
      for (int64_t k = first; k < last; ++k) part += f(k);
      total.fetch_add(part, std::memory_order_relaxed);
    });
    return total.load();
  }

  struct Waiting {
    int64_t label;
    int32_t row;
    bool operator<(const Waiting& other) const { return label > other.label; }  // the least on top
  };

  ffi::ThreadPool* pool_;
  std::priority_queue<Waiting> to_look_at_;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_CPU_POOL_TEAM_H_
