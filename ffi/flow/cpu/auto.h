// The method that chooses by itself.
#ifndef JAXMATCH_FLOW_CPU_AUTO_H_
#define JAXMATCH_FLOW_CPU_AUTO_H_

#include <algorithm>
#include <cstdint>

#include "flow/cpu/arena.h"
#include "flow/cpu/ibfs.h"
#include "flow/cpu/pseudoflow.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// No more paths than this can be left: each carries one unit at least.
template <class T>
double most_paths(const Residual<T>& g) {
  double excess = 0, deficit = 0;
  for (int32_t v = 0; v < g.n; ++v) (g.excess[v] > 0 ? excess : deficit) += double(g.excess[v]);
  return std::min(excess, -deficit);
}

// Augmenting paths are far ahead where paths are short or few (images, small cuts), and behind by
// any factor where they are long and many. So they go on for as long as each costs little; then
// pseudoflow takes over what they have left: any flow is a network to begin with.
//
// A path costs 35 looks at arcs in stereo images, 1000 to 100000 in random level graphs and
// Goldfarb and Grigoriadis' networks. Some networks are solved by few paths in about as many looks
// as there are arcs; none of these is deep. Where capacities are small, as in matchings, what is
// left bounds the paths that are left, and a few dear ones are no reason to begin anew. After 20
// looks for each arc it is over in any case.
template <class T>
void solve_auto(const Residual<T>& g, FlowMemory& memory) {
  constexpr int kQuarters = 80, kFewPaths = 4;
  constexpr int64_t kLooksPerPath = 200, kDeep = 64;
  constexpr double kFewLooks = 16;
  Ibfs<T> search(g, memory);
  search.start();
  for (int quarter = 1; quarter <= kQuarters; ++quarter) {
    if (search.run(quarter * g.num_arcs / 4)) return;
    if (search.looks() <= kLooksPerPath * search.paths()) continue;
    if (quarter < kFewPaths && search.depth() <= kDeep) continue;
    const double looks_per_path = double(search.looks()) / double(search.paths() + 1);
    if (most_paths(g) * looks_per_path > kFewLooks * double(g.num_arcs)) break;
  }
  Pseudoflow<T>(g, memory).run();
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_AUTO_H_
