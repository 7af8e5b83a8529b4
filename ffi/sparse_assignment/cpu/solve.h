// Solves one sparse assignment problem. Both handlers share the compiled code of solve.cc.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_

#include "common/status.h"
#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

// Largest tolerated rounding error of a solution in 64-bit units, relative to the sum of the chosen
// costs. If the error may be larger, the problem is solved again in 128-bit units. kPart is the
// default, kPrecisePart is for calls with the attribute "precise", and kPartOfTier is for costs in
// tiers (see tiers.h).
constexpr double kPart = 0x1p-32, kPrecisePart = 0x1p-36, kPartOfTier = 0x1p-32;

void solve_sparse(const SparseProblem& p, double part);

// Writes `status`, which is not OPTIMAL, and results without pairs and with NaN duals.
void write_failure(const SparseProblem& p, Status status);

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_
