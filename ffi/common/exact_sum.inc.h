// Exact sums of doubles.
//
// Included inside a namespace, as compensated_sum.inc.h is.

// A sum of up to 2^31 finite doubles, rounded once, however far apart they are and whatever
// cancels: the integer sum / 2^-1074 in words of 32 bits, with carries left to the end (Kulisch's
// accumulator). Larger and slower than FullRangeSum.
struct ExactSum {
  static constexpr int kWords = 68;  // 2^1024 * 2^31 < 2^(32 * 68 - 1074)
  int64_t word[kWords] = {};         // each below 2^63: an addition adds less than 2^32

  JAXMATCH_HOST_DEVICE void add(double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    const uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
    const int exponent = int(bits >> 52 & 0x7ff);
    // |x| = digits * 2^(shift - 1074)
    const uint64_t digits = exponent ? fraction | uint64_t(1) << 52 : fraction;
    const int shift = exponent ? exponent - 1 : 0, first = shift / 32;
    const uint64_t low = digits << (shift % 32), high = digits >> 32 >> (32 - shift % 32);
    const int64_t sign = bits >> 63 ? -1 : 1;
    word[first] += sign * int64_t(low & 0xffffffff);
    word[first + 1] += sign * int64_t(low >> 32);
    word[first + 2] += sign * int64_t(high);
  }

  // Infinite if the sum is beyond the range of doubles. Changes the words, but not their sum.
  JAXMATCH_HOST_DEVICE double value() {
    const bool negative = carry(1) < 0;
    if (negative) carry(-1);
    int top = kWords - 1;
    while (top >= 0 && word[top] == 0) --top;
    if (top < 0) return 0;
    // The first 64 bits; the last one of them also says whether any bit after them is set.
    const auto at = [&](int i) { return i < 0 ? uint32_t(0) : uint32_t(word[i]); };
    int zeros = 0;
    while (!(at(top) << zeros >> 31)) ++zeros;
    const uint64_t head = uint64_t(at(top)) << 32 | at(top - 1), next = at(top - 2);
    const uint64_t tail = next << zeros;
    bool more = uint32_t(tail) != 0;
    for (int i = 0; i < top - 2; ++i) more |= word[i] != 0;
    const uint64_t first = head << zeros | tail >> 32 | uint64_t(more);
    const double size = scaled(double(first), 32 * (top - 1) - zeros - 1074);
    return negative ? -size : size;
  }

 private:
  // Multiplies the words by `sign` and moves carries up: words are digits then. Returns what is
  // left above the last one.
  JAXMATCH_HOST_DEVICE int64_t carry(int64_t sign) {
    int64_t over = 0;
    for (int i = 0; i < kWords; ++i) {
      over += sign * word[i];
      word[i] = over & 0xffffffff;
      over >>= 32;
    }
    return over;
  }
  // x * 2^power, in two steps, as 2^power need not be a double.
  JAXMATCH_HOST_DEVICE static double scaled(double x, int power) {
    const int half = power / 2;
    return x * power_of_two(half) * power_of_two(power - half);
  }
  JAXMATCH_HOST_DEVICE static double power_of_two(int power) {
    const uint64_t bits = uint64_t(power + 1023) << 52;
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
  }
};
