// Stubs for the cost types that a build leaves out, see JAXMATCH_LARGE_COSTS in ffi/CMakeLists.txt.
#ifndef JAXMATCH_LARGE_CPU_LEFT_OUT_H_
#define JAXMATCH_LARGE_CPU_LEFT_OUT_H_

#include <stdexcept>

#include "assignment/large/cpu/team.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {

template <class T>
void solve_problem(PoolTeam&, const LargeOperands&, int64_t, int64_t) {
  throw std::logic_error("this build has no large problems of these costs");
}
template <class T>
void solve_shard(PoolTeam&, const ShardedOperands&) {
  throw std::logic_error("this build has no large problems of these costs");
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_LEFT_OUT(T)                                                         \
  namespace jaxmatch::assignment::large {                                            \
  template void solve_problem<T>(PoolTeam&, const LargeOperands&, int64_t, int64_t); \
  template void solve_shard<T>(PoolTeam&, const ShardedOperands&);                   \
  }

#endif  // JAXMATCH_LARGE_CPU_LEFT_OUT_H_
