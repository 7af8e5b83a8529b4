// Numbers that Python queries from the libraries by name: sizes of buffers, positions of words in a
// solver's state, constants and limits.
#ifndef JAXMATCH_SIZES_H_
#define JAXMATCH_SIZES_H_

#include <cstdint>
#include <string_view>

namespace jaxmatch {

struct Size {
  std::string_view name;
  int64_t (*of)(const int64_t* arguments);
};

// Size::of for a number that does not depend on arguments.
template <int64_t kValue>
int64_t constant(const int64_t*) {
  return kValue;
}
// The number of int32 words that hold `bytes` bytes. Buffers are arrays of int32.
constexpr int64_t words(int64_t bytes) { return (bytes + 3) / 4; }

}  // namespace jaxmatch

#endif  // JAXMATCH_SIZES_H_
