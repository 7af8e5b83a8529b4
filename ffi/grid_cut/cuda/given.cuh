// The given capacities of one problem, as the kernel for a number of arcs reads them.
#ifndef JAXMATCH_GRID_CUT_CUDA_GIVEN_CUH_
#define JAXMATCH_GRID_CUT_CUDA_GIVEN_CUH_

#include <cstdint>
#include <type_traits>

#include "grid_cut/cuda/tiling.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// Numbers of type G (int64_t or double) that may be stored with half as many bits.
template <class G>
struct WidenedNumbers {
  using Narrow = std::conditional_t<std::is_floating_point_v<G>, float, int32_t>;
  const void* at;
  bool is_narrow;

  WidenedNumbers() = default;
  __device__ WidenedNumbers(const void* first, bool is_narrow, int64_t skipped)
      : at(static_cast<const char*>(first) + skipped * int64_t(is_narrow ? 4 : 8)),
        is_narrow(is_narrow) {}
  __device__ G operator[](int64_t i) const {
    return is_narrow ? G(static_cast<const Narrow*>(at)[i]) : static_cast<const G*>(at)[i];
  }
};

// With many arcs there is one kernel for integers and one for floats, of 18 and of 26 neighbours,
// because more of them would make the library too large. Directions are those of kManyArcs.
template <class G>
struct ManyCapacities {
  GridShape shape;
  bool symmetric;
  int half;  // 9 or 13
  WidenedNumbers<G> source, sink, pairwise;

  __device__ bool has(int k) const { return (k < kManyArcs / 2 ? k : k - kManyArcs / 2) < half; }
  // The capacity of the arc from `cell` in direction k, to the neighbour `other`; see has().
  template <int kArcs>
  __device__ G arc(int64_t cell, int64_t other, int k) const {
    const bool back = k >= kManyArcs / 2, at_other = back && symmetric;
    const int first = back ? k - kManyArcs / 2 : k;
    return pairwise[(back && !symmetric ? first + half : first) * shape.cells() +
                    (at_other ? other : cell)];
  }
};

template <int kArcs, class G>
using GivenCapacities =
    std::conditional_t<kArcs == kManyArcs, ManyCapacities<G>, GridCapacities<G>>;

template <int kArcs, class G>
__device__ GivenCapacities<kArcs, G> given_of(const GridCutOperands& o, int64_t b) {
  if constexpr (kArcs == kManyArcs) {
    const int64_t cells = o.shape.cells();
    const bool narrow = o.dtype == Dtype::kS32 || o.dtype == Dtype::kF32;
    const auto widened = [&](const void* first, int64_t each) {
      return WidenedNumbers<G>(first, narrow, b * cells * each);
    };
    return {o.shape,
            o.symmetric,
            o.connectivity / 2,
            widened(o.source, 1),
            widened(o.sink, 1),
            widened(o.pairwise, o.given_arcs())};
  } else {
    return grid_of<G>(o, b);
  }
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_GIVEN_CUH_
