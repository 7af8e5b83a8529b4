// A number for each pair of a row and a column, as if drawn at random.
//
// An auction perturbs its costs by such numbers, below epsilon: else rows that are alike, or that
// all want the same few columns, would bid against each other for long. A price that a bid leaves
// is wrong by no more than that.
#ifndef JAXMATCH_ASSIGNMENT_PAIR_HASH_H_
#define JAXMATCH_ASSIGNMENT_PAIR_HASH_H_

#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch::assignment {

// From 0 to 2^24 - 1, which float32 holds.
JAXMATCH_HOST_DEVICE inline int32_t pair_hash(uint32_t row, uint32_t col) {
  return int32_t((row * 0x9E3779B1u ^ col * 0x85EBCA77u) * 0xC2B2AE3Du >> 8);
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_ASSIGNMENT_PAIR_HASH_H_
