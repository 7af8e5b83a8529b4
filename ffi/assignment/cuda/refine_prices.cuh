// Price refinement (Goldberg 1997, section 4). After an auction, rows pay up to epsilon more than
// their cheapest choice costs. Lowering the duals of the cheaper columns makes nearly all pairs
// tight, so that few rows are left to searches.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_REFINE_PRICES_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_REFINE_PRICES_CUH_

#include "assignment/cuda/scan_costs.cuh"

namespace jaxmatch::assignment {

// Matches and drops rows as the auction did. Lists the rows that are now matched or dropped, and
// returns the length of the list.
template <class S>
__device__ int take_pairs(const S& s, Index* list) {
  const auto& g = s.group;
  const int* cols = s.f.template auction<int>(auction_pairs(s.f.b));
  if (g.thread == 0) s.control[kLeft] = 0;
  g.sync();
  for (int i = g.thread; i < s.rows; i += g.size) {
    const int j = cols[i];
    if (j == kNone) continue;
    s.col4row[i] = Index(j);
    if (j >= 0) s.row4col[j] = Index(i);
    list[atomicAdd(&s.control[kLeft], 1)] = Index(i);
  }
  g.sync();
  return s.control[kLeft];
}

template <class S>
__device__ void unmatch(const S& s, int i) {
  if (s.col4row[i] >= 0) s.row4col[s.col4row[i]] = kNone;
  s.col4row[i] = kNone;
}

// Called by one warp. Sets the dual of row i to what the row pays for its own column, or for
// staying unmatched. If another column j would be cheaper, lowers low[j], the dual of column j in
// the next round, until column j costs the row as much. Returns true if the row should give up its
// own column instead, because a cheaper choice has a fixed price: staying unmatched, or a free
// column whose dual must stay 0.
template <class S, class Word>
__device__ bool hold_row(const S& s, int i, Word* low) {
  using Key = typename S::Key;
  const int own = s.col4row[i];
  const Key pays = own == kDropped ? s.leave[i] : s.entry(i, own) - s.v[own];
  bool moves = own >= 0 && s.leave && s.leave[i] < pays;
  for_each_column(s, i, [&](int j, Key x) {
    if (!(x < pays)) return;
    if (s.cols_optional && s.row4col[j] == kNone && !(s.v[j] < 0)) {
      moves = true;
    } else {
      atomic_min(&low[j], ordered_bits(s.v[j] - (pays - x)));
    }
  });
  if (s.group.lane() == 0) {
    s.u[i] = pays;
    if (S::Arithmetic::kWatched && own >= 0 && !s.fits(pays)) s.control[kTooWideFlag] = 1;
  }
  return __any_sync(kAllLanes, moves);
}

// Lowers duals by label correction until the pairs of the auction are tight. In each round, all
// rows see the same duals. If the matching of the auction is not optimal, label correction would
// never end. So after kMostRounds rounds, the rows whose pairs may still not be tight become free.
template <class S>
__device__ void refine_prices(const S& s) {
  using Key = typename S::Key;
  using Word = decltype(ordered_bits(Key()));
  constexpr int kMostRounds = 24;
  const auto& g = s.group;
  Word* low = reinterpret_cast<Word*>(s.reach);
  Index *list = s.free_rows, *next = s.free_rows + s.rows;
  int count = take_pairs(s, list);
  for (int round = 0; round < kMostRounds && count > 0; ++round) {
    for (int j = g.thread; j < s.cols; j += g.size) low[j] = ordered_bits(s.v[j]);
    g.sync();
    if (g.thread == 0) s.control[kLeft] = 0;
    for (int k = g.warp(); k < count; k += g.warps()) {
      const bool moves = hold_row(s, list[k], low);
      if (g.lane() == 0) s.pred[list[k]] = moves;
    }
    g.sync();
    for (int k = g.thread; k < count; k += g.size) {
      if (s.pred[list[k]]) unmatch(s, list[k]);
    }
    g.sync();
    for (int j = g.thread; j < s.cols; j += g.size) {
      const Key lowered = from_ordered_bits(low[j]);
      if (!(lowered < s.v[j])) continue;
      s.v[j] = lowered;
      if (S::Arithmetic::kWatched && !s.fits_dual(lowered)) s.control[kTooWideFlag] = 1;
      if (s.row4col[j] != kNone) next[atomicAdd(&s.control[kLeft], 1)] = s.row4col[j];
    }
    g.sync();
    count = s.control[kLeft];
    Index* const swapped = list;
    list = next;
    next = swapped;
    g.sync();
  }
  for (int k = g.thread; k < count; k += g.size) unmatch(s, list[k]);
  g.sync();
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_REFINE_PRICES_CUH_
