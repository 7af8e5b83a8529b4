// A few integers that are compared together.
#ifndef JAXMATCH_FLOW_CPU_INT_PACK_H_
#define JAXMATCH_FLOW_CPU_INT_PACK_H_

#include <cstdint>
#include <cstring>

namespace jaxmatch::flow {

// An even number of integers in vector registers. Comparisons give -1 for true and 0 for false.
template <int kCount>
class IntPack {
  static_assert(kCount % 2 == 0, "pairs");

 public:
  static IntPack load(const int32_t* from) {
    IntPack pack;
    std::memcpy(pack.part_, from, kCount * sizeof(int32_t));
    return pack;
  }
  void set(int k, int32_t x) { part_[k / kWidth][k % kWidth] = x; }
  int32_t operator[](int k) const { return part_[k / kWidth][k % kWidth]; }

  IntPack operator-(const IntPack& other) const {
    return map([&](int i) { return part_[i] - other.part_[i]; });
  }
  IntPack operator-(int32_t x) const {
    return map([&](int i) { return part_[i] - x; });
  }
  IntPack operator|(const IntPack& other) const {
    return map([&](int i) { return part_[i] | other.part_[i]; });
  }
  IntPack operator&(const IntPack& other) const {
    return map([&](int i) { return part_[i] & other.part_[i]; });
  }
  IntPack operator>(const IntPack& other) const {
    return map([&](int i) { return part_[i] > other.part_[i]; });
  }
  // True if not all of them are 0.
  bool any() const {
    Part all = part_[0];
    for (int i = 1; i < kParts; ++i) all |= part_[i];
    uint64_t words[kWidth / 2], any = 0;
    std::memcpy(words, &all, sizeof words);
    for (const uint64_t word : words) any |= word;
    return any != 0;
  }

 private:
  static constexpr int kWidth = kCount % 4 == 0 ? 4 : 2, kParts = kCount / kWidth;
  typedef int32_t Part __attribute__((vector_size(kWidth * sizeof(int32_t))));

  template <class F>
  static IntPack map(const F& part) {
    IntPack result;
    for (int i = 0; i < kParts; ++i) result.part_[i] = part(i);
    return result;
  }

  Part part_[kParts] = {};
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_INT_PACK_H_
