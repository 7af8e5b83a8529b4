// Solves this device's shard on a thread pool. There is one instance per element type.
#ifndef JAXMATCH_LARGE_CPU_SHARDED_H_
#define JAXMATCH_LARGE_CPU_SHARDED_H_

#include "assignment/large/cpu/team.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {

template <class T>
void solve_shard(PoolTeam& team, const ShardedOperands& o) {
  run_shard(team, o.problem<T>(), results_of(o.whole, 0), o.rows, o.each(), o.me, o.cores_out,
            o.core_count(), o.lists_out);
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_INSTANCE(T)                                       \
  namespace jaxmatch::assignment::large {                          \
  template void solve_shard<T>(PoolTeam&, const ShardedOperands&); \
  }                                                                \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_LARGE_CPU_SHARDED_H_
