// Quantisation: expresses capacities of any type as whole numbers of a unit. An upper bound on
// every flow decides the unit and the integer width.
//
// For integers the unit is 1. For floats it is the smallest power of two for which the capacities
// out of the source, or those into the sink, sum to at most 2^60 units. It may be a greater power
// of two if that divides all capacities. Capacities are rounded down to whole units.
//
// If capacities at both terminals are far above the maximum flow (large numbers that stand for "no
// limit"), this unit is too coarse for floats. Sums of integers may overflow in this case; if so,
// integers too are rounded to a unit above 1. A solve in such a coarse unit still finds a cut whose
// capacity is far below the bound. The next solve clips capacities at the capacity of this cut,
// which allows a finer unit. FixedPoint::is_fine tells whether another solve is needed.
#ifndef JAXMATCH_FLOW_CUDA_FIXED_POINT_CUH_
#define JAXMATCH_FLOW_CUDA_FIXED_POINT_CUH_

#include "flow/cuda/state.cuh"

namespace jaxmatch::flow {

constexpr int64_t kMostUnits = int64_t(1) << 61;  // saturation value of all sums
constexpr int kBoundBits = 60;
enum CapacityGroup : int { kAtSource, kAtSink, kOfAll };

template <class C>
constexpr bool kIsFloat = std::is_floating_point_v<C>;

__device__ inline double infinity() { return __longlong_as_double(0x7ff0000000000000); }
template <class C>
__device__ inline bool is_infinite(C c) {
  if constexpr (kIsFloat<C>) return double(c) == infinity();
  return false;
}

// Converts a non-negative capacity to units, rounded down.
template <class C>
__device__ inline int64_t units_of(C c, int exponent) {
  if constexpr (kIsFloat<C>) {
    const double x = floor(scalbn(double(c), -exponent));
    return x < double(kMostUnits) ? int64_t(x) : kMostUnits;
  } else {
    return int64_t(c) >> exponent;
  }
}

__device__ inline int bits_of(uint64_t x) { return x == 0 ? 0 : 64 - __clzll((long long)(x)); }

// Exponent of the lowest set bit of x > 0.
__device__ inline int lowest_bit(double x) {
  const int64_t bits = __double_as_longlong(x);
  const int exponent = int(bits >> 52 & 2047);
  const int64_t fraction = bits & ((int64_t(1) << 52) - 1);
  const int64_t significand = exponent > 0 ? fraction | int64_t(1) << 52 : fraction;
  const int zeros = bits_of(uint64_t(significand & -significand)) - 1;
  return (exponent > 0 ? exponent : 1) - 1075 + zeros;
}

// Chooses the unit and the bound of one problem, whose network must be valid.
template <class C>
class FixedPoint {
 public:
  __device__ FixedPoint(FlowGrid& grid, const FlowState& s)
      : grid_(grid),
        s_(s),
        c_(*s.control),
        g_(s.network),
        capacity_(static_cast<const C*>(s.capacity)) {}

  // True if no capacity is negative or NaN.
  __device__ bool are_valid() {
    bool bad = false;
    grid_.each(g_.edges, [&](int64_t k) { bad |= !(capacity_[k] >= C(0)); });
    count_all(&grid_.tally()->found, bad);
    return grid_.barrier_reduce().found == 0;
  }

  // Stores the unit, the bound, the integer width and the root of the preflow in the control words.
  // The root is the sink, unless the capacities into the sink exceed those out of the source by
  // more than a quarter. A preflow from the sink has two advantages: its last search also finds the
  // minimum cut nearest to the source, and in long networks it took half as many rounds.
  __device__ void choose(const FlowTuning& tuning) {
    if constexpr (kIsFloat<C>) {
      choose_unit();
    } else {
      choose_unit_of_integers();
    }
    const int exponent = __ldcg(&c_.exponent);
    const bool unbounded = __ldcg(&c_.unbounded) != 0;
    each_group(unbounded, [&](int group, bool exists, C c) {
      int64_t x = exists ? units_of(c, exponent) : 0;
      if (group == kOfAll && is_infinite(c)) x = 0;
      const int64_t high = warp_sum(x >> 32), low = warp_sum(x & 0xffffffff);
      if (grid_.lane() == 0 && (high | low) != 0) {
        add_atomically(c_.high + group, high);
        add_atomically(c_.low + group, low);
      }
    });
    grid_.barrier_reduce();
    if (grid_.leader()) {
      const int64_t out = total(kAtSource), in = total(kAtSink);
      c_.bound = unbounded ? total(kOfAll) + 1 : min(in, out);
      if (kIsFloat<C> && c_.known > 0) {
        c_.bound = min(c_.bound, units_of(c_.known, exponent) + 1);
      }
      if (kIsFloat<C> && scalbn(double(c_.bound), exponent + c_.finest - kOffset) >= kMostExact) {
        c_.rounded = 1;
      }
      bool reversed = tuning.direction == 0 ? in - in / 5 <= out : tuning.direction == 2;
      reversed =
          reversed ? in < kMostUnits : out >= kMostUnits;  // the flow out of the root must fit
      if (unbounded) reversed = __ldcg(c_.infinite + kAtSink) <= __ldcg(c_.infinite + kAtSource);
      c_.reversed = reversed;
      c_.narrow = !unbounded && !tuning.wide && c_.bound < (int64_t(1) << 30) - 1 &&
                  (reversed ? in : out) < (int64_t(1) << 31) - 1;
    }
    grid_.barrier_reduce();
  }

  // The capacity of an arc in units: the sum over its edges, clipped at bound + 1. So the sum does
  // not overflow. A clipped arc is never full, because no flow exceeds the bound. Arcs into the
  // source and out of the sink get 0, because a maximum flow does not need them.
  __device__ int64_t arc_units(int32_t arc, int exponent, int64_t bound) const {
    if (g_.arc_head[arc] == *s_.source || s_.tail(arc) == *s_.sink) return 0;
    int64_t sum = 0;
    for (int32_t k = g_.edge_ptr[arc], last = g_.edge_ptr[arc + 1]; k < last; ++k) {
      const int64_t units = min(units_of(capacity_[g_.arc_edge[k]], exponent), bound + 1);
      sum = min(sum + units, bound + 1);
    }
    return sum;
  }

  // `cut` is the capacity of the minimum cut that was found. Returns true if no further solve is
  // needed. For integers the unit must be 1. For floats the bound must be at most 2^9 times `cut`,
  // or 2^20 times if nothing is rounded. Floats also need no further solve if `cut` is more than
  // half the capacity of the previous solve's cut: another solve could make the unit finer by one
  // bit at most.
  __device__ bool is_fine(double cut) const {
    const int exponent = __ldcg(&c_.exponent);
    const double known = __ldcg(&c_.known);
    if (!kIsFloat<C>) return exponent == 0;
    if (cut == 0 || !(cut < infinity() / 2) || (known > 0 && cut > known / 2)) return true;
    const double most = cut * (__ldcg(&c_.rounded) != 0 ? 0x1p9 : 0x1p20);
    return scalbn(double(__ldcg(&c_.bound)), exponent) <= most;
  }

 private:
  static constexpr int kOffset = 4096;  // makes stored exponents positive, so that 0 can mean none
  // Whole numbers below this are exact in C.
  static constexpr double kMostExact = sizeof(C) == 4 ? 0x1p24 : 0x1p53;
  static constexpr int kRoughBits = 30;

  // Calls f(group, exists, capacity) for the edges out of the source, for the edges into the sink,
  // and for all edges if `all`. All lanes of a warp must call each_group(). They call f together,
  // and lanes without an edge pass exists = false.
  template <class F>
  __device__ void each_group(bool all, F f) const {
    for (int group = kAtSource; group <= kAtSink; ++group) {
      const int32_t node = group == kAtSource ? *s_.source : *s_.sink;
      const int32_t first = g_.arc_ptr[node], last = g_.arc_ptr[node + 1];
      for (int64_t at = int64_t(first) + grid_.thread() - grid_.lane(); at < last;
           at += grid_.threads()) {
        const int64_t own = at + grid_.lane();
        int32_t edge = 0, end = 0;
        if (own < last) {
          const int32_t arc = group == kAtSource ? int32_t(own) : g_.reverse_arc[own];
          edge = g_.edge_ptr[arc];
          end = g_.edge_ptr[arc + 1];
        }
        for (; __any_sync(kAllLanes, edge < end); ++edge) {
          f(group, edge < end, edge < end ? clipped(capacity_[g_.arc_edge[edge]]) : C(0));
        }
      }
    }
    if (!all) return;
    const int32_t count = g_.edge_ptr[g_.arcs];  // without self-loops
    for (int64_t at = grid_.thread() - grid_.lane(); at < count; at += grid_.threads()) {
      const int64_t own = at + grid_.lane();
      f(kOfAll, own < count, own < count ? clipped(capacity_[g_.arc_edge[own]]) : C(0));
    }
  }
  __device__ C clipped(C c) const {
    const double known = __ldcg(&c_.known);
    return known > 0 && double(c) > known ? C(known) : c;
  }
  __device__ int64_t total(int group) const {
    const uint64_t low = uint64_t(__ldcg(c_.low + group));
    const int64_t high = __ldcg(c_.high + group) + int64_t(low >> 32);
    return high >= kMostUnits >> 32 ? kMostUnits : high << 32 | int64_t(low & 0xffffffff);
  }

  // The unit is 1 if the capacities at one of the terminals sum to less than 2^61, or if an earlier
  // solve has found a cut.
  __device__ void choose_unit_of_integers() {
    each_group(false, [&](int group, bool, C c) {
      const int64_t high = warp_sum(int64_t(c) >> 32), low = warp_sum(int64_t(c) & 0xffffffff);
      if (grid_.lane() == 0 && (high | low) != 0) {
        add_atomically(c_.high + group, high);
        add_atomically(c_.low + group, low);
      }
    });
    grid_.barrier_reduce();
    if (grid_.leader()) {
      const auto bits = [&](int group) {
        return 32 + bits_of(uint64_t(__ldcg(c_.high + group)) +
                            (uint64_t(__ldcg(c_.low + group)) >> 32));
      };
      const int least = min(bits(kAtSource), bits(kAtSink));
      c_.exponent = least > kBoundBits + 1 && __ldcg(&c_.known) == 0 ? least - kBoundBits : 0;
    }
    grid_.barrier_reduce();
    if (grid_.leader()) {
      for (int group = kAtSource; group <= kAtSink; ++group) c_.high[group] = c_.low[group] = 0;
    }
    grid_.barrier_reduce();
  }

  __device__ void choose_unit() {
    each_group(true, [&](int group, bool exists, C given) {
      const double c = double(given);
      const bool infinite = exists && is_infinite(given), counts = exists && !infinite && c > 0;
      const int greatest = __reduce_max_sync(kAllLanes, counts ? ilogb(c) + kOffset : 0);
      const int finest =
          __reduce_max_sync(kAllLanes, counts && group == kOfAll ? kOffset - lowest_bit(c) : 0);
      const int infinities = __reduce_add_sync(kAllLanes, int(infinite));
      if (grid_.lane() != 0) return;
      if (greatest > __ldcg(c_.greatest + group)) atomicMax(c_.greatest + group, greatest);
      if (finest > __ldcg(&c_.finest)) atomicMax(&c_.finest, finest);
      if (infinities > 0) atomicAdd(c_.infinite + group, infinities);
    });
    grid_.barrier_reduce();
    // Capacities are rounded up to multiples of 2^unit. So their sums are exact and do not depend
    // on the order of additions.
    each_group(true, [&](int group, bool exists, C c) {
      const int unit = __ldcg(c_.greatest + group) - kOffset - kRoughBits;
      const bool counts = exists && !is_infinite(c) && c > C(0);
      const int64_t sum = warp_sum(counts ? int64_t(ceil(scalbn(double(c), -unit))) : int64_t(0));
      if (grid_.lane() == 0 && sum != 0) add_atomically(c_.roughly + group, sum);
    });
    grid_.barrier_reduce();
    if (grid_.leader()) {
      const auto exponent_of = [&](int group) {  // in this unit the sum has at most kBoundBits bits
        const int bits = bits_of(uint64_t(__ldcg(c_.roughly + group)));
        return bits == 0 ? -kOffset
                         : bits + __ldcg(c_.greatest + group) - kOffset - kRoughBits - kBoundBits;
      };
      const int out = __ldcg(c_.infinite + kAtSource), in = __ldcg(c_.infinite + kAtSink);
      c_.unbounded = out > 0 && in > 0;
      // If the problem is unbounded, each infinite arc counts as slightly more than the bound. The
      // unit leaves room for the sum of these arcs at the root, the terminal with fewer of them.
      int exponent = exponent_of(kOfAll) + 1 + bits_of(uint64_t(min(out, in)));
      if (!c_.unbounded) {
        exponent = out > 0  ? exponent_of(kAtSink)
                   : in > 0 ? exponent_of(kAtSource)
                            : min(exponent_of(kAtSource), exponent_of(kAtSink));
      }
      const int finest = __ldcg(&c_.finest);
      c_.rounded = finest > 0 && exponent > kOffset - finest;
      c_.exponent = finest > 0 ? max(exponent, kOffset - finest) : 0;
    }
    grid_.barrier_reduce();
  }

  FlowGrid& grid_;
  const FlowState& s_;
  FlowControl& c_;
  const FlowNetworkCsr& g_;
  const C* capacity_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_FIXED_POINT_CUH_
