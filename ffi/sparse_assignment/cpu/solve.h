// Solves one sparse problem; compiled once for both handlers.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_

#include "common/status.h"
#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

// The part of the chosen costs that rounding to 64-bit units may cost, before a problem is solved
// in 128-bit ones: as a rule, and if the caller wants few roundings. In problems whose costs lie in
// tiers it is kPartOfTier.
constexpr double kPart = 0x1p-32, kPrecisePart = 0x1p-36, kPartOfTier = 0x1p-32;

void solve_sparse(const SparseProblem& p, double part);

// Writes a status other than OPTIMAL, and no pairs.
void write_failure(const SparseProblem& p, Status status);

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_
