// Operands and results of the target jaxmatch_matching, and the memory layout of a bipartite graph.
#ifndef JAXMATCH_MATCHING_OPERANDS_H_
#define JAXMATCH_MATCHING_OPERANDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/attributes.h"
#include "common/handler.h"
#include "common/host_device.h"
#include "common/limits.h"

namespace jaxmatch::matching {

enum class MatchingMethod {
  kAuto,
  kHopcroftKarp,
  kHkdw,
  kPothenFan,
  kPushRelabel,
  kPPfp,
  kApsb,
  kApfb,
  kInitOnly,  // the initial matching is the result
};
constexpr Name<MatchingMethod> kMatchingMethods[] = {
    {"auto", MatchingMethod::kAuto},
    {"hopcroft_karp", MatchingMethod::kHopcroftKarp},
    {"hkdw", MatchingMethod::kHkdw},
    {"pothen_fan", MatchingMethod::kPothenFan},
    {"push_relabel", MatchingMethod::kPushRelabel},
    {"p_pfp", MatchingMethod::kPPfp},
    {"apsb", MatchingMethod::kApsb},
    {"apfb", MatchingMethod::kApfb},
    {"init_only", MatchingMethod::kInitOnly},
};
enum class MatchingInit { kAuto, kNone, kCheap, kKarpSipser };
constexpr Name<MatchingInit> kMatchingInits[] = {
    {"auto", MatchingInit::kAuto},
    {"none", MatchingInit::kNone},
    {"cheap", MatchingInit::kCheap},
    {"karp_sipser", MatchingInit::kKarpSipser},
};

// Values of the option "relabel" of push-relabel. True: global relabellings come after a fixed
// number of rounds (on GPUs only). False: the number of rounds depends on the graph.
constexpr Name<bool> kRelabels[] = {{"adaptive", false}, {"fixed", true}};

// A bipartite graph, by rows and by columns. Row i is adjacent to the columns col_ind[row_ptr[i] ..
// row_ptr[i + 1]), column j to the rows row_ind[col_ptr[j] .. col_ptr[j + 1]). The arrays are
// unchecked: pointers may decrease or point outside the arrays, indices may be out of range, and
// the two directions (by rows and by columns) may contain different edges. A solver first checks
// pointers and indices. It does not check that the directions agree; if they differ, it must still
// terminate and stay within its arrays.
struct BipartiteCsr {
  int32_t n, m;            // rows, columns
  int64_t capacity;        // length of col_ind and of row_ind
  const int32_t* row_ptr;  // [n + 1]
  const int32_t* col_ind;  // [capacity]
  const int32_t* col_ptr;  // [m + 1]
  const int32_t* row_ind;  // [capacity]
};

struct MatchingResults {
  int32_t* col4row;      // [n]
  int32_t* row4col;      // [m]
  int32_t* cardinality;  // scalar
  bool* row_cover;       // [n]
  bool* col_cover;       // [m]
  int32_t* status;       // scalar
};

struct MatchingOperands {
  int64_t batch;
  BipartiteCsr first;       // first graph of the batch
  const int32_t* start;     // [batch, n] columns or -1, unchecked; null if not given
  MatchingResults results;  // results of the first graph
  MatchingMethod method;
  MatchingInit init;
  std::string_view options;  // options of the method, which Options parses
  int64_t steps;             // limit on steps (phases, rounds or levels) in one call; 0: no limit
  bool resumed;              // true if the call continues from the state of an earlier call

  JAXMATCH_HOST_DEVICE BipartiteCsr graph(int64_t b) const {
    BipartiteCsr g = first;
    g.row_ptr += b * (int64_t(g.n) + 1);
    g.col_ptr += b * (int64_t(g.m) + 1);
    g.col_ind += b * g.capacity;
    g.row_ind += b * g.capacity;
    return g;
  }
  JAXMATCH_HOST_DEVICE const int32_t* start_of(int64_t b) const {
    return start ? start + b * first.n : nullptr;
  }
  JAXMATCH_HOST_DEVICE MatchingResults results_of(int64_t b) const {
    const int64_t n = first.n, m = first.m;
    const MatchingResults& r = results;
    return {r.col4row + b * n,   r.row4col + b * m,   r.cardinality + b,
            r.row_cover + b * n, r.col_cover + b * m, r.status + b};
  }
};

using Indices = ffi::Buffer<ffi::S32>;
using Flags = ffi::Buffer<ffi::PRED>;

inline ffi::ErrorOr<MatchingOperands> decode_matching(
    const Indices& row_ptr, const Indices& col_ind, const Indices& col_ptr, const Indices& row_ind,
    ffi::RemainingArgs optional, ffi::Result<Indices> col4row, ffi::Result<Indices> row4col,
    ffi::Result<Indices> cardinality, ffi::Result<Flags> row_cover, ffi::Result<Flags> col_cover,
    ffi::Result<Indices> status, const ffi::Dictionary& attributes) {
  const auto wrong = [](const std::string& what) {
    return ffi::Unexpected(ffi::Error::InvalidArgument("jaxmatch_matching: " + what));
  };
  Attributes given("jaxmatch_matching", attributes);
  const int start_at = given.operand("start");
  std::optional<Indices> start;
  if (start_at >= 0) {
    const auto buffer = optional.get<Indices>(size_t(start_at));
    if (!buffer.has_value()) return ffi::Unexpected(buffer.error());
    start = *buffer;
  }
  const auto last = [](const auto& buffer) { return int64_t(buffer.dimensions().back()); };
  for (const Indices* x : {&row_ptr, &col_ind, &col_ptr, &row_ind}) {
    if (x->dimensions().size() == 0) return wrong("a graph's arrays need a dimension");
  }
  const int64_t batch = batch_size(row_ptr.dimensions(), 1);
  const int64_t n = last(row_ptr) - 1, m = last(col_ptr) - 1, capacity = last(col_ind);
  if (n < 0 || m < 0) return wrong("row_ptr and col_ptr hold at least one entry");
  if (n > kMostVertices || m > kMostVertices || capacity > kMostGraphEdges) {
    return wrong("a side longer than " + std::to_string(kMostVertices) + ", or more than " +
                 std::to_string(kMostGraphEdges) + " edges");
  }
  const auto holds = [](const auto& buffer, int64_t count) {
    return int64_t(buffer.element_count()) == count;
  };
  if (!holds(col_ptr, batch * (m + 1)) || !holds(col_ind, batch * capacity) ||
      !holds(row_ind, batch * capacity) || (start && !holds(*start, batch * n)) ||
      !holds(*col4row, batch * n) || !holds(*row4col, batch * m) || !holds(*cardinality, batch) ||
      !holds(*row_cover, batch * n) || !holds(*col_cover, batch * m) || !holds(*status, batch)) {
    return wrong("the arrays do not belong together");
  }
  const MatchingMethod method = given.named("method", kMatchingMethods);
  const MatchingInit init = given.named("init", kMatchingInits);
  const std::string_view options = given.word("options");
  const int64_t steps = given.integer("steps");
  const bool resumed = given.operand("state") >= 0;
  if (given.failed()) return ffi::Unexpected(given.error());
  return MatchingOperands{batch,
                          {int32_t(n), int32_t(m), capacity, row_ptr.typed_data(),
                           col_ind.typed_data(), col_ptr.typed_data(), row_ind.typed_data()},
                          start ? start->typed_data() : nullptr,
                          {col4row->typed_data(), row4col->typed_data(), cardinality->typed_data(),
                           row_cover->typed_data(), col_cover->typed_data(), status->typed_data()},
                          method,
                          init,
                          options,
                          steps,
                          resumed};
}

}  // namespace jaxmatch::matching

// Binds the arguments and the results that the CPU handler and the CUDA handler share. `binding`
// has the platform's context already.
#define JAXMATCH_BIND_MATCHING(binding)   \
  (binding)                               \
      .Arg<jaxmatch::matching::Indices>() \
      .Arg<jaxmatch::matching::Indices>() \
      .Arg<jaxmatch::matching::Indices>() \
      .Arg<jaxmatch::matching::Indices>() \
      .RemainingArgs()                    \
      .Ret<jaxmatch::matching::Indices>() \
      .Ret<jaxmatch::matching::Indices>() \
      .Ret<jaxmatch::matching::Indices>() \
      .Ret<jaxmatch::matching::Flags>()   \
      .Ret<jaxmatch::matching::Flags>()   \
      .Ret<jaxmatch::matching::Indices>()
#endif  // JAXMATCH_MATCHING_OPERANDS_H_
