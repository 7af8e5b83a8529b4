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
// A part of the work looks at as many arcs as there are, or at most kParts parts in all. A path
// costs 35 looks in stereo images and 1000 to 100000 in random level graphs and
// Goldfarb-Grigoriadis networks.
template <class T>
void SolveAuto(const Residual<T>& g, FlowMemory& memory) {
  constexpr int kParts = 20;
  constexpr int64_t kLooksPerPath = 200;
  Augment<T> search(g, memory);
  search.start();
  for (int part = 1; part <= kParts; ++part) {
    if (search.run(part * g.num_arcs)) return;
    if (search.looks() > kLooksPerPath * search.paths()) break;
  }
  Pseudoflow<T>(g, memory).run();
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_FLOW_AUTO_H_
