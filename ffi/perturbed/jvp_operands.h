// The operands and results of the target jaxmatch_perturbed_jvp, and how they are decoded. Python
// has checked shapes and dtypes; the checks here are a backstop.
#ifndef JAXMATCH_JVP_OPERANDS_H_
#define JAXMATCH_JVP_OPERANDS_H_

#include <cstdint>

#include "common/call_rows.h"
#include "perturbed/operands.h"

namespace jaxmatch::perturbed {

// Let y_s be the solution of sample s, a 0-1 matrix, and g_s the scores of its noise
// (perturbed/noise.h). Let d be the tangent, and r a reference that is subtracted from every
// solution to reduce variance. Then
//   jvp = sum over s of  by_solutions (y_s - r) <g_s, d>  +  by_scores g_s <y_s - r, d>.
// The first term estimates A d, where A is the expectation of (y_s - r) g_s^T, with the matrices as
// vectors. The second estimates A^T d. A is symmetric, so the two terms may be mixed.
struct JvpOperands {
  float by_solutions, by_scores;
  int64_t batch, samples, n, width, entries;
  Noise noise;
  const NoiseStream* stream;  // [batch]
  const float* tangent;       // [batch, n, width], d
  const float* reference;     // [batch, n, width], r
  const int32_t* col4row;     // [batch, samples, n]; negative for a row without a column

  float* jvp;     // [batch, n, width]
  float* weight;  // [batch, samples, 2]: by_solutions <g_s, d> and by_scores <y_s - r, d>
};

using WeightResult = ffi::Result<ffi::Buffer<ffi::F32>>;

inline ffi::ErrorOr<JvpOperands> decode_jvp(
    ffi::Buffer<ffi::U32> stream, ffi::Buffer<ffi::F32> tangent, ffi::Buffer<ffi::F32> reference,
    ffi::Buffer<ffi::S32> col4row, ffi::Result<ffi::Buffer<ffi::F32>> jvp, WeightResult weight,
    const ffi::Dictionary& attributes) {
  Attributes given("jaxmatch_perturbed_jvp", attributes);
  const auto sides = tangent.dimensions(), rows = col4row.dimensions();
  JvpOperands o{};
  o.noise = given.named("noise", kNoises);
  o.by_solutions = float(given.real("by_solutions"));
  o.by_scores = float(given.real("by_scores"));
  if (given.failed()) return ffi::Unexpected(given.error());
  if (sides.size() >= 2 && rows.size() >= 2) {
    o.batch = batch_size(sides, 2);
    o.samples = rows[rows.size() - 2];
    o.n = sides[sides.size() - 2];
    o.width = sides[sides.size() - 1];
  }
  o.entries = o.n * o.width;
  const int64_t size = o.batch * o.entries;
  if (size == 0 || o.entries > INT32_MAX - 64 || batch_size(rows, 2) != o.batch ||
      rows[rows.size() - 1] != o.n || int64_t(reference.element_count()) != size ||
      int64_t(jvp->element_count()) != size || int64_t(stream.element_count()) != 4 * o.batch ||
      int64_t(weight->element_count()) != 2 * o.batch * o.samples) {
    return ffi::Unexpected(
        ffi::Error::InvalidArgument("jaxmatch_perturbed_jvp: shapes do not belong together"));
  }
  o.stream = reinterpret_cast<const NoiseStream*>(stream.typed_data());
  o.tangent = tangent.typed_data();
  o.reference = reference.typed_data();
  o.col4row = col4row.typed_data();
  o.jvp = jvp->typed_data();
  o.weight = weight->typed_data();
  return o;
}

}  // namespace jaxmatch::perturbed

#define JAXMATCH_JVP_BINDING                  \
  .Arg<xla::ffi::Buffer<xla::ffi::U32>>()     \
      .Arg<xla::ffi::Buffer<xla::ffi::F32>>() \
      .Arg<xla::ffi::Buffer<xla::ffi::F32>>() \
      .Arg<xla::ffi::Buffer<xla::ffi::S32>>() \
      .Ret<xla::ffi::Buffer<xla::ffi::F32>>() \
      .Ret<xla::ffi::Buffer<xla::ffi::F32>>() \
      .Attrs()

#endif  // JAXMATCH_JVP_OPERANDS_H_
