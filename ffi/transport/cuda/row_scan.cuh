// Scans of a row of costs by a warp, for the auction.
#ifndef JAXMATCH_CUDA_TRANSPORT_ROW_SCAN_CUH_
#define JAXMATCH_CUDA_TRANSPORT_ROW_SCAN_CUH_

#include "assignment/pair_hash.h"
#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// Finds the two least reduced costs at the prices v. Hashes perturb them by less than
// `perturbation` to break ties (assignment/pair_hash.h).
template <class C>
struct RowScan {
  const C& c;
  const float* v;
  float perturbation;
  static constexpr int32_t kLeastWidth = 128;  // least width of a part, for enough loads in flight

  __device__ TwoLeast of_row(int64_t i) const { return of_part(i, 0, int32_t(c.p.m)); }
  // Scans the columns in [first, last). Every lane gets the result.
  __device__ TwoLeast of_part(int64_t i, int32_t first, int32_t last) const {
    TwoLeast own;
    int32_t j = first + int32_t(threadIdx.x) % kWarpSize;
    const auto row = c.row(i);
    if constexpr (!C::kComputed) j = include_groups<8>(row, i, j, last, own);
    j = include_groups<4>(row, i, j, last, own);
    for (; j < last; j += kWarpSize) own.include(perturbed(row.raw(j), i, j), j);
    own.merge();
    return own;
  }

 private:
  // Includes N columns per lane at a time, with N loads in flight, while all lanes have N columns
  // left. Returns this lane's next column.
  template <int N, class Row>
  __device__ int32_t include_groups(const Row& row, int64_t i, int32_t j, int32_t last,
                                    TwoLeast& own) const {
    for (; j - int32_t(threadIdx.x) % kWarpSize + N * kWarpSize <= last; j += N * kWarpSize) {
      typename C::Raw raw[N];
      load_group(row.from(j), raw);
      keep_loads_together();
#pragma unroll
      for (int a = 0; a < N; ++a) {
        own.include(perturbed(raw[a], i, j + a * kWarpSize), j + a * kWarpSize);
      }
    }
    return j;
  }
  __device__ float perturbed(typename C::Raw raw, int64_t i, int32_t j) const {
    const float reduced = c.estimate(raw) - v[j];
    // The hash gives a number from 1 to 2. The 1 is added to all columns, so it does not matter.
    const uint32_t hash = uint32_t(assignment::pair_hash(uint32_t(i), uint32_t(j)));
    return reduced + perturbation * __uint_as_float(0x3f800000u | hash >> 1);
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_ROW_SCAN_CUH_
