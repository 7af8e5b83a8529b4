// Selection of each row's candidate set.
//
// The core-oriented approach is that of Volgenant, Linear and semi-assignment problems: a core
// oriented approach, Computers and Operations Research 23 (1996).
#ifndef JAXMATCH_LARGE_CORE_SELECT_H_
#define JAXMATCH_LARGE_CORE_SELECT_H_

#include "assignment/large/rows.h"

namespace jaxmatch::assignment::large {

// Selects candidates for all rows, without rotating the classes.
template <class Team, class P, class Publish>
JAXMATCH_DEVICE void select_all_cores(Team& team, const P& p, const double* v, Publish publish) {
  select_cores<false>(team, p, v, p.s.n, [](int64_t k) { return k; }, 0, publish);
}

// The rotation of the classes for selection number `choice` of a solve.
JAXMATCH_DEVICE inline uint32_t rotation_of_choice(uint32_t choice) { return choice * 0x9E3779B1u; }

// Selects candidates for the listed rows.
template <class Team, class P, class Publish>
JAXMATCH_DEVICE void select_listed_cores(Team& team, const P& p, const double* v,
                                         const int32_t* list, int64_t count, uint32_t choice,
                                         Publish publish) {
  select_cores<true>(
      team, p, v, count, [list](int64_t k) { return int64_t(load_relaxed(list + k)); },
      rotation_of_choice(choice), publish);
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_SELECT_H_
