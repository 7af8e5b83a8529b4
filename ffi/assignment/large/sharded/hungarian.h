// The Hungarian algorithms of Date and Nagi (2016) for sharded costs, as in their section 5, but
// with few, large exchanges.
//
// Each device finds the tight pairs of its own costs, and all devices gather a short list of tight
// columns per row. All devices then run the whole forward pass on these lists, level after level
// without communication. They communicate only if a row of the frontier has more tight columns than
// fit a list. They then find, for each column outside the trees, the least slack to such rows.
// Columns where it is zero join the current level. If the pass ends without a path, duals move by
// the least slack of all rows of the trees.
//
// After a dual update the classical variant finds tight pairs anew. The tree variant continues: the
// update does not change slacks between rows and columns outside the trees, so the lists of these
// rows stay valid. If the update makes a column tight, the column's parent is the row of the trees
// with the least slack to it.
#ifndef JAXMATCH_LARGE_SHARDED_HUNGARIAN_H_
#define JAXMATCH_LARGE_SHARDED_HUNGARIAN_H_

#include "assignment/large/hungarian/iterate.h"
#include "assignment/large/sharded/core.h"

namespace jaxmatch::assignment::large {

// Algorithm 1 of Date and Nagi (see assignment/large/hungarian/steps.h), first half: row minima.
template <class Team, class T>
JAXMATCH_DEVICE Next reduce_shard_rows(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.v + j, int64_t{0});
    store_relaxed(s.row4col + j, int32_t(d.p.has_col(j) ? kFree : kAbsent));
  });
  reset_reduction(team, d);  // ends with a barrier
  publish_prices(team, d.shard);
  find_least_of_all(team, d.shard, d.shard.s.v_real, PublishToReduction(d));
  return {kReduceCols, kRequestReduction};
}

// Algorithm 1, second half: column minima, after the row minima have been subtracted. A wide
// problem (more columns than rows) keeps its column duals at zero.
template <class Team, class T>
JAXMATCH_DEVICE Next reduce_shard_cols(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const int64_t isolated = team.sum(s.n, [&](int64_t i) {
    const int64_t least = d.p.has_row(i) ? d.reduction.least(d.reduction.first(i)) : 0;
    store_relaxed(s.col4row + i, int32_t(d.p.has_row(i) ? kFree : kAbsent));
    store_relaxed(s.u + i, least);
    return least >= kFar;
  });
  team.leader([&] {
    if (isolated > 0) s.control->status = kInfeasible;
    d.continuation->lists_hold = 0;
  });
  if (isolated > 0) return {kEnd};
  const bool wide = load_relaxed(&s.control->rows) < load_relaxed(&s.control->cols);
  reset_reduction(team, d);
  if (wide) return {kBeginTrees};
  const Shard<T>& shard = d.shard;
  team.each(shard.s.m, [&](int64_t j) { store_relaxed(shard.s.label + j, kFar); });
  team.sync();
  team.row_groups(shard.s.m, [&](int64_t j, int64_t first, int64_t step) {
    atomic_min(shard.s.label + j, least_of_column(shard, j, first, step));
  });
  team.sync();
  team.each(shard.s.m, [&](int64_t j) {
    d.reduction.store(d.reduction.first(shard.col_id(j)), load_relaxed(shard.s.label + j));
  });
  return {kLoadPrices, kRequestReduction};
}

template <class Team, class T>
JAXMATCH_DEVICE Next load_prices(Team& team, Sharded<T>& d) {
  team.each(d.p.s.m, [&](int64_t j) {
    const int64_t least = d.reduction.least(d.reduction.first(j));
    if (least < kFar) store_relaxed(d.p.s.v + j, least);
  });
  team.sync();
  return {kBeginTrees};
}

// Appends the tight columns in one word (32 neighbouring columns) of row i to the row's list, as
// far as they fit. The order of a list is irrelevant.
template <class T>
JAXMATCH_DEVICE void list_word(const Shard<T>& shard, int64_t i, int64_t word, uint32_t tight) {
  if (tight == 0 || !shard.has_row(i)) return;
  TightList& list = shard.lists[i];
  if (load_relaxed(&list.count) > TightList::kCapacity) return;
  for (int at = atomic_add(&list.count, bit_count(tight)); tight && at < TightList::kCapacity;
       ++at) {
    store_relaxed(list.col + at, int32_t(shard.col_id(word * kWordBits + trailing_zeros(tight))));
    tight &= tight - 1;
  }
}

// Algorithm 2. If there are free rows, their trees begin, and the lists of tight columns are
// renewed if they are outdated. Otherwise all rows are matched.
template <class Team, class T>
JAXMATCH_DEVICE Next begin_trees(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const int64_t count = check_optimality(team, d.p);
  const bool hold = load_relaxed(&d.continuation->lists_hold);
  team.leader([&] {
    s.control->free_rows = int32_t(count);
    s.control->ends = 0;
    d.continuation->level = 0;
    d.continuation->count = int32_t(count);
  });
  if (count > 0 && !hold) {
    const Shard<T>& shard = d.shard;
    team.each(shard.s.n, [&](int64_t i) { store_relaxed(&shard.lists[i].count, 0); });
    find_tight(team, shard, [](const Shard<T>& its, int64_t i, int64_t word, uint32_t tight) {
      list_word(its, i, word, tight);
    });
  }
  team.sync();
  team.leader([&] { d.continuation->lists_hold = 1; });
  if (count == 0) return {kCheckPrices};
  if (hold) return {kSearchTight};
  return {kMergeLists, kRequestLists};
}

// Merges the lists of all shards into one list per row, if all tight columns of the row fit.
template <class Team, class T>
JAXMATCH_DEVICE Next merge_lists(Team& team, Sharded<T>& d) {
  const bool by_rows = d.partition.by_rows;
  team.each(d.p.s.n, [&](int64_t i) {
    if (!d.p.has_row(i)) return;
    int32_t* const listed = d.listed + i * d.kListed;
    int64_t all = 0;
    const int64_t first = by_rows ? i / d.partition.each : 0;
    for (int64_t k = first; k <= (by_rows ? first : d.partition.devices - 1); ++k) {
      const TightList& list = d.gathered.lists[k * d.gathered.list_count + i];
      const int32_t count = load_relaxed(&list.count);
      JAXMATCH_UNROLL
      for (int a = 0; a < TightList::kCapacity; ++a) {
        const int32_t j = load_relaxed(list.col + a);
        if (a < count && all + a < TightList::kCapacity) store_relaxed(listed + all + a, j);
      }
      all += count;
    }
    const bool fits = all <= TightList::kCapacity;
    for (int64_t a = fits ? all : 0; a < d.kListed; ++a)
      store_relaxed(listed + a, fits ? -1 : d.kTooManyTight);
  });
  team.sync();
  return {kSearchTight};
}

// Algorithm 3, of both variants, along the listed tight columns of the frontier's rows. Returns
// whether some of these rows have more tight columns than fit into a list.
template <class Team, class T>
JAXMATCH_DEVICE bool expand_lists(Team& team, const Sharded<T>& d, int64_t level, int64_t count) {
  const LargeState& s = d.p.s;
  const int32_t* const frontier = s.frontier + (level & 1) * s.n;
  return team.sum(count * d.kListed, [&](int64_t k) {
    const int64_t i = load_relaxed(frontier + k / d.kListed);
    const int32_t j = load_relaxed(d.listed + i * d.kListed + k % d.kListed);
    if (j >= 0 && load_relaxed(s.on_path + j) == kInactive) {
      atomic_min(s.parent + j, uint64_t(place_of_row(i, j)));
    }
    return j == d.kTooManyTight;
  }) != 0;
}

// Algorithm 4 for many rows at once: the shard's new tree rows offer their slacks to columns
// outside the trees. With `unlisted`, only rows without a list make offers. Returns the number of
// rows that have not made their offers yet.
template <class Team, class T>
JAXMATCH_DEVICE int64_t offer_least(Team& team, const Sharded<T>& d, int64_t level, bool unlisted) {
  const LargeState& s = d.p.s;
  const auto offers = [&](int64_t i) {  // i is a row of the whole problem
    return load_relaxed(s.in_tree + i) == 1 &&
           !(unlisted && load_relaxed(d.listed + i * d.kListed) != d.kTooManyTight);
  };
  Shard<T> rows = d.shard;
  rows.s.frontier = s.frontier + (level & 1) * s.n;  // the old list is no longer needed
  rows.s.parent = d.offer + rows.col0;
  int32_t* const length = &s.control->frontier[level & 1];
  // The offers read the row duals as doubles.
  team.each(rows.s.n, [&](int64_t i) {
    store_relaxed(d.paid + rows.row_id(i), int64_t(bits_of(double(load_relaxed(rows.s.u + i)))));
  });
  const int64_t count = list_rows(team, rows.s.n, rows.s.frontier, length,
                                  [&](int64_t i) { return offers(rows.row_id(i)); });
  if (count > 0) {
    expand_tree(team, rows, 0, count,
                [&](int64_t i) { return real_of(uint64_t(d.paid[rows.row_id(i)])); });
  }
  team.leader([&] { store_relaxed(length, 0); });
  team.sync();
  return team.sum(s.n, [&](int64_t i) {
    if (offers(i)) store_relaxed(s.in_tree + i, 2);
    return load_relaxed(s.in_tree + i) == 1;
  });
}

// Runs the forward pass as far as the lists allow. Then augments (Algorithms 5 and 6), or finds the
// least slack outside the trees.
template <class Team, class T>
JAXMATCH_DEVICE Next search_tight(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  Control& c = *s.control;
  int64_t level = load_relaxed(&d.continuation->level),
          count = load_relaxed(&d.continuation->count);
  const int64_t start = level;
  const bool first = load_relaxed(&c.steps) == 0;
  bool has_unlisted = false;
  team.sync();
  for (; count > 0; ++level) {
    has_unlisted = expand_lists(team, d, level, count);
    if (has_unlisted) break;
    count = contract(team, d.p, level,
                     [&](int64_t j) { return load_relaxed(s.parent + j) != kNoParent; });
  }
  if (!has_unlisted && load_relaxed(&c.ends) != 0) {
    const int64_t paths = reverse_and_augment(team, d.p);
    team.leader([&] {
      c.steps += 1;
      c.dense_steps += d.core;
      c.rounds += int32_t(level - start);
      if (first) c.bid_rounds = int32_t(paths);  // size of the initial assignment
    });
    team.sync();
    return {kBeginTrees};
  }
  const bool offers = d.tree || has_unlisted;
  int64_t left = 0;
  team.leader([&] {
    c.frontier[0] = c.frontier[1] = 0;  // other lists use these lengths from here on
    store_relaxed(&c.reach, kFar);
  });
  reset_reduction(team, d);  // ends with a barrier
  if (offers) {
    left = offer_least(team, d, level, has_unlisted);
    team.each(d.shard.s.m, [&](int64_t j) {
      if (load_relaxed(d.shard.s.on_path + j) != kInactive) return;
      const int64_t at = d.shard.col_id(j);
      d.reduction.store(d.reduction.first(at), load_relaxed(s.label + at));
      d.reduction.store(d.reduction.second(at), int64_t(load_relaxed(d.offer + at)));
    });
  } else {
    const int64_t least = least_outside_classical(team, d.shard, s.frontier, &c.frontier[0]);
    team.leader([&] { d.reduction.store(0, least); });
  }
  team.leader([&] {
    c.rounds += int32_t(level - start);
    d.continuation->level = int32_t(level & 1);
    d.continuation->offers = offers;
    d.continuation->all = left == 0;
  });
  return {kMoveDuals, kRequestReduction};
}

// Reduces the offers of all devices. Each column gets its least offer, and the first row that makes
// it. Returns the least offer over all columns.
template <class Team, class T>
JAXMATCH_DEVICE int64_t take_offers(Team& team, const Sharded<T>& d) {
  const LargeState& s = d.p.s;
  team.leader([&] { store_relaxed(&s.control->reach, kFar); });
  team.sync();
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.on_path + j) != kInactive || !d.p.has_col(j)) return;
    int64_t least = kFar;
    uint64_t from = kNoParent;
    for (int64_t k = 0; k < d.partition.devices; ++k) {
      const int64_t label = d.reduction.gathered(d.reduction.first(j), k);
      const uint64_t place = uint64_t(d.reduction.gathered(d.reduction.second(j), k));
      if (label < least || (label == least && place < from)) {
        least = label;
        from = place;
      }
    }
    store_relaxed(s.label + j, least);
    store_relaxed(d.offer + j, from);
    atomic_min(&s.control->reach, least);
  });
  team.sync();
  return load_relaxed(&s.control->reach);
}

// Moves the duals (Algorithms 8 and 9) if all rows of the trees have made their offers, no offer is
// zero, and no path was found. The classical variant then restarts its pass. Otherwise completes
// the current level: the level gets the columns with offers of zero and the columns reached through
// lists. The tree variant does so after a dual update, too.
template <class Team, class T>
JAXMATCH_DEVICE Next move_sharded_duals(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  Control& c = *s.control;
  const bool ended = load_relaxed(&c.ends) != 0, all = load_relaxed(&d.continuation->all);
  const int64_t theta = load_relaxed(&d.continuation->offers) ? take_offers(team, d)
                                                              : lesser(d.reduction.least(0), kFar);
  const int64_t level = load_relaxed(&d.continuation->level);
  if (theta > 0 && all && !ended) {
    if (theta >= kFar) {
      team.leader([&] { c.status = kInfeasible; });
      return {kEnd};
    }
    const bool too_wide = move_duals(team, d.p, theta) > 0;
    team.leader([&] {
      c.pricings += 1;
      c.stale = 1;
      d.continuation->lists_hold = 0;
    });
    team.sync();
    if (too_wide) return {kRestart};
    if (!d.tree) return {kBeginTrees};
  }
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.on_path + j) == kInactive && load_relaxed(s.label + j) == 0) {
      atomic_min(s.parent + j, load_relaxed(d.offer + j));
    }
  });
  team.sync();
  const int64_t count = contract(
      team, d.p, level, [&](int64_t j) { return load_relaxed(s.parent + j) != kNoParent; });
  team.leader([&] {
    d.continuation->level = int32_t((level + 1) & 1);
    d.continuation->count = int32_t(count);
  });
  team.sync();
  return {kSearchTight};
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_HUNGARIAN_H_
