#include "assignment/cuda/kernel.cuh"
#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {
namespace {

template <class Costs>
AssignmentKernel PickWarp(int columns_per_lane) {
  switch (columns_per_lane) {
    case 1:
      return assignment_warp_kernel<Costs, 1>;
    case 2:
      return assignment_warp_kernel<Costs, 2>;
    default:
      return assignment_warp_kernel<Costs, 4>;
  }
}

}  // namespace

AssignmentKernel WarpKernel(int columns_per_lane, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return PickWarp<Integers>(columns_per_lane);
    case Dtype::kF64:
      return PickWarp<Doubles>(columns_per_lane);
    default:
      return PickWarp<Floats>(columns_per_lane);
  }
}

}  // namespace jaxmatch::assignment
