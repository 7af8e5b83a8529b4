// Decodes the operands of the target jaxmatch_assignment_sharded, for both platforms.
#ifndef JAXMATCH_LARGE_SHARDED_OPERANDS_H_
#define JAXMATCH_LARGE_SHARDED_OPERANDS_H_

#include <type_traits>

#include "assignment/large/operands.h"
#include "assignment/large/point_costs.h"
#include "assignment/large/sharded/solve.h"
#include "costs/metric_names.h"

namespace jaxmatch::assignment::large {

struct ShardedOperands {
  LargeMethod method;        // kAuction: as kCore, but may run an auction
  AssignmentOperands whole;  // sides of the whole problem, costs of the shard
  bool rows;                 // rows are sharded; else columns
  const void* other_points;  // points of the unsharded side, or null
  Metric metric;
  int64_t dims;
  int64_t devices;
  const int32_t* me;  // index of this device, in device memory
  const int64_t* reduction_in;
  GatheredBlocks gathered;
  int32_t* control;
  char* scratch;
  char* cores_out;
  TightList* lists_out;
  char *packed_in, *packed_out;
  int64_t* reduction_out;

  // The length of the sharded side per device, and the length of the other side. The sizes of
  // gathered blocks, below, suffice whichever side becomes the canonical rows.
  int64_t each() const { return (rows ? whole.n : whole.m) / devices; }
  int64_t other() const { return rows ? whole.m : whole.n; }
  int64_t core_count() const {
    if (!has_core(method)) return 0;
    return std::max(each() * kColumnClasses, other() * (kColumnClasses / devices));
  }
  // Size in bytes of a packed block with the candidate sets of 1 / `part` of the rows.
  int64_t packed_bytes(int64_t part) const {
    if (!has_core(method)) return 0;
    return PackedBlocks::kHeaderBytes +
           std::max(each() / part * PackedRow::bytes_of(kColumnClasses),
                    other() / part * PackedRow::bytes_of(kColumnClasses / devices));
  }
  // The number of lists, one per canonical row. Canonical rows are the side with fewer unmasked
  // entries; with masks they may be either side.
  int64_t list_count() const {
    const bool masked = whole.row_mask || whole.col_mask;
    return masked ? std::max(whole.n, whole.m) : std::min(whole.n, whole.m);
  }
  int64_t reduction_words() const {
    return ReductionBuffer::kHeaderWords +
           std::max(whole.n, whole.m) * ReductionBuffer::kWordsPerItem;
  }

  // Lays out the state of the problem and returns its size. To find only the size, scratch may be
  // null.
  template <class T>
  int64_t lay_out(Sharded<T>* d) const {
    Layout layout(scratch, reinterpret_cast<Control*>(control), whole.n, whole.m,
                  whole.row_mask || whole.col_mask);
    if (has_core(method)) lay_out_core(layout);
    d->offer = layout.parts.take<uint64_t>(layout.cols);
    d->paid = layout.parts.take<int64_t>(layout.rows);
    d->least = layout.parts.take<int64_t>(layout.rows);
    d->listed = layout.parts.take<int32_t>(layout.rows * d->kListed);
    d->p.s = layout.s;
    return layout.parts.used;
  }

  template <class T>
  Sharded<T> problem() const {
    Sharded<T> d;
    lay_out(&d);
    find(d.p.costs);
    d.p.row_mask = whole.row_mask;
    d.p.col_mask = whole.col_mask;
    d.p.maximize = whole.maximize;
    const int64_t side = std::max(whole.n, whole.m);
    d.reduction = {reduction_in, reduction_out, side, devices, reduction_words()};
    d.gathered = gathered;
    d.packed = {packed_in, packed_out, packed_bytes(PackedBlocks::kSomePart),
                packed_bytes(PackedBlocks::kFewPart)};
    d.continuation = reinterpret_cast<Continuation*>(control + kContinuationAt);
    d.core = has_core(method);
    d.may_hold_auction = method == LargeMethod::kAuction;
    d.tree = method != LargeMethod::kClassical;
    return d;
  }

  // The problem as a search needs it, without costs.
  LargeProblem<float> without_costs() const {
    Sharded<float> d = problem<float>();
    d.p.costs = {};
    return d.p;
  }

  template <class T>
  void find(QuantizedCosts<T>& costs) const {
    costs = {whole.cost, rows ? whole.m : each()};
  }
  template <class T>
  void find(QuantizedCosts<Points<T>>& costs) const {
    costs.row_points = static_cast<const T*>(rows ? whole.cost : other_points);
    costs.col_points = static_cast<const T*>(rows ? other_points : whole.cost);
    costs.rows = rows ? each() : whole.n;
    costs.cols = rows ? whole.m : each();
    costs.dims = dims;
    costs.metric = metric;
  }

  // Calls solve() with an element of the costs' dtype, or with Points of that dtype. Callers widen
  // costs of 16 bits, so that there need not be kernels for them.
  template <class Solve>
  ffi::Error for_costs(Solve solve) const {
    return large::for_costs(whole.cost_dtype, other_points != nullptr, [&](auto element) {
      using T = decltype(element);
      constexpr bool kIsNarrow = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;
      if constexpr (!kIsNarrow) return solve(element);
      return ffi::Error::InvalidArgument("jaxmatch_assignment_sharded: costs of 16 bits");
    });
  }
};

// The operands after the costs (or the points of the sharded side) are masks, the points of the
// other side, the device index, the gathered data of all devices, and this device's state.
inline ffi::ErrorOr<ShardedOperands> decode_sharded(ffi::RemainingArgs args,
                                                    ffi::RemainingRets rets,
                                                    const ffi::Dictionary& attributes) {
  Attributes given("jaxmatch_assignment_sharded", attributes);
  const auto fail = [&](const std::string& what) { return ffi::Unexpected(given.error(what)); };
  const auto shard = decode_assignment(args, rets, given, 6);
  if (!shard.has_value()) return ffi::Unexpected(shard.error());
  const auto operand = [&](const char* name, int64_t bytes) -> void* {
    const auto buffer = optional_operand(args, given, name, ffi::S32);
    return buffer && int64_t(buffer->size_bytes()) >= bytes ? buffer->untyped_data() : nullptr;
  };
  const auto kept = [&](size_t at) { return result_at(rets, kNumResults + at); };
  const auto control = kept(0), scratch = kept(1), cores = kept(2), lists = kept(3),
             packed = kept(4), reduction = kept(5);
  for (const auto& result : {control, scratch, cores, lists, packed, reduction}) {
    if (result->element_type() != ffi::S32) return fail("what the device keeps must be int32");
  }
  ShardedOperands o{};
  o.method = given.named("method", kLargeMethods);
  o.whole = *shard;
  const bool rows = o.rows = given.flag("rows");
  const int64_t devices = o.devices = given.integer("devices");
  o.metric = given.named("metric", kMetrics);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (devices < 1 || devices > kColumnClasses || shard->batch != 1) {
    return fail("one problem, on 1 to " + std::to_string(kColumnClasses) + " devices");
  }
  if (const auto points = optional_operand(args, given, "other_points", std::nullopt)) {
    if (points->dimensions().size() != 2 || points->dimensions()[0] != shard->n ||
        dtype_of(points->element_type()) != shard->cost_dtype) {
      return fail("two sets of points that do not go together");
    }
    o.other_points = points->untyped_data();
    o.dims = shard->n;
    const int64_t mine = shard->m, others = points->dimensions()[1];
    o.whole.n = rows ? mine : others;
    o.whole.m = rows ? others : mine;
  }
  (rows ? o.whole.n : o.whole.m) *= devices;
  if (std::max(o.whole.n, o.whole.m) > kLongestSide) return fail(too_long());
  const int64_t core_bytes = o.core_count() * GatheredBlocks::kBytesOfClass;
  o.me = static_cast<const int32_t*>(operand("device", 4));
  o.reduction_in =
      static_cast<const int64_t*>(operand("reduction", devices * 8 * o.reduction_words()));
  o.gathered.core_count = o.core_count();
  o.gathered.list_count = o.list_count();
  o.gathered.cores = static_cast<const char*>(operand("cores", devices * core_bytes));
  o.gathered.lists = static_cast<const TightList*>(
      operand("lists", devices * o.list_count() * int64_t(sizeof(TightList))));
  const int64_t packed_bytes = o.packed_bytes(PackedBlocks::kSomePart);
  o.packed_in = static_cast<char*>(operand("packed", devices * packed_bytes));
  o.control = static_cast<int32_t*>(control->untyped_data());
  o.cores_out = static_cast<char*>(cores->untyped_data());
  o.lists_out = static_cast<TightList*>(lists->untyped_data());
  o.packed_out = static_cast<char*>(packed->untyped_data());
  o.reduction_out = static_cast<int64_t*>(reduction->untyped_data());
  if (given.failed()) return ffi::Unexpected(given.error());
  Sharded<float> measured;
  if (!check_assignment(args, rets, given, o.whole)) return ffi::Unexpected(given.error());
  if (!o.me || !o.reduction_in || (core_bytes > 0 && !o.gathered.cores) || !o.gathered.lists ||
      (packed_bytes > 0 && !o.packed_in) || int64_t(packed->size_bytes()) < packed_bytes ||
      int64_t(control->size_bytes()) < 4 * kControlWords ||
      int64_t(scratch->size_bytes()) < o.lay_out(&measured) ||
      int64_t(cores->size_bytes()) < core_bytes ||
      int64_t(lists->size_bytes()) < o.list_count() * int64_t(sizeof(TightList)) ||
      int64_t(reduction->size_bytes()) != 8 * o.reduction_words()) {
    return fail("a buffer has the wrong size");
  }
  o.scratch = static_cast<char*>(scratch->untyped_data());
  return o;
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_OPERANDS_H_
