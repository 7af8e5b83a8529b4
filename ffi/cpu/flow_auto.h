// The method that chooses by itself.
#ifndef JAXMATCH_CPU_FLOW_AUTO_H_
#define JAXMATCH_CPU_FLOW_AUTO_H_

#include <cstdint>

#include "flow_augment.h"
#include "flow_memory.h"
#include "flow_pseudoflow.h"
#include "flow_residual.h"

namespace jaxmatch {

// Augmenting paths are far ahead where paths are short or few (images, small cuts), and behind by
// any factor where they are long and many. So they go on for as long as each costs little; then
// pseudoflow takes over what they have left: any flow is a network to begin with.
//
// A path costs 35 looks at arcs in stereo images, 1000 to 100000 in random level graphs and
// Goldfarb and Grigoriadis' networks. Some networks are solved by few paths in about as many looks
// as there are arcs; none of these is deep. After 20 looks for each arc it is over in any case.
template <class T>
void SolveAuto(const Residual<T>& g, FlowMemory& memory) {
  constexpr int kQuarters = 80, kFewPaths = 4;
  constexpr int64_t kLooksPerPath = 200, kDeep = 64;
  Augment<T> search(g, memory);
  search.start();
  for (int quarter = 1; quarter <= kQuarters; ++quarter) {
    if (search.run(quarter * g.num_arcs / 4)) return;
    if (search.looks() <= kLooksPerPath * search.paths()) continue;
    if (quarter >= kFewPaths || search.depth() > kDeep) break;
  }
  Pseudoflow<T>(g, memory).run();
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_FLOW_AUTO_H_
