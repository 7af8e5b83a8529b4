// Rows held against all costs.
//
// select_cores<turned>(team, problem, v, count, row_of, turn, tell): the cores of row_of(k) for all
// k below `count`, at prices v. Calls tell(row, least, horizon), maybe twice alike, and maybe for
// masked rows: the least reduced cost of all, and the least of those that the core may lack; kFar
// if there is none. Where turned, the classes of each so many columns are turned by another number.
//
// find_least(team, problem, v, count, row_of, tell): their least reduced costs. Calls
// tell(row, least), maybe more than once, of which the least counts, and maybe for masked rows.
#ifndef JAXMATCH_LARGE_ROWS_H_
#define JAXMATCH_LARGE_ROWS_H_

#if defined(__CUDACC__)
#include "assignment/large/rows_by_warp.h"
#else
#include "assignment/large/rows_by_thread.h"
#endif

#endif  // JAXMATCH_LARGE_ROWS_H_
