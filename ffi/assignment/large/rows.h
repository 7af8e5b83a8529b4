// Passes over complete cost rows: candidate selection and row minima.
//
// select_cores<rotated>(team, problem, v, count, row_of, rotation, publish): selects the candidate
// sets of row_of(k) for all k below `count`, at prices v. Calls publish(row, least, horizon) with
// the least reduced cost of the row, and a lower bound on the reduced costs outside its candidate
// set; kFar if there is none. It may call twice for a row, with equal values, and for masked rows.
// With `rotated`, each block of columns has its classes rotated by a different number.
//
// select_parts(team, problem, v, rows, count, rotation, parts): divides the columns into parts, as
// many as team.shares() allows, and selects of each the candidates of rows[k]: stores those of part
// q at k * parts + q, in place of those of a row. Classes are rotated.
//
// find_least(team, problem, v, count, row_of, publish): least reduced costs of rows. Calls
// publish(row, least), possibly several times for a row (the minimum counts), and possibly for
// masked rows.
#ifndef JAXMATCH_LARGE_ROWS_H_
#define JAXMATCH_LARGE_ROWS_H_

#if defined(__CUDACC__)
#include "assignment/large/rows_by_warp.h"
#else
#include "assignment/large/rows_by_thread.h"
#endif

#endif  // JAXMATCH_LARGE_ROWS_H_
