// How the buffer of a state is divided, and how large it has to be. The same sizes stand in
// jaxmatch/_native/_large.py.
#ifndef JAXMATCH_LARGE_CORE_LAYOUT_H_
#define JAXMATCH_LARGE_CORE_LAYOUT_H_

#include "core_state.h"

namespace jaxmatch {

// With masks either side may turn out to be the shorter one.
inline CoreState lay_out_core(char* base, Control* control, int64_t n, int64_t m, bool masked,
                              int64_t* bytes) {
  const int64_t cols = n < m ? m : n, rows = masked ? cols : n < m ? n : m;
  Parts parts{base};
  CoreState s{};
  s.control = control;
  s.v = parts.take<int64_t>(cols);
  s.u = parts.take<int64_t>(rows);
  s.v_real = parts.take<double>(cols);
  s.col4row = parts.take<int32_t>(rows);
  s.row4col = parts.take<int32_t>(cols);
  s.core_key = parts.take<ClassKeys>(rows * kClasses);
  s.core_slack = parts.take<ClassKeys>(rows * kClasses);
  s.core_col = parts.take<ClassCols>(rows * kClasses);
  s.label = parts.take<int64_t>(cols);
  s.parent = parts.take<uint64_t>(cols);
  s.bid = parts.take<uint64_t>(cols);
  s.nearest = parts.take<int64_t>(rows);
  s.end = parts.take<int32_t>(rows);
  s.ancestor = parts.take<int32_t>(cols * kLevels);
  s.on_path = parts.take<int32_t>(cols);
  s.n = n;
  s.m = m;
  *bytes = parts.used;
  return s;
}

// Likewise for the Hungarian methods.
inline CoreState lay_out_hungarian(char* base, Control* control, int64_t n, int64_t m, bool masked,
                                   bool tree, int64_t* bytes) {
  const int64_t cols = n < m ? m : n, rows = masked ? cols : n < m ? n : m;
  Parts parts{base};
  CoreState s{};
  s.control = control;
  s.v = parts.take<int64_t>(cols);
  s.u = parts.take<int64_t>(rows);
  s.v_real = parts.take<double>(cols);
  s.col4row = parts.take<int32_t>(rows);
  s.row4col = parts.take<int32_t>(cols);
  s.label = parts.take<int64_t>(cols);
  s.parent = parts.take<uint64_t>(cols);
  s.nearest = parts.take<int64_t>(rows);
  s.end = parts.take<int32_t>(rows);
  s.on_path = parts.take<int32_t>(cols);
  s.in_tree = parts.take<int32_t>(rows);
  s.frontier = parts.take<int32_t>(rows * 2);
  s.zeros = parts.take<uint32_t>(tree ? 0 : rows * ((cols + 31) / 32));
  s.n = n;
  s.m = m;
  *bytes = parts.used;
  return s;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_CORE_LAYOUT_H_
