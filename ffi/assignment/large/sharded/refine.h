// Price refinement for sharded costs, see assignment/large/auction/refine.h. A round takes two
// steps and an exchange of the prices of columns.
#ifndef JAXMATCH_LARGE_SHARDED_REFINE_H_
#define JAXMATCH_LARGE_SHARDED_REFINE_H_

#include "assignment/large/auction/refine.h"
#include "assignment/large/sharded/core.h"

namespace jaxmatch::assignment::large {

// The shard's rows that are marked in in_tree lower the prices of columns.
template <class Team, class T>
JAXMATCH_DEVICE Next relax_shard(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  Shard<T> shard = d.shard;
  shard.s.parent = s.parent + shard.col0;
  reset_reduction(team, d);
  team.each(shard.s.m,
            [&](int64_t j) { store_relaxed(shard.s.label + j, load_relaxed(shard.s.v + j)); });
  team.leader([&] { store_relaxed(s.control->frontier, 0); });
  team.sync();
  const int64_t count = list_repriced(team, d);
  if (count > 0) {
    const bool spares = has_spares(*shard.s.control);
    relax_rows(
        team, shard, shard.s.frontier, count, shard.s.label,
        [spares, s = d.p.s, col0 = shard.col0](const auto&, int64_t j) {
          return !spares || !is_left(s, col0 + j);
        },
        [](int64_t) { return 0.0; });
  }
  team.each(shard.s.m, [&](int64_t j) {
    const int64_t price = load_relaxed(shard.s.label + j);
    if (price < load_relaxed(shard.s.v + j)) {
      d.reduction.store(d.reduction.first(shard.col_id(j)), price);
    }
  });
  return {kTakeLabels, kRequestReduction};
}

// Sets each column price to the least one that any device has found, and marks the rows of columns
// whose price fell. In the last round frees these rows, because their pairs are still not tight.
template <class Team, class T>
JAXMATCH_DEVICE Next take_labels(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const bool last = load_relaxed(&d.continuation->turns) + 1 >= kMostRefineRounds;
  team.each(s.n, [&](int64_t i) { store_relaxed(s.in_tree + i, int32_t(kUnchanged)); });
  team.sync();
  const int64_t fallen = team.sum(s.m, [&](int64_t j) {
    const int64_t old = load_relaxed(s.v + j), now = d.reduction.least(d.reduction.first(j));
    if (now >= old) return false;
    store_relaxed(s.v + j, now);
    const int32_t i = load_relaxed(s.row4col + j);
    if (i < 0) return false;
    store_relaxed(s.base + i, load_relaxed(s.base + i) + double(old - now));
    store_relaxed(s.in_tree + i, int32_t(kLowered));
    if (!last) return true;
    store_relaxed(s.col4row + i, int32_t(kFree));
    store_relaxed(s.row4col + j, int32_t(kFree));
    return true;
  });
  team.leader([&] {
    d.continuation->turns += 1;
    s.control->rounds += 1;
  });
  team.sync();
  return {fallen > 0 && !last ? kRelax : kSelectCores};
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_REFINE_H_
