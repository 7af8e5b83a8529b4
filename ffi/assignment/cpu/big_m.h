// Big-M costs: numbers such as 1e9 or 1e30, far above all other costs, that users write for pairs
// to be avoided. The solver first forbids these pairs. If there is no solution without them, or if
// the duals do not prove that an optimal solution avoids them, it solves the problem again with
// these pairs allowed. This is a last resort, because duals of the size of big-M costs round the
// other costs away.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// Special values of `big_m`, which otherwise is the least binary exponent of big-M costs:
//   - kUnknownBigM: the costs have not been inspected yet;
//   - kNoBigM: there are no big-M costs;
//   - kNeedsBigM: there are big-M costs, but they must stay allowed.
constexpr int kUnknownBigM = -1, kNoBigM = -2, kNeedsBigM = -3;

// The biased exponent of x in its own format; -1 for zero.
template <class Elem>
int exponent_of(Elem x) {
  using F = Format<Elem>;
  typename F::Bits bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const auto magnitude = typename F::Bits(bits << 1) >> 1;
  return magnitude == 0 ? -1 : int(magnitude >> (F::kDigits - 1));
}
// The exponent of x with the bias of Elem's format; -1 for zero. x may exceed the range of Elem.
template <class Elem>
int exponent_of_real(double x) {
  using F = Format<Elem>;
  if (x == 0) return -1;
  const int of_real = ilogb(x);
  if (of_real > 1023) return 2047;  // infinite
  const int e = of_real - (F::kLowest + F::kDigits - 2);
  return e < 0 ? 0 : e > 2047 ? 2047 : e;
}

// True if x counts as a big-M cost. Always false if `big_m` has one of the special values.
template <class Elem>
bool is_big_m(double x, int big_m) {
  if constexpr (Format<Elem>::kInteger) return false;
  return big_m >= 0 && exponent_of_real<Elem>(x) >= big_m;
}

// The least exponent above the highest gap, or kNoBigM if there is no gap. A gap is a run of at
// least `width` exponents that no cost has.
inline int above_gap(const Exponents& found, int width) {
  int above = kNoBigM;
  for (int e = found.least(), next; e < 2048; e = next) {
    next = found.next(e);
    if (next < 2048 && next - e > width) above = next;
  }
  return above;
}

// `all`: the exponents of all finite costs. `wanted`: the exponents of costs that are negative
// after scaling, which a solution prefers.
struct CostExponents {
  Exponents all, wanted;

  void add(int e, bool is_wanted) {
    if (e < 0) return;
    all.add(e);
    if (is_wanted) wanted.add(e);
  }
  template <class S>
  void add_row(const S& s, int64_t i) {
    const auto* row = s.row(i);
    for (int64_t j = 0; j < s.cols; ++j) {
      const double x = widen(row[j]);
      if (__builtin_isfinite(x)) add(exponent_of(row[j]), x * double(s.scale) < 0);
    }
  }
};

// True if every row can take a column or be dropped at a cost whose exponent is below `big_m`.
template <class S>
bool all_rows_have_others(const S& s, int big_m) {
  using Elem = typename S::Elem;
  for (int64_t i = 0; i < s.rows; ++i) {
    const auto* row = s.row(i);
    int64_t j = 0;
    while (j < s.cols && exponent_of(row[j]) >= big_m) ++j;
    if (j < s.cols) continue;
    const auto leave = s.leave(i);
    if (!(leave < kInfinity<typename S::Acc>)) return false;
    if (exponent_of_real<Elem>(double(leave) / double(s.scale)) >= big_m) return false;
  }
  return true;
}

// Returns the least exponent of big-M costs, kNoBigM or kNeedsBigM. `most` and `least` are the
// greatest and the least magnitude of non-zero costs.
//
// Scans all rows only if the first row, the unmatched costs and `most` suggest big-M costs: either
// their exponents have a gap, or all of them are near the exponent of `most` and far above the
// exponent of `least`.
template <class S>
int find_big_m(const S& s, double most, double least) {
  using Elem = typename S::Elem;
  if (s.rows == 0 || !(most > 0)) return kNoBigM;
  // With a gap of this width, no sum of 16 * rows costs below the gap reaches the costs above it.
  // The factor 16 leaves room for duals, which may exceed the costs.
  const int width = 6 + ilogb(double(s.rows + 1));
  CostExponents found;
  const int greatest = exponent_of_real<Elem>(most);
  found.add(greatest, false);
  for (int64_t i = 0; s.unmatched && i < s.rows; ++i) {
    const double leave = double(s.unmatched[i]) / double(s.scale);
    if (s.unmatched[i] < kInfinity<typename S::Acc>)
      found.add(exponent_of_real<Elem>(leave), s.unmatched[i] < 0);
  }
  found.add_row(s, 0);
  if (found.all.least() + width >= greatest) found.add(exponent_of_real<Elem>(least), false);
  if (above_gap(found.all, width) == kNoBigM) return kNoBigM;
  for (int64_t i = 1; i < s.rows; ++i) found.add_row(s, i);
  const int big_m = above_gap(found.all, width);
  if (big_m == kNoBigM || found.wanted.most() >= big_m) return kNoBigM;
  return all_rows_have_others(s, big_m) ? big_m : kNeedsBigM;
}

// Replaces the big-M costs in s.gathered by the infinity that forbids a pair.
template <class S>
void forbid_big_m(S& s, int big_m, bool maximize) {
  using Elem = typename S::Elem;
  using Bits = typename Format<Elem>::Bits;
  constexpr Bits kSign = Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  const Bits bits = Format<Elem>::kInfinityBits | (maximize ? kSign : Bits(0));
  Elem forbidden;
  __builtin_memcpy(&forbidden, &bits, sizeof bits);
  for (int64_t k = 0; k < int64_t(s.rows) * s.cols; ++k) {
    if (exponent_of(s.gathered[k]) >= big_m) s.gathered[k] = forbidden;
  }
}

// True if the duals prove that no optimal solution uses a big-M cost. `most` is the greatest
// magnitude of the other costs.
template <class S>
bool are_duals_below(const S& s, int big_m, double most) {
  using Elem = typename S::Elem;
  using Bits = typename Format<Elem>::Bits;
  const Bits bits = Bits(Bits(big_m) << (Format<Elem>::kDigits - 1));
  Elem least;
  __builtin_memcpy(&least, &bits, sizeof bits);
  double most_dual = 0;
  for (int32_t j = 0; j < s.cols; ++j) most_dual = fmax(most_dual, fabs(double(s.v[j])));
  const double scale = fabs(double(s.scale));
  return 2 * most_dual + most * scale < double(widen(least)) * scale;
}
