// Layout of the state in its buffer, and the size of the buffer.
#ifndef JAXMATCH_LARGE_LAYOUT_H_
#define JAXMATCH_LARGE_LAYOUT_H_

#include "assignment/large/state.h"

namespace jaxmatch::assignment::large {

// State common to all methods. Canonical rows are the side with fewer unmasked entries. With masks
// this may be either side, and the layout has room for both cases.
struct Layout {
  int64_t rows, cols;
  DeviceArena parts;
  LargeState s{};

  Layout(char* base, Control* control, int64_t n, int64_t m, bool masked) : parts{base} {
    cols = n < m ? m : n;
    rows = masked ? cols : n < m ? n : m;
    s.control = control;
    s.n = n;
    s.m = m;
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
  }
};

inline void lay_out_core(Layout& l) {
  l.s.core_key = l.parts.take<ClassKeys>(l.rows * kColumnClasses);
  l.s.core_col = l.parts.take<ClassCols>(l.rows * kColumnClasses);
  l.s.horizon = l.parts.take<int64_t>(l.rows);
  l.s.bid = l.parts.take<uint64_t>(l.cols);
  l.s.label_by_position = l.parts.take<int64_t>(l.rows + l.cols);
  l.s.ancestor = l.parts.take<int32_t>(l.cols * kLevels);
  l.s.seen = l.parts.take<int64_t>(l.cols);
  l.s.base = l.parts.take<double>(l.rows);
  l.s.bid_col = l.parts.take<int32_t>(l.rows);
  l.s.listed = l.parts.take<int32_t>(l.rows);
}

inline void lay_out_classical(Layout& l) {
  l.s.tight = l.parts.take<uint32_t>(l.rows * ((l.cols + 31) / 32));
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_LAYOUT_H_
