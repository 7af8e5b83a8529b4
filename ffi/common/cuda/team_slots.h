// The memory through which the blocks of a team (common/cuda/team.cuh) exchange numbers.
#ifndef JAXMATCH_CUDA_TEAM_SLOTS_H_
#define JAXMATCH_CUDA_TEAM_SLOTS_H_

#include <cstdint>

namespace jaxmatch::team {

constexpr int kMostBlocks = 256;  // greatest number of blocks of a team

// Two words of each block, for reductions over blocks.
using Slots = uint64_t[2][kMostBlocks];

}  // namespace jaxmatch::team

#endif  // JAXMATCH_CUDA_TEAM_SLOTS_H_
