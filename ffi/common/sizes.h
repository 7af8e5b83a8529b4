// Numbers that Python queries from the libraries: sizes of buffers, words of a state, limits.
#ifndef JAXMATCH_SIZES_H_
#define JAXMATCH_SIZES_H_

#include <cstdint>
#include <string_view>

namespace jaxmatch {

struct Size {
  std::string_view name;
  int64_t (*of)(const int64_t* arguments);
};

// A number that does not depend on arguments.
template <int64_t kValue>
int64_t constant(const int64_t*) {
  return kValue;
}
// The number of int32, the elements of buffers, that hold `bytes` bytes.
constexpr int64_t words(int64_t bytes) { return (bytes + 3) / 4; }

}  // namespace jaxmatch

#endif  // JAXMATCH_SIZES_H_
