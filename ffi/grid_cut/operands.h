// Operands and results of the target jaxmatch_grid_cut, and the memory layout of a grid and its
// arcs.
#ifndef JAXMATCH_GRID_CUT_OPERANDS_H_
#define JAXMATCH_GRID_CUT_OPERANDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/attributes.h"
#include "common/decode.h"
#include "common/dtype.h"
#include "common/handler.h"
#include "common/host_device.h"
#include "common/limits.h"

namespace jaxmatch::grid_cut {

// True for the connectivities of volumes.
JAXMATCH_HOST_DEVICE constexpr bool is_solid(int arcs) {
  return arcs == 6 || arcs == 18 || arcs == 26;
}

// The offset (dz, dy, dx) from a cell to a neighbour. Direction k + arcs/2 is opposite to k.
struct GridStep {
  int8_t z, y, x;
};
// Volumes have 6 neighbours across faces, then (18) 12 across edges, then (26) 8 across corners.
template <int kArcs>
JAXMATCH_HOST_DEVICE constexpr GridStep grid_step(int k) {
  static_assert(kArcs == 4 || kArcs == 8 || is_solid(kArcs), "a connectivity");
  const int half = kArcs / 2;
  const int sign = k < half ? 1 : -1, at = k < half ? k : k - half;
  int z = 0, y = 0, x = 0;
  if (at == 0) x = 1;
  if (at == 1) y = 1;
  if (at == 2 && is_solid(kArcs)) z = 1;
  if (at == 2 && kArcs == 8) y = x = 1;
  if (at == 3 && kArcs == 8) y = 1, x = -1;
  if (kArcs > 8) {
    if (at == 3 || at == 4) y = 1, x = 7 - 2 * at;
    if (at == 5 || at == 6) z = 1, x = 11 - 2 * at;
    if (at == 7 || at == 8) z = 1, y = 15 - 2 * at;
    if (at > 8) z = 1, y = at < 11 ? 1 : -1, x = at % 2 == 1 ? 1 : -1;
  }
  return {int8_t(sign * z), int8_t(sign * y), int8_t(sign * x)};
}
template <int kArcs>
JAXMATCH_HOST_DEVICE constexpr int opposite(int k) {
  return k < kArcs / 2 ? k + kArcs / 2 : k - kArcs / 2;
}

struct GridShape {
  int32_t depth, height, width;  // depth is 1 for two-dimensional grids
  JAXMATCH_HOST_DEVICE int64_t cells() const { return int64_t(depth) * height * width; }
  JAXMATCH_HOST_DEVICE bool holds(int z, int y, int x) const {
    return uint32_t(z) < uint32_t(depth) && uint32_t(y) < uint32_t(height) &&
           uint32_t(x) < uint32_t(width);
  }
  JAXMATCH_HOST_DEVICE int64_t offset(GridStep s) const {
    return (int64_t(s.z) * height + s.y) * width + s.x;
  }
};

// On the CPU all methods are the same.
enum class GridCutMethod { kAuto, kAugment, kPushRelabel };
constexpr Name<GridCutMethod> kGridCutMethods[] = {{"auto", GridCutMethod::kAuto},
                                                   {"augment", GridCutMethod::kAugment},
                                                   {"push_relabel", GridCutMethod::kPushRelabel}};

struct GridCutOperands {
  int64_t batch;
  GridShape shape;
  int connectivity;
  bool symmetric;        // true: the two arcs of an edge share one capacity
  Dtype dtype;           // type of the capacities: kS32, kS64, kF32 or kF64
  const void* source;    // [batch, cells]
  const void* sink;      // [batch, cells]
  const void* pairwise;  // [batch, connectivity (half if symmetric), cells]
  Dtype value_dtype;
  void* value;      // [batch]
  bool* side;       // [batch, cells]
  int32_t* status;  // [batch]
  GridCutMethod method;

  JAXMATCH_HOST_DEVICE int given_arcs() const {
    return symmetric ? connectivity / 2 : connectivity;
  }
};

// The capacities of one problem.
template <class T>
struct GridCapacities {
  GridShape shape;
  bool symmetric;
  const T *source, *sink, *pairwise;

  // The address of the capacity of the arc from `cell` in direction k, to the neighbour `other`.
  template <int kArcs>
  JAXMATCH_HOST_DEVICE const T* arc_at(int64_t cell, int64_t other, int k) const {
    const bool at_other = symmetric && k >= kArcs / 2;
    return pairwise + (at_other ? k - kArcs / 2 : k) * shape.cells() + (at_other ? other : cell);
  }
  template <int kArcs>
  JAXMATCH_HOST_DEVICE T arc(int64_t cell, int64_t other, int k) const {
    return *arc_at<kArcs>(cell, other, k);
  }
};
template <class T>
JAXMATCH_HOST_DEVICE GridCapacities<T> grid_of(const GridCutOperands& o, int64_t b) {
  const int64_t cells = o.shape.cells();
  return {o.shape, o.symmetric, static_cast<const T*>(o.source) + b * cells,
          static_cast<const T*>(o.sink) + b * cells,
          static_cast<const T*>(o.pairwise) + b * cells * o.given_arcs()};
}

using GridSides = ffi::Buffer<ffi::PRED>;
using GridStatus = ffi::Buffer<ffi::S32>;

inline ffi::ErrorOr<GridCutOperands> decode_grid_cut(ffi::AnyBuffer source, ffi::AnyBuffer sink,
                                                     ffi::AnyBuffer pairwise,
                                                     ffi::Result<ffi::AnyBuffer> value,
                                                     ffi::Result<GridSides> side,
                                                     ffi::Result<GridStatus> status,
                                                     const ffi::Dictionary& attributes) {
  const auto wrong = [](const std::string& what) {
    return ffi::Unexpected(ffi::Error::InvalidArgument("jaxmatch_grid_cut: " + what));
  };
  Attributes call("jaxmatch_grid_cut", attributes);
  const int64_t connectivity = call.integer("connectivity");
  const GridCutMethod method = call.named("method", kGridCutMethods);
  if (call.failed()) return ffi::Unexpected(call.error());
  if (connectivity != 4 && connectivity != 8 && !is_solid(int(connectivity))) {
    return wrong("connectivity is 4, 8, 6, 18 or 26");
  }
  const size_t rank = is_solid(int(connectivity)) ? 3 : 2;
  const auto dims = source.dimensions();
  const auto arc_dims = pairwise.dimensions();
  if (dims.size() < rank || arc_dims.size() < rank + 1) return wrong("too few dimensions");
  const int64_t width = dims[dims.size() - 1], height = dims[dims.size() - 2];
  const int64_t depth = rank == 3 ? dims[dims.size() - 3] : 1;
  if (width > kMostCells || height > kMostCells || depth > kMostCells ||
      width * height > kMostCells || width * height * depth > kMostCells) {
    return wrong("a grid of more than " + std::to_string(kMostCells) + " cells");
  }
  const auto dtype = capacity_dtype_of(source.element_type());
  const auto value_dtype = capacity_dtype_of(value->element_type());
  if (!dtype || !value_dtype || !is_value_dtype(*dtype, *value_dtype) ||
      sink.element_type() != source.element_type() ||
      pairwise.element_type() != source.element_type()) {
    return wrong("unsupported dtypes");
  }
  GridCutOperands o;
  o.shape = {int32_t(depth), int32_t(height), int32_t(width)};
  o.batch = batch_size(dims, rank);
  o.connectivity = int(connectivity);
  const int64_t given = arc_dims[arc_dims.size() - rank - 1];
  o.symmetric = given == connectivity / 2;
  const int64_t all = o.batch * o.shape.cells();
  if ((!o.symmetric && given != connectivity) || int64_t(sink.element_count()) != all ||
      int64_t(pairwise.element_count()) != all * given || int64_t(side->element_count()) != all ||
      int64_t(value->element_count()) != o.batch || int64_t(status->element_count()) != o.batch) {
    return wrong("the arrays do not belong together");
  }
  o.dtype = *dtype;
  o.source = source.untyped_data();
  o.sink = sink.untyped_data();
  o.pairwise = pairwise.untyped_data();
  o.value_dtype = *value_dtype;
  o.value = value->untyped_data();
  o.side = side->typed_data();
  o.status = status->typed_data();
  o.method = method;
  return o;
}

}  // namespace jaxmatch::grid_cut

// The arguments and results that the CPU and CUDA handlers share. `binding` must already have the
// platform's context.
#define JAXMATCH_BIND_GRID_CUT(binding)     \
  (binding)                                 \
      .Arg<jaxmatch::ffi::AnyBuffer>()      \
      .Arg<jaxmatch::ffi::AnyBuffer>()      \
      .Arg<jaxmatch::ffi::AnyBuffer>()      \
      .Ret<jaxmatch::ffi::AnyBuffer>()      \
      .Ret<jaxmatch::grid_cut::GridSides>() \
      .Ret<jaxmatch::grid_cut::GridStatus>()
#endif  // JAXMATCH_GRID_CUT_OPERANDS_H_
