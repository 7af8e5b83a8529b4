// The method "push_relabel": M. Deveci, K. Kaya, B. Ucar and U. V. Catalyurek, A push-relabel-based
// maximum cardinality bipartite matching algorithm on GPUs, ICPP 2013. Functions are named after
// the paper's algorithms 3 to 9. One launch runs many rounds, with a grid barrier where the paper
// launches a new kernel. Pushes use neither locks nor atomic operations.
//
// Kept for comparison with the paper. The method "auto" is faster.
#ifndef JAXMATCH_MATCHING_CUDA_PAPERS_G_PR_CUH_
#define JAXMATCH_MATCHING_CUDA_PAPERS_G_PR_CUH_

#include "matching/cuda/finish.cuh"
#include "matching/cuda/start.cuh"

namespace jaxmatch::matching {

struct PushRelabelOptions {
  enum Variant : int { kFirst, kActive, kShrink } variant;
  bool fixed;  // true: relabel after k rounds; false: after k * (deepest level) rounds
  double k;

  static PushRelabelOptions of(Options& options) {
    constexpr Name<Variant> kVariants[] = {
        {"first", kFirst}, {"active", kActive}, {"shrink", kShrink}};
    return {options.named("variant", kVariants), options.named("relabel", kRelabels),
            options.real("k")};
  }
};

// The label psi of a vertex is a lower bound on the length of its alternating paths to free rows;
// mu is the mate. A column is active while it is no row's mate, unless it is retired: no path leads
// from it to a free row. A matched row stays matched and only changes its mate.
class PushRelabel {
 public:
  __device__ PushRelabel(MatchingGrid& grid, const MatchingState& s, PushRelabelOptions options)
      : grid_(grid),
        s_(s),
        c_(*s.control),
        g_(s.graph),
        options_(options),
        never_(s.graph.n + s.graph.m),
        psi_row_(s.height),
        psi_col_(s.tokens),
        mu_row_(s.col4row),
        mu_col_(s.row4col),
        is_active_(s.degree) {}

  __device__ void begin() {
    const bool listed = options_.variant != PushRelabelOptions::kFirst;
    grid_.each(g_.m, [&](int64_t v) {
      is_active_[v] = -1;
      if (listed && mu_col_[v] < 0) append_now(s_.found, &grid_.tally()->count, int32_t(v));
    });
    const int32_t active = grid_.barrier_reduce().count;
    // The paper's list A_p of columns (here s_.leaf) begins as a copy of its list A_c (here
    // s_.found).
    grid_.each(active, [&](int64_t k) { s_.leaf[k] = __ldcg(s_.found + k); });
    if (grid_.leader()) {
      c_.entries = active;
      // Round numbers: the current round, the next relabelling, the last round that matched a free
      // row.
      c_.levels = c_.tickets = c_.offers = 0;
    }
    grid_.barrier_reduce();
  }

  // Runs `rounds` rounds, or to the end if `rounds` is negative. Returns true at the end: no column
  // is active, or pushes make no progress.
  __device__ bool run(int64_t rounds) {
    for (; rounds != 0; --rounds) {
      const int32_t loop = __ldcg(&c_.levels);
      bool relabelled = false;
      if (loop >= __ldcg(&c_.tickets)) {
        const int32_t deepest = global_relabel();
        const double wait = options_.fixed ? options_.k : options_.k * deepest;
        if (grid_.leader()) {
          c_.tickets = loop + max(1, int32_t(fmin(wait, 1e9)));
          c_.turn = deepest;
          ++c_.phases;
        }
        relabelled = true;
      }
      const bool any = options_.variant == PushRelabelOptions::kFirst
                           ? push_all()
                           : push_active(loop, relabelled);
      const bool stuck = loop - __ldcg(&c_.offers) > kPatience + 16 * __ldcg(&c_.turn);
      grid_.barrier_reduce();  // all threads have read the control words
      if (grid_.leader()) ++c_.levels;
      if (!any || stuck) {
        fix_matching();
        return true;
      }
      grid_.barrier_reduce();
    }
    return false;
  }

  // Writes the vertex cover that a final search from the free rows finds. Returns false if this
  // search reaches a free column: the matching is then not maximum. That may happen, because races
  // between pushes can lose a pair.
  __device__ bool write_cover() {
    global_relabel();
    grid_.each(g_.m, [&](int64_t v) {
      if (__ldcg(mu_col_ + v) < 0 && __ldcg(psi_col_ + v) < never_) grid_.tally()->count = 1;
    });
    if (grid_.barrier_reduce().count != 0) return false;
    grid_.each(g_.n, [&](int64_t u) {
      s_.results.row_cover[u] = __ldcg(mu_row_ + u) >= 0 && __ldcg(psi_row_ + u) == never_;
    });
    grid_.each(g_.m, [&](int64_t v) { s_.results.col_cover[v] = __ldcg(psi_col_ + v) < never_; });
    return true;
  }

  // Removes mates from mu_col that are out of date: rows that have another mate by now.
  __device__ void fix_matching() {
    grid_.each(g_.m, [&](int64_t v) {
      const int32_t u = __ldcg(mu_col_ + v);
      if (u < 0 || __ldcg(mu_row_ + u) != v) __stcg(mu_col_ + v, kFreeVertex);
    });
    grid_.barrier_reduce();
  }

 private:
  static constexpr int32_t kRetired = -2;
  static constexpr int32_t kPatience = 4096;  // most rounds without a newly matched row
  static constexpr int32_t kLeastShrunk = 512;

  // Algorithm 4: sets exact labels by a search from all free rows. Returns the number of the
  // deepest level.
  __device__ int32_t global_relabel() {
    grid_.each(g_.n, [&](int64_t u) { psi_row_[u] = __ldcg(mu_row_ + u) == -1 ? 0 : never_; });
    grid_.each(g_.m, [&](int64_t v) { psi_col_[v] = never_; });
    grid_.barrier_reduce();
    for (int32_t level = 0;; level += 2) {
      bool added = false;
      grid_.each(g_.n, [&](int64_t u) {
        if (__ldcg(psi_row_ + u) != level) return;
        for (int32_t k = g_.row_ptr[u]; k < g_.row_ptr[u + 1]; ++k) {
          const int32_t v = g_.col_ind[k];
          if (__ldcg(psi_col_ + v) != never_) continue;
          __stcg(psi_col_ + v, level + 1);
          const int32_t mate = __ldcg(mu_col_ + v);
          if (mate < 0 || __ldcg(mu_row_ + mate) != v) continue;
          __stcg(psi_row_ + mate, level + 2);
          added = true;
        }
      });
      if (__any_sync(kAllLanes, added) && grid_.lane() == 0) grid_.tally()->count = 1;
      if (grid_.barrier_reduce().count == 0) return level + 2;
    }
  }

  __device__ bool is_active(int32_t v) const {
    const int32_t u = __ldcg(mu_col_ + v);
    return u == -1 || (u >= 0 && __ldcg(mu_row_ + u) != v);
  }

  // Pushes column v: matches it to the adjacent row with the smallest label, unless this row's mate
  // was active when the round began. Returns the mate that v has displaced, v if nothing was done,
  // or a negative number if v has displaced no column.
  __device__ int32_t push(int32_t v, int32_t loop) const {
    const int32_t own = __ldcg(psi_col_ + v);
    int32_t least = never_, u = -1;
    for (int32_t k = g_.col_ptr[v]; k < g_.col_ptr[v + 1]; ++k) {
      const int32_t row = g_.row_ind[k], psi = __ldcg(psi_row_ + row);
      if (psi < least) {
        least = psi;
        u = row;
        if (psi == own - 1) break;
      }
    }
    if (u < 0) {
      __stcg(mu_col_ + v, kRetired);
      return -1;
    }
    const int32_t before = __ldcg(mu_row_ + u);
    if (before >= 0 && loop >= 0 && __ldcg(is_active_ + before) == loop) return v;
    __stcg(mu_row_ + u, v);
    __stcg(mu_col_ + v, u);
    __stcg(psi_col_ + v, least + 1);
    __stcg(psi_row_ + u, least + 2);
    if (before < 0) c_.offers = __ldcg(&c_.levels);
    return before;
  }

  // Algorithm 6: one thread per column. Returns true if any column was active.
  __device__ bool push_all() {
    bool any = false;
    grid_.each(g_.m, [&](int64_t v) {
      if (!is_active(int32_t(v))) return;
      any = true;
      push(int32_t(v), -1);
    });
    if (__any_sync(kAllLanes, any) && grid_.lane() == 0) grid_.tally()->count = 1;
    return grid_.barrier_reduce().count != 0;
  }

  // Algorithms 7 to 9. Entry k of the list A_c (`current`) is a column that was pushed in the last
  // round, and entry k of A_p (`previous`) is the column that it displaced. If another push takes
  // away its row, the pushed column is active again.
  __device__ bool push_active(int32_t loop, bool relabelled) {
    const int32_t count = __ldcg(&c_.entries);
    int32_t *const current = s_.found, *const previous = s_.leaf;
    int32_t* const column = reinterpret_cast<int32_t*>(s_.target);  // active column of each entry
    int32_t* const place = column + s_.side;                        // entry of each active column
    const auto column_of = [&](int64_t k) {                         // active column of entry k
      const int32_t pushed = __ldcg(current + k);
      const int32_t displaced = __ldcg(previous + k);
      if (pushed >= 0 && is_active(pushed)) return pushed;
      return displaced >= 0 && is_active(displaced) ? displaced : -1;
    };
    // If several entries have the same column, the entry whose thread writes last keeps it.
    grid_.each(count, [&](int64_t k) {
      const int32_t v = column_of(k);
      __stcg(column + k, v);
      if (v >= 0) __stcg(place + v, int32_t(k));
    });
    grid_.barrier_reduce();
    const bool shrink =
        options_.variant == PushRelabelOptions::kShrink && relabelled && count >= kLeastShrunk;
    bool any = false;
    grid_.each(count, [&](int64_t k) {
      int32_t v = __ldcg(column + k);
      if (v >= 0 && __ldcg(place + v) != k) v = -1;
      if (v >= 0) {
        any = true;
        __stcg(is_active_ + v, loop);
      }
      if (!shrink) {
        __stcg(current + k, v);
      } else if (v >= 0) {
        append_now(current, &grid_.tally()->more, v);
      }
    });
    if (__any_sync(kAllLanes, any) && grid_.lane() == 0) grid_.tally()->count = 1;
    const Tally found = grid_.barrier_reduce();
    if (found.count == 0) return false;
    const int32_t left = shrink ? found.more : count;
    grid_.barrier_reduce();  // all threads have read c_.entries
    grid_.each(left, [&](int64_t k) {
      const int32_t v = __ldcg(current + k);
      __stcg(previous + k, v >= 0 ? push(v, loop) : -1);
    });
    if (grid_.leader()) c_.entries = left;
    grid_.barrier_reduce();
    return true;
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  MatchingControl& c_;
  const BipartiteCsr& g_;
  PushRelabelOptions options_;
  int32_t never_;
  int32_t *psi_row_, *psi_col_, *mu_row_, *mu_col_, *is_active_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_PAPERS_G_PR_CUH_
