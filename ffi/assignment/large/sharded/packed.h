// Candidate sets of a few rows: selects them into the packed block of this device, and copies them
// from the gathered blocks.
#ifndef JAXMATCH_LARGE_SHARDED_PACKED_H_
#define JAXMATCH_LARGE_SHARDED_PACKED_H_

#include "assignment/large/core/select.h"
#include "assignment/large/sharded/state.h"

namespace jaxmatch::assignment::large {

// Limits on the division of a row's columns into parts: the most parts, and the fewest blocks in a
// part. A block of columns has one column of each class.
constexpr int64_t kMostParts = 16, kFewestBlocks = 2;

// Selects the candidate sets of the listed rows of `shard` into the packed block, which must have
// room for them. Candidates are first selected in each part of a row's columns, and stored in the
// memory of the shard's unpacked candidate sets. Then the parts are merged.
template <class Team, class T, class P>
JAXMATCH_DEVICE void select_packed(Team& team, const Sharded<T>& d, const P& shard,
                                   const int32_t* rows, int64_t count, int choice) {
  const PackedBlocks& packed = d.packed;
  team.leader([&] { *packed.count(packed.out) = count; });
  if (count == 0) return;
  const LargeState& s = shard.s;
  const int classes = shard.classes();
  const double* const v = team.prices(s);
  const int64_t most = lesser(lesser(s.n / count, s.m / (classes * kFewestBlocks)), kMostParts);
  const int64_t parts = team.shares((count + 1) / 2, most);
  select_parts(team, shard, v, rows, count, rotation_of_choice(uint32_t(choice)), parts);
  team.sync();
  team.rows(count, [&](Lanes g, int64_t k) {
    const int64_t i = shard.row_id(load_relaxed(rows + k));
    const PackedRow to = packed.row(packed.out, k, classes);
    double horizon = infinity();
    for (int c = g.lane; c < classes; c += g.kCount) {
      Candidates best;
      best.begin(i);
      for (int64_t part = 0; part < parts; ++part) {
        const int64_t at = (k * parts + part) * classes + c;
        const ClassCols cols = s.core_col[at];
        const ClassKeys keys = s.core_key[at];
        JAXMATCH_UNROLL
        for (int b = 0; b < kCandidatesPerClass; ++b) {
          const int32_t j = cols.x[b];
          if (j >= 0) best.insert(double(keys.x[b]) - v[j - shard.col_id(0)], j);
        }
      }
      best.write(shard, v, to.cols() + c, to.keys() + c);
      horizon = lesser(horizon, best.horizon());
    }
    const int64_t bound = g.min(whole_or_far(horizon));
    if (g.lane != 0) return;
    *to.horizon() = bound;
    *to.row() = i;
  });
}

// Copies the gathered candidate sets, and sets each row's horizon to the least of all devices. The
// caller must have set these horizons to kFar.
template <class Team, class T>
JAXMATCH_DEVICE void load_packed(Team& team, const Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const bool by_rows = d.partition.by_rows;
  const int classes = d.partition.classes();
  for (int64_t device = 0; device < d.partition.devices; ++device) {
    char* const block = d.packed.gathered(device);
    const int64_t first = by_rows ? 0 : device * classes;
    team.rows(*d.packed.count(block), [&](Lanes g, int64_t k) {
      const PackedRow from = d.packed.row(block, k, classes);
      const int64_t i = *from.row();
      for (int c = g.lane; c < classes; c += g.kCount) {
        s.core_key[i * kColumnClasses + first + c] = from.keys()[c];
        s.core_col[i * kColumnClasses + first + c] = from.cols()[c];
      }
      if (g.lane == 0) atomic_min(s.horizon + i, *from.horizon());
    });
  }
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_PACKED_H_
