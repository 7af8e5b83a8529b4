// Places the free mass: mass of rows that no column holds after the auction or the augmenting
// paths.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Gives the free mass of each row to its columns with room, those of least reduced cost first. Uses
// forbidden pairs only if no allowed column has room. Calls put(row, col, mass). `open`: scratch,
// [cols].
template <class C, class Put>
void place_rest(const C& c, const int64_t* demand, int64_t* held, int64_t* rest, int32_t* open,
                const Put& put) {
  Poll poll;
  int32_t count = 0;
  for (int32_t j = 0; j < c.cols; ++j) {
    if (held[j] < demand[j]) open[count++] = j;
  }
  for (int32_t i = 0; i < c.rows; ++i) {
    poll.after(1);
    while (rest[i] > 0) {
      poll.after(4 * count);
      int32_t best = 0;
      double least = __builtin_inf();
      for (int32_t k = 0; k < count; ++k) {
        const double x = c.key(i, open[k]) - c.v[open[k]];
        if (!(x < least)) continue;
        least = x;
        best = k;
      }
      const int32_t j = open[best];
      const int64_t room = demand[j] - held[j], mass = rest[i] < room ? rest[i] : room;
      rest[i] -= mass;
      held[j] += mass;
      if (held[j] == demand[j]) open[best] = open[--count];
      put(i, j, mass);
    }
  }
}
