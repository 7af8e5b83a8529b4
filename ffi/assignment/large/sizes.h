// Sizes of the buffers of a large problem, and indices of the control words that Python reads.
#ifndef JAXMATCH_LARGE_SIZES_H_
#define JAXMATCH_LARGE_SIZES_H_

#include <cstddef>
#include <cstdint>

#include "assignment/large/sharded/operands.h"
#include "common/sizes.h"

namespace jaxmatch::assignment::large {

// Scratch memory that a method needs, in 32-bit words. The arguments are n, m, and whether there
// are masks.
template <LargeMethod kMethod>
int64_t scratch_words(const int64_t* a) {
  int64_t bytes;
  lay_out(kMethod, nullptr, nullptr, a[0], a[1], a[2] != 0, &bytes);
  return words(bytes);
}

// Example operands of a sharded problem, to compute its sizes from. The arguments are n rows, m
// columns, whether there are masks, whether rows (not columns) are sharded, and the number of
// devices.
template <bool kHasCores>
ShardedOperands sharded_example(const int64_t* a) {
  static const uint8_t there = 1;
  ShardedOperands o{};
  o.method = kHasCores ? LargeMethod::kCore : LargeMethod::kTree;
  o.whole.n = a[0];
  o.whole.m = a[1];
  o.whole.row_mask = a[2] ? &there : nullptr;
  o.rows = a[3] != 0;
  o.devices = a[4];
  return o;
}
template <bool kHasCores>
int64_t sharded_scratch_words(const int64_t* a) {
  Sharded<float> d;
  return words(sharded_example<kHasCores>(a).lay_out(&d));
}

constexpr int64_t spent_at(Stage stage) { return offsetof(Control, spent) / 4 + 2 * stage; }

constexpr Size kSizes[] = {
    {"large.control", constant<kControlWords>},
    {"large.control.stage", constant<offsetof(Control, stage) / 4>},
    {"large.control.free_rows", constant<offsetof(Control, free_rows) / 4>},
    {"large.control.steps", constant<offsetof(Control, steps) / 4>},
    {"large.control.pricings", constant<offsetof(Control, pricings) / 4>},
    {"large.control.dense_steps", constant<offsetof(Control, dense_steps) / 4>},
    {"large.control.termination_rounds", constant<offsetof(Control, rounds) / 4>},
    {"large.control.bids", constant<offsetof(Control, bids) / 4>},
    {"large.control.rows", constant<offsetof(Control, rows) / 4>},
    {"large.control.trees", constant<offsetof(Control, trees) / 4>},
    // Nanoseconds of each stage, as 64-bit integers. The Hungarian methods have other steps, whose
    // time is counted under stages of the core method.
    {"large.control.spent.look", constant<spent_at(kBegin)>},
    {"large.control.spent.select", constant<spent_at(kSelect)>},
    {"large.control.spent.bid", constant<spent_at(kBid)>},
    {"large.control.spent.augment", constant<spent_at(kAugment)>},
    {"large.control.spent.price", constant<spent_at(kPrice)>},
    {"large.control.spent.auction", constant<spent_at(kAuction)>},
    {"large.control.spent.refine", constant<spent_at(kRefine)>},
    {"large.control.spent.reduce", constant<spent_at(kReduce)>},
    {"large.control.spent.compress", constant<spent_at(kCompress)>},
    {"large.control.spent.search", constant<spent_at(kSearch)>},
    {"large.control.spent.dual_update", constant<spent_at(kUpdateDuals)>},
    {"large.control.request", constant<kContinuationAt + offsetof(Continuation, request) / 4>},
    {"large.stage.auction", constant<kAuction>},
    {"large.stage.done", constant<kDone>},
    {"large.request.reduction", constant<kRequestReduction>},
    {"large.request.cores", constant<kRequestCores>},
    {"large.request.lists", constant<kRequestLists>},
    {"large.request.some", constant<kRequestSome>},
    {"large.request.few", constant<kRequestFew>},
    {"large.most_devices", constant<kColumnClasses>},
    {"large.longest_side", constant<kLongestSide>},
    // The arguments are n, m, and whether there are masks.
    {"large.scratch.core", scratch_words<LargeMethod::kCore>},
    {"large.scratch.auction", scratch_words<LargeMethod::kAuction>},
    {"large.scratch.classical", scratch_words<LargeMethod::kClassical>},
    {"large.scratch.tree", scratch_words<LargeMethod::kTree>},
    // For the arguments see sharded_example().
    {"sharded.scratch.core", sharded_scratch_words<true>},
    {"sharded.scratch", sharded_scratch_words<false>},
    {"sharded.cores",
     [](const int64_t* a) {
       return words(sharded_example<true>(a).core_count() * GatheredBlocks::kBytesOfClass);
     }},
    {"sharded.packed.some",
     [](const int64_t* a) {
       return words(sharded_example<true>(a).packed_bytes(PackedBlocks::kSomePart));
     }},
    {"sharded.packed.few",
     [](const int64_t* a) {
       return words(sharded_example<true>(a).packed_bytes(PackedBlocks::kFewPart));
     }},
    {"sharded.lists",
     [](const int64_t* a) {
       return words(sharded_example<false>(a).list_count() * int64_t(sizeof(TightList)));
     }},
    {"sharded.reduction",
     [](const int64_t* a) { return words(8 * sharded_example<false>(a).reduction_words()); }},
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SIZES_H_
