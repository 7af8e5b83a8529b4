// Solves one large problem on a thread pool. There is one instance per element type.
#ifndef JAXMATCH_LARGE_CPU_SOLVE_H_
#define JAXMATCH_LARGE_CPU_SOLVE_H_

#include "assignment/large/cpu/team.h"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {

template <class T>
void solve_problem(PoolTeam& team, const LargeOperands& o, int64_t b, int64_t deadline) {
  auto p = o.problem<T>(b);
  if (!o.resumed) *p.s.control = Control{};
  p.s.control->deadline = deadline;
  orient(team, p);
  solve_large(team, p, o.method, o.budget);
  write_results(team, p, results_of(o.batch, b));
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_INSTANCE(T)                                                         \
  namespace jaxmatch::assignment::large {                                            \
  template void solve_problem<T>(PoolTeam&, const LargeOperands&, int64_t, int64_t); \
  }                                                                                  \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_LARGE_CPU_SOLVE_H_
