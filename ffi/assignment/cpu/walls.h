// Costs far above all others, as people write them for pairs that nobody should choose: 1e9, 1e30.
// If one of them costs more than any solution without them can, they are forbidden as long as there
// is a solution without them. Otherwise they would set the scale of auctions, and duals of their
// size would round the other costs away.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

constexpr int kNoWalls = -1, kUnknownWalls = -2;

// The binary exponent of a magnitude, with the bias of its format; -1 for zero.
template <class Elem>
int exponent_of(Elem x) {
  using F = Format<Elem>;
  typename F::Bits bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const auto magnitude = typename F::Bits(bits << 1) >> 1;
  return magnitude == 0 ? -1 : int(magnitude >> (F::kDigits - 1));
}

// The same of a number that need not be of this format, with the exponents at its ends for those
// beyond.
template <class Elem>
int exponent_of_real(double x) {
  using F = Format<Elem>;
  const int e = ilogb(x) - (F::kLowest + F::kDigits - 2);
  return x == 0 ? -1 : e < 0 ? 0 : e > 2047 ? 2047 : e;
}

// A set of exponents.
struct Exponents {
  uint64_t word[32] = {};

  void add(int e) { word[e >> 6] |= uint64_t(1) << (e & 63); }
  // The greatest, or kNoWalls.
  int most() const {
    int w = 31;
    while (w > 0 && !word[w]) --w;
    return word[w] ? 64 * w + 63 - __builtin_clzll(word[w]) : kNoWalls;
  }
  // The least exponent above the highest gap of `width` exponents; kNoWalls if there is no gap.
  int above_gap(int width) const {
    int above = kNoWalls;
    for (int w = 31; w >= 0; --w) {
      for (uint64_t rest = word[w]; rest;) {
        const int e = 64 * w + 63 - __builtin_clzll(rest);
        if (above != kNoWalls && above - e > width) return above;
        above = e;
        rest ^= uint64_t(1) << (e & 63);
      }
    }
    return kNoWalls;
  }
};

// Adds the exponents of the finite costs in row i, and to `wanted` those of costs below zero.
template <class S>
void add_exponents(const S& s, int64_t i, Exponents& all, Exponents& wanted) {
  const auto* row = s.row(i);
  for (int64_t j = 0; j < s.cols; ++j) {
    const double x = widen(row[j]);
    const int e = exponent_of(row[j]);
    if (e < 0 || !__builtin_isfinite(x)) continue;
    all.add(e);
    if (x * double(s.scale) < 0) wanted.add(e);
  }
}

// The least exponent of walls, or kNoWalls. `most` is the greatest magnitude. The first row tells
// whether a look at all costs is worth it: it has costs of both kinds, or others than `most`,
// unless it has to pay for a wall.
template <class S>
int find_walls(const S& s, double most) {
  using Elem = typename S::Elem;
  if (s.rows == 0 || !(most > 0)) return kNoWalls;
  // Costs below the gap times 16 * rows are below it: for sums of costs, and for duals.
  const int width = 6 + ilogb(double(s.rows + 1));
  Exponents all, wanted;
  all.add(exponent_of_real<Elem>(most));
  add_exponents(s, 0, all, wanted);
  if (all.above_gap(width) == kNoWalls) return kNoWalls;
  for (int64_t i = 1; i < s.rows; ++i) add_exponents(s, i, all, wanted);
  for (int64_t i = 0; s.unmatched && i < s.rows; ++i) {
    if (!(s.unmatched[i] < kInfinity<typename S::Acc>)) continue;
    const int e = exponent_of_real<Elem>(double(s.unmatched[i]) / double(s.scale));
    if (e < 0) continue;
    all.add(e);
    wanted.add(e);
  }
  const int walls = all.above_gap(width);
  return wanted.most() < walls ? walls : kNoWalls;
}

// Forbids the walls among the gathered costs.
template <class S>
void forbid_walls(S& s, int walls, bool maximize) {
  using Elem = typename S::Elem;
  using Bits = typename Format<Elem>::Bits;
  const Bits bits =
      Format<Elem>::kInfinityBits | (maximize ? Bits(Bits(1) << (8 * sizeof(Bits) - 1)) : Bits(0));
  Elem forbidden;
  __builtin_memcpy(&forbidden, &bits, sizeof bits);
  for (int64_t k = 0; k < int64_t(s.rows) * s.cols; ++k) {
    if (exponent_of(s.gathered[k]) >= walls) s.gathered[k] = forbidden;
  }
}

// True if the duals are so small that no wall was worth its cost.
template <class S>
bool are_walls_too_high(const S& s, int walls, double most) {
  using Elem = typename S::Elem;
  using Bits = typename Format<Elem>::Bits;
  const Bits bits = Bits(Bits(walls) << (Format<Elem>::kDigits - 1));
  Elem least;
  __builtin_memcpy(&least, &bits, sizeof bits);
  double most_dual = 0;
  for (int32_t j = 0; j < s.cols; ++j) most_dual = fmax(most_dual, fabs(double(s.v[j])));
  const double scale = fabs(double(s.scale));
  return 2 * most_dual + most * scale < double(widen(least)) * scale;
}
