// Launches the batched assignment kernels, for all handlers that solve assignments.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_LAUNCH_H_
#define JAXMATCH_CUDA_ASSIGNMENT_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "assignment/cuda/batch.h"
#include "common/handler.h"

namespace jaxmatch::assignment {

// Solves the whole batch in one launch, after one launch for the auctions if `b.auction` is set. If
// `b.workspace_costs` is 0, costs that must be copied are copied to shared memory.
ffi::Error launch_assignment(AssignmentBatch b, cudaStream_t stream);

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_LAUNCH_H_
