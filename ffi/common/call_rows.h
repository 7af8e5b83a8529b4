// Decodes and checks the operands and results of a call. A table lists them (common/operands.h).
#ifndef JAXMATCH_CALL_ROWS_H_
#define JAXMATCH_CALL_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/attributes.h"
#include "common/decode.h"
#include "common/handler.h"
#include "common/operands.h"

namespace jaxmatch {

// The name of a dtype in Python.
inline std::string name_of(ffi::DataType dtype) {
  constexpr struct {
    ffi::DataType dtype;
    const char* name;
  } kNames[] = {{ffi::PRED, "bool"},   {ffi::U8, "uint8"},    {ffi::S32, "int32"},
                {ffi::S64, "int64"},   {ffi::U32, "uint32"},  {ffi::BF16, "bfloat16"},
                {ffi::F16, "float16"}, {ffi::F32, "float32"}, {ffi::F64, "float64"}};
  for (const auto& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "dtype " + std::to_string(int(dtype));
}

// The dtype of an array of T.
template <class T>
constexpr ffi::DataType kElementOf = std::is_same_v<T, int32_t>   ? ffi::S32
                                     : std::is_same_v<T, float>   ? ffi::F32
                                     : std::is_same_v<T, uint8_t> ? ffi::PRED
                                     : std::is_same_v<T, bool>    ? ffi::PRED
                                                                  : ffi::DataType::INVALID;

// Result number `at` of the call, counted from 0, or nothing if the call has fewer results.
inline std::optional<ffi::AnyBuffer> result_at(ffi::RemainingRets rets, size_t at) {
  auto buffer = rets.get<ffi::AnyBuffer>(at);
  return buffer.has_value() ? std::optional<ffi::AnyBuffer>(**buffer) : std::nullopt;
}

// The optional operand `name`, if the call has it. `first` is the index of the first optional
// operand. Records an error if the call lists the operand as present but lacks it, or if its dtype
// is not `dtype`.
inline std::optional<ffi::AnyBuffer> optional_operand(ffi::RemainingArgs args, Attributes& given,
                                                      std::string_view name,
                                                      std::optional<ffi::DataType> dtype,
                                                      size_t first = 1) {
  const int at = given.operand(name);
  if (at < 0) return std::nullopt;
  const auto buffer = args.get<ffi::AnyBuffer>(size_t(at) + first);
  if (!buffer.has_value()) {
    given.fail("the operand " + std::string(name) + " is missing");
    return std::nullopt;
  }
  if (dtype && buffer->element_type() != *dtype) {
    given.fail("the operand " + std::string(name) + " has another dtype");
    return std::nullopt;
  }
  return *buffer;
}

// A batch: the number of its problems, and the first problem.
template <class Problem>
struct BatchOf {
  int64_t size;
  Problem first;
};

// The operands and results of a call, which a table lists (common/operands.h). The functions below
// take the table as `list`: list(rows) calls rows.operand(), rows.optional() or rows.result() for
// each row of the table. Errors are recorded in `given`.
class CallRows {
 public:
  CallRows(ffi::RemainingArgs args, ffi::RemainingRets rets, Attributes& given)
      : args_(args), rets_(rets), given_(given) {}

  // Sets the pointers and dtypes of the problem; its sizes need not be known yet. The call must
  // have `buffers` more results than the table.
  template <class List>
  bool find(const List& list, size_t buffers = 0) {
    read(Task::kFind, list);
    given_.expect_results(rets_.size(), next_result_ + buffers);
    return !given_.failed();
  }
  // Returns the array called `name`. Requires that find() has succeeded.
  template <class List>
  ffi::AnyBuffer array(std::string_view name, const List& list) {
    wanted_ = name;
    read(Task::kName, list);
    return *named_;
  }
  // Checks the dtypes and the sizes of all arrays of `batch` problems.
  template <class List>
  bool check(int64_t batch, const List& list) {
    batch_ = batch;
    read(Task::kCheck, list);
    return !given_.failed();
  }

  template <class... Row>
  void operand(std::string_view name, Row&&... row) {
    const auto buffer = args_.get<ffi::AnyBuffer>(required_++ + optional_);
    if (buffer.has_value()) return visit(name, *buffer, row...);
    given_.fail("the operand " + std::string(name) + " is missing");
  }
  template <class... Row>
  void optional(std::string_view name, Row&&... row) {
    const int at = given_.operand(name);
    if (at < 0) return;
    ++optional_;
    const auto buffer = args_.get<ffi::AnyBuffer>(required_ + size_t(at));
    if (buffer.has_value()) return visit(name, *buffer, row...);
    given_.fail("the operand " + std::string(name) + " is missing");
  }
  template <class... Row>
  void result(std::string_view name, Row&&... row) {
    const auto buffer = result_at(rets_, next_result_++);
    if (buffer) visit(name, *buffer, row...);
  }

 private:
  enum class Task { kFind, kName, kCheck };

  template <class List>
  void read(Task task, const List& list) {
    task_ = task;
    required_ = optional_ = next_result_ = 0;
    list(*this);
  }
  template <class T>
  void visit(std::string_view name, const ffi::AnyBuffer& buffer, T*& array, Entries entries) {
    constexpr ffi::DataType kDtype = kElementOf<std::remove_const_t<T>>;
    static_assert(kDtype != ffi::DataType::INVALID, "no array has such elements");
    if (task_ == Task::kCheck && buffer.element_type() != kDtype) {
      return expect(name, buffer, name_of(kDtype));
    }
    visit_untyped(name, buffer, array, entries);
  }
  template <class T>
  void visit(std::string_view name, const ffi::AnyBuffer& buffer, T*& array, const DtypeOf& of,
             Entries entries) {
    if (task_ == Task::kFind) learn(buffer, of);
    if (task_ == Task::kCheck && !has_dtype(name, buffer, of)) return;
    visit_untyped(name, buffer, array, entries);
  }
  template <class T>
  void visit_untyped(std::string_view name, const ffi::AnyBuffer& buffer, T*& array,
                     Entries entries) {
    if (task_ == Task::kFind) array = static_cast<T*>(buffer.untyped_data());
    if (task_ == Task::kName && name == wanted_) named_ = buffer;
    if (task_ != Task::kCheck || entries.each < 0) return;
    given_.expect_size(name, buffer, entries.shared ? entries.each : batch_ * entries.each);
  }

  // Sets the dtype `of.dtype` from the array `buffer`, unless an earlier row of the table has set
  // it.
  void learn(const ffi::AnyBuffer& buffer, const DtypeOf& of) {
    for (size_t k = 0; k < learned_; ++k) {
      if (dtypes_[k] == &of.dtype) return;
    }
    dtypes_[learned_++ % kMostDtypes] = &of.dtype;
    if (const auto dtype = dtype_of(buffer.element_type())) of.dtype = *dtype;
  }
  bool has_dtype(std::string_view name, const ffi::AnyBuffer& buffer, const DtypeOf& of) {
    const std::optional<Dtype> found = dtype_of(buffer.element_type());
    const bool real = found == Dtype::kF32 || found == Dtype::kF64;
    if (!found || (of.allowed == Allowed::kReal && !real) ||
        (of.allowed == Allowed::kWide && size_of(*found) == 2)) {
      constexpr const char* kNames[] = {"a float or an integer", "32 or 64 bits",
                                        "float32 or float64"};
      expect(name, buffer, kNames[int(of.allowed)]);
    } else if (*found != of.dtype) {
      expect(name, buffer, "the dtype of others");
    }
    return !given_.failed();
  }
  void expect(std::string_view name, const ffi::AnyBuffer& buffer, const std::string& expected) {
    given_.fail("the array " + std::string(name) + " has dtype " + name_of(buffer.element_type()) +
                " where " + expected + " is expected");
  }

  static constexpr size_t kMostDtypes = 8;  // greatest number of dtype members in a problem

  ffi::RemainingArgs args_;
  ffi::RemainingRets rets_;
  Attributes& given_;
  size_t required_ = 0, optional_ = 0;  // operands of each kind that were read so far
  size_t next_result_ = 0;
  Task task_ = Task::kFind;
  const Dtype* dtypes_[kMostDtypes] = {};
  size_t learned_ = 0;
  int64_t batch_ = 0;
  std::string_view wanted_;
  std::optional<ffi::AnyBuffer> named_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CALL_ROWS_H_
