// The method "auto" on the CPU: starts with augmenting paths (ibfs.h) and may finish with the
// pseudoflow algorithm (pseudoflow.h).
#ifndef JAXMATCH_FLOW_CPU_AUTO_H_
#define JAXMATCH_FLOW_CPU_AUTO_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "flow/cpu/ibfs.h"
#include "flow/cpu/pseudoflow.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// Upper bound on the number of augmenting paths still needed: each carries at least one unit.
template <class T>
double most_paths(const Residual<T>& g) {
  double excess = 0, deficit = 0;
  for (int32_t v = 0; v < g.n; ++v) (g.excess[v] > 0 ? excess : deficit) += double(g.excess[v]);
  return std::min(excess, -deficit);
}

// Augmenting paths are far faster than the pseudoflow algorithm if paths are short or few (images,
// small cuts), and arbitrarily slower if paths are long and many. So the search for augmenting
// paths runs only while each path takes few arc scans. Then the pseudoflow algorithm solves the
// rest, on the current residual network.
//
// A path costs 35 arc scans in stereo images, but 1000 to 100000 in random level graphs and in the
// networks of Goldfarb and Grigoriadis. Some networks need only a few expensive paths, about one
// scan per arc in all, and their search trees are never deep. So while trees are shallow, the
// search goes on until it has done about one scan per arc. If capacities are small, as in
// matchings, the remaining excess limits the number of remaining paths. The search also goes on if
// these few paths cost less than a change of algorithm. After 20 scans per arc, the pseudoflow
// algorithm takes over in any case.
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
