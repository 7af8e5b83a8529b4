// The batched assignment kernels' one launch, for the handlers that need one.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_LAUNCH_H_
#define JAXMATCH_CUDA_ASSIGNMENT_LAUNCH_H_

#include <cuda_runtime_api.h>

#include "assignment/cuda/batch.h"
#include "common/handler.h"

namespace jaxmatch::assignment {

// One launch for the whole batch; with workspace_costs 0 copies are made in shared memory.
ffi::Error launch_assignment(AssignmentBatch b, cudaStream_t stream);

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_LAUNCH_H_
