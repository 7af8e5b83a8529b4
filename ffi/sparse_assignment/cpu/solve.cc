#include "sparse_assignment/cpu/solve.h"

#include "sparse_assignment/cpu/solver.h"

namespace jaxmatch::sparse_assignment {

void solve_sparse(const SparseProblem& p, double part) {
  switch (p.cost_dtype) {
    case Dtype::kBF16:
      return Solver<BFloat16>(p, part).solve();
    case Dtype::kF16:
      return Solver<Float16>(p, part).solve();
    case Dtype::kF32:
      return Solver<float>(p, part).solve();
    case Dtype::kF64:
      return Solver<double>(p, part).solve();
    case Dtype::kS32:
      return Solver<int32_t>(p, part).solve();
    case Dtype::kS64:
      return Solver<int64_t>(p, part).solve();
  }
}

void write_failure(const SparseProblem& p, Status status) {
  const double nan = std::nan("");
  for (int64_t i = 0; i < p.n; ++i) {
    p.col4row[i] = p.edge[i] = kNone;
    write_real(p.row_dual, p.result_dtype, i, nan);
  }
  for (int64_t j = 0; j < p.m; ++j) {
    p.row4col[j] = kNone;
    write_real(p.col_dual, p.result_dtype, j, nan);
  }
  write_real(p.value, p.result_dtype, 0, nan);
  write_real(p.gap, p.result_dtype, 0, nan);
  *p.status = status;
  p.counts[kBids] = p.counts[kRounds] = 0;
}

}  // namespace jaxmatch::sparse_assignment
