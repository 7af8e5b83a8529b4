// The operands and results of the targets jaxmatch_noise and jaxmatch_perturbed_assignment, and
// how they are decoded. Python has checked shapes and dtypes; the checks here are a backstop.
#ifndef JAXMATCH_PERTURBED_OPERANDS_H_
#define JAXMATCH_PERTURBED_OPERANDS_H_

#include <cstdint>

#include "assignment/operands.h"
#include "common/attributes.h"
#include "common/call_rows.h"
#include "perturbed/noise.h"

namespace jaxmatch::perturbed {

using namespace assignment;  // the perturbed problems are assignment problems

static_assert(sizeof(NoiseStream) == 16, "four words of the operand");

using IndexResult = ffi::Result<ffi::Buffer<ffi::S32>>;

struct PerturbedOperands {
  int64_t batch, samples, n, m;
  int64_t width;  // columns of `cost`: m, or m + 1 if the last column has unmatched costs
  int64_t entries;
  bool may_leave;
  Noise noise;
  const NoiseStream* stream;  // [batch]
  const float* strength;      // [batch]
  const float* cost;          // [batch, n, width]
  const uint8_t* row_mask;    // [batch, n]; null where not given
  const uint8_t* col_mask;    // [batch, m]

  float* total;      // [batch, n, width]: how often each pair was chosen
  int32_t* col4row;  // [batch, samples, n]; m: left unmatched at a cost; -1: no column
  float* value;      // [batch, samples]
  int32_t* status;   // [batch, samples]
};

constexpr Name<Noise> kNoises[] = {{"normal", Noise::kNormal}, {"gumbel", Noise::kGumbel}};

inline ffi::ErrorOr<PerturbedOperands> decode_perturbed(
    ffi::Buffer<ffi::U32> stream, ffi::Buffer<ffi::F32> strength, ffi::Buffer<ffi::F32> cost,
    ffi::RemainingArgs masks, ffi::Result<ffi::Buffer<ffi::F32>> total, IndexResult col4row,
    ffi::Result<ffi::Buffer<ffi::F32>> value, IndexResult status, Attributes& given) {
  const auto sides = cost.dimensions();
  const auto rows = col4row->dimensions();
  const Noise noise = given.named("noise", kNoises);
  const bool may_leave = given.flag("may_leave");
  const auto row_mask = optional_operand(masks, given, "row_mask", ffi::PRED, 0);
  const auto col_mask = optional_operand(masks, given, "col_mask", ffi::PRED, 0);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (sides.size() < 2 || rows.size() < 2) {
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "jaxmatch_perturbed_assignment: costs must have shape [..., n, m]"));
  }
  PerturbedOperands o;
  o.batch = batch_size(sides, 2);
  o.samples = rows[rows.size() - 2];
  o.n = sides[sides.size() - 2];
  o.width = sides[sides.size() - 1];
  o.m = o.width - may_leave;
  o.entries = o.n * o.width;
  o.may_leave = may_leave;
  o.noise = noise;
  o.stream = reinterpret_cast<const NoiseStream*>(stream.typed_data());
  o.strength = strength.typed_data();
  o.cost = cost.typed_data();
  const auto data = [](const auto& mask) {
    return mask ? static_cast<const uint8_t*>(mask->untyped_data()) : nullptr;
  };
  o.row_mask = data(row_mask);
  o.col_mask = data(col_mask);
  o.total = total->typed_data();
  o.col4row = col4row->typed_data();
  o.value = value->typed_data();
  o.status = status->typed_data();
  if (o.m < 0 || o.n > INT32_MAX - 64 || o.width > INT32_MAX - 64) {
    given.fail("a side that is negative, or of 2^31 or more");
  }
  given.expect_size("stream", stream, 4 * o.batch);
  given.expect_size("strength", strength, o.batch);
  given.expect_size("row_mask", row_mask, o.batch * o.n);
  given.expect_size("col_mask", col_mask, o.batch * o.m);
  given.expect_size("total", *total, o.batch * o.entries);
  given.expect_size("col4row", *col4row, o.batch * o.samples * o.n);
  given.expect_size("value", *value, o.batch * o.samples);
  given.expect_size("status", *status, o.batch * o.samples);
  if (given.failed()) return ffi::Unexpected(given.error());
  return o;
}

}  // namespace jaxmatch::perturbed

#endif  // JAXMATCH_PERTURBED_OPERANDS_H_
