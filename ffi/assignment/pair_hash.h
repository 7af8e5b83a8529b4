// A pseudorandom number for each pair of a row and a column.
//
// An auction adds these numbers to its costs, scaled to less than epsilon, the least bid increment.
// Without this perturbation, identical rows, or rows with the same few cheapest columns, would
// outbid each other for many rounds. The perturbation changes the price that a bid sets by less
// than epsilon.
#ifndef JAXMATCH_ASSIGNMENT_PAIR_HASH_H_
#define JAXMATCH_ASSIGNMENT_PAIR_HASH_H_

#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch::assignment {

// Returns a number from 0 to 2^24 - 1, which float32 represents exactly.
JAXMATCH_HOST_DEVICE inline int32_t pair_hash(uint32_t row, uint32_t col) {
  return int32_t((row * 0x9E3779B1u ^ col * 0x85EBCA77u) * 0xC2B2AE3Du >> 8);
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_ASSIGNMENT_PAIR_HASH_H_
