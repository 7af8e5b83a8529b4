// Passes over complete cost rows: candidate selection and row minima. The candidate set of a row
// has a few columns of each column class.
//
// select_cores<rotated>(team, problem, v, count, row_of, rotation, publish): selects the candidate
// sets of row_of(k) for all k below `count`, at prices v. Calls publish(row, least, horizon) with
// the least reduced cost of the row, and a lower bound on the reduced costs outside its candidate
// set. kFar stands for "no such column". A row may be published twice, with equal values, and
// masked rows may be published. With `rotated`, the column classes are rotated by a different
// number in each block of columns, see rotation_of().
//
// select_parts(team, problem, v, rows, count, rotation, parts): divides the columns into `parts`
// parts (a result of team.shares()) and selects candidates of rows[k] in each part. Stores the
// candidates of rows[k] in part q at the place for row k * parts + q. Classes are rotated.
//
// find_least(team, problem, v, count, row_of, publish): finds the least reduced costs of rows.
// Calls publish(row, least). A row may be published several times; the minimum of the values
// counts. Masked rows may be published.
#ifndef JAXMATCH_LARGE_ROWS_H_
#define JAXMATCH_LARGE_ROWS_H_

#if defined(__CUDACC__)
#include "assignment/large/rows_by_warp.h"
#else
#include "assignment/large/rows_by_thread.h"
#endif

#endif  // JAXMATCH_LARGE_ROWS_H_
