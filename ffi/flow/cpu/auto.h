// The method "auto" on the CPU: augmenting paths first, pseudoflow for what they leave.
#ifndef JAXMATCH_FLOW_CPU_AUTO_H_
#define JAXMATCH_FLOW_CPU_AUTO_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "flow/cpu/ibfs.h"
#include "flow/cpu/pseudoflow.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// Upper bound on the remaining augmenting paths: each carries at least one unit.
template <class T>
double most_paths(const Residual<T>& g) {
  double excess = 0, deficit = 0;
  for (int32_t v = 0; v < g.n; ++v) (g.excess[v] > 0 ? excess : deficit) += double(g.excess[v]);
  return std::min(excess, -deficit);
}

// Augmenting paths are far faster where paths are short or few (images, small cuts), and slower by
// any factor where they are long and many. They run as long as each path costs little; then
// pseudoflow solves the residual network.
//
// A path costs 35 arc scans in stereo images, 1000 to 100000 in random level graphs and Goldfarb
// and Grigoriadis' networks. Some networks are solved by few paths in about as many scans as there
// are arcs; none of these is deep. Where capacities are small, as in matchings, the remaining
// excess bounds the number of remaining paths, and a few expensive ones do not justify a restart.
// After 20 scans per arc the switch is made in any case.
template <class T>
void solve_auto(const Residual<T>& g, HostArena& memory) {
  constexpr int kQuarters = 80, kFewPaths = 4;
  constexpr int64_t kScansPerPath = 200, kDeep = 64;
  constexpr double kFewScans = 16;
  Ibfs<T> search(g, memory);
  search.start();
  for (int quarter = 1; quarter <= kQuarters; ++quarter) {
    if (search.run(quarter * g.num_arcs / 4)) return;
    if (search.scans() <= kScansPerPath * search.paths()) continue;
    if (quarter < kFewPaths && search.depth() <= kDeep) continue;
    const double scans_per_path = double(search.scans()) / double(search.paths() + 1);
    if (most_paths(g) * scans_per_path > kFewScans * double(g.num_arcs)) break;
  }
  Pseudoflow<T>(g, memory).run();
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_AUTO_H_
