// The table of the operands and results of jaxmatch_nearest (see common/operands.h).
#ifndef JAXMATCH_NEAREST_OPERANDS_H_
#define JAXMATCH_NEAREST_OPERANDS_H_

#include "common/operands.h"
#include "nearest/problem.h"

namespace jaxmatch::nearest {

JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_operands(NearestProblem& p, Rows& rows) {
  const DtypeOf points = real_dtype(p.dtype), prices = real_dtype(p.price_dtype);
  rows.operand("x", p.x, points, p.n * p.dims);
  rows.operand("y", p.y, points, p.m * p.dims);
  rows.operand("price", p.price, prices, p.m);
  rows.operand("near", p.near, p.n * p.known);
  rows.result("col", p.col, p.n * p.k);
  rows.result("cost", p.cost, points, p.n * p.k);
  rows.result("reduced", p.reduced, prices, p.n);
  rows.result("known_cost", p.known_cost, points, p.n);
}

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_NEAREST_OPERANDS_H_
