// Passes over complete cost rows: candidate selection and row minima.
//
// select_cores<rotated>(team, problem, v, count, row_of, rotation, publish): selects the candidate
// sets of row_of(k) for all k below `count`, at prices v. Calls publish(row, least, horizon) with
// the least reduced cost of the row, and a lower bound on the reduced costs outside its candidate
// set. Either is kFar if there is none. It may publish a row twice, with equal values, and it may
// publish masked rows. With `rotated`, the column classes are rotated by a different number in each
// block of columns, see rotation_of().
//
// select_parts(team, problem, v, rows, count, rotation, parts): divides the columns into `parts`
// parts (a result of team.shares()) and selects candidates of rows[k] in each part. Stores the
// candidates of part q where the candidates of row k * parts + q usually are. Classes are rotated.
//
// find_least(team, problem, v, count, row_of, publish): finds the least reduced costs of rows.
// Calls publish(row, least). It may publish a row several times; the minimum of these values
// counts. It may publish masked rows.
#ifndef JAXMATCH_LARGE_ROWS_H_
#define JAXMATCH_LARGE_ROWS_H_

#if defined(__CUDACC__)
#include "assignment/large/rows_by_warp.h"
#else
#include "assignment/large/rows_by_thread.h"
#endif

#endif  // JAXMATCH_LARGE_ROWS_H_
