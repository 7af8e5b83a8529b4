// Exact sums of doubles.
//
// Included inside a namespace: by exact_sum.h, and by the CPU's solvers once per instruction set.
// The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

// A sum of up to 2^31 finite doubles that is rounded only once, whatever their magnitudes
// (Kulisch's accumulator). It is kept as an integer, sum / 2^-1074, in words of 32 bits, and only
// value() propagates carries. It is larger and slower than FullRangeSum (common/compensated_sum.h),
// which is not exact.
struct ExactSum {
  static constexpr int kWords = 68;  // 2^1024 * 2^31 < 2^(32 * 68 - 1074)
  int64_t word[kWords] = {};         // below 2^63: an addition adds less than 2^32 to a word

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

  // The sum, or an infinity if it is outside the range of doubles. Call it only once, after all
  // additions, because it overwrites the words.
  JAXMATCH_HOST_DEVICE double value() {
    const bool negative = carry(1) < 0;
    if (negative) carry(-1);
    int top = kWords - 1;
    while (top >= 0 && word[top] == 0) --top;
    if (top < 0) return 0;
    // `first` has the leading 64 bits of the sum. Its lowest bit is also set if any later bit of
    // the sum is set, so that the conversion to double rounds correctly.
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
  // Multiplies the words by `sign` and propagates carries, so that each word becomes a digit below
  // 2^32. Returns the carry out of the last word.
  JAXMATCH_HOST_DEVICE int64_t carry(int64_t sign) {
    int64_t over = 0;
    for (int i = 0; i < kWords; ++i) {
      over += sign * word[i];
      word[i] = over & 0xffffffff;
      over >>= 32;
    }
    return over;
  }
  // x * 2^power, in two steps, since 2^power may be outside the range of doubles.
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
