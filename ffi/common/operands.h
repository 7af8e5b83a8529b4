// Tables of operands and results. The table of a problem is a function with a row for each array:
//
//   JAXMATCH_TABLE
//   template <class Rows>
//   JAXMATCH_HOST_DEVICE void list_operands(KBestProblem& p, Rows& rows) {
//     rows.operand("cost", p.cost, any_dtype(p.cost_dtype), p.n * p.m);
//     rows.optional("row_mask", p.row_mask, p.n);
//     rows.result("value", p.value, real_dtype(p.result_dtype), p.k);
//   }
//
// A row gives the array's name in error messages, the member that points to it, and its number of
// entries in one problem. The type of the pointer determines the dtype. For a `void*` the row also
// gives the allowed dtypes, and the member that stores the dtype of the call. Arrays whose rows
// name the same dtype member must have the same dtype. Operands and results are listed in the order
// of the call; optional operands are found by name.
//
// CallRows (common/call_rows.h) reads a table to decode and check a call. problem_at() reads it to
// find a problem of a batch.
#ifndef JAXMATCH_OPERANDS_H_
#define JAXMATCH_OPERANDS_H_

#include <cstdint>

#include "common/dtype.h"
#include "common/host_device.h"

// Must stand before each table. Without it nvcc warns that a table, which is a function for host
// and device, calls functions for the host only, such as those of CallRows.
#if defined(__CUDACC__)
#define JAXMATCH_TABLE _Pragma("nv_exec_check_disable")
#else
#define JAXMATCH_TABLE
#endif

namespace jaxmatch {

// The dtypes that the array behind a `void*` may have. kAny: all; kWide: those with 32 or 64 bits;
// kReal: float32 and float64.
enum class Allowed : uint8_t { kAny, kWide, kReal };

struct DtypeOf {
  Dtype& dtype;
  Allowed allowed;
  int64_t size;  // bytes of an element of the current `dtype`
};
JAXMATCH_HOST_DEVICE inline DtypeOf any_dtype(Dtype& dtype) {
  return {dtype, Allowed::kAny, size_of(dtype)};
}
JAXMATCH_HOST_DEVICE inline DtypeOf wide_dtype(Dtype& dtype) {
  return {dtype, Allowed::kWide, size_of(dtype)};
}
JAXMATCH_HOST_DEVICE inline DtypeOf real_dtype(Dtype& dtype) {
  return {dtype, Allowed::kReal, size_of(dtype)};
}

// The number of entries of an array: in one problem, or in total if all problems share the array.
struct Entries {
  // Not `explicit`, so that a row can give a plain number.
  JAXMATCH_HOST_DEVICE constexpr Entries(int64_t each, bool shared = false)
      : each(each), shared(shared) {}
  int64_t each;
  bool shared;
};
// For arrays whose size only the handler knows. problem_at() cannot read a table with such arrays.
JAXMATCH_HOST_DEVICE constexpr Entries any_entries() { return Entries(-1); }

// Moves the pointers of a problem from the first problem of the batch to problem b.
struct BatchRows {
  int64_t b;

  template <class... Row>
  JAXMATCH_HOST_DEVICE void operand(const char*, Row&&... row) const {
    skip(row...);
  }
  template <class... Row>
  JAXMATCH_HOST_DEVICE void optional(const char*, Row&&... row) const {
    skip(row...);
  }
  template <class... Row>
  JAXMATCH_HOST_DEVICE void result(const char*, Row&&... row) const {
    skip(row...);
  }

 private:
  template <class T>
  JAXMATCH_HOST_DEVICE void skip(T*& array, Entries entries) const {
    if (!entries.shared) skip_bytes(array, entries.each * int64_t(sizeof(T)));
  }
  template <class T>
  JAXMATCH_HOST_DEVICE void skip(T*& array, const DtypeOf& of, Entries entries) const {
    if (!entries.shared) skip_bytes(array, entries.each * of.size);
  }
  template <class T>
  JAXMATCH_HOST_DEVICE void skip_bytes(T*& array, int64_t bytes) const {
    if (array) array = reinterpret_cast<T*>(uintptr_t(array) + uintptr_t(b * bytes));
  }
};

// Problem `b` of the batch whose first problem is p.
template <class Problem>
JAXMATCH_HOST_DEVICE inline Problem problem_at(Problem p, int64_t b) {
  const BatchRows rows{b};
  list_operands(p, rows);
  return p;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_OPERANDS_H_
