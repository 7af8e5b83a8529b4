// The target jaxmatch_matching on the CPU: checks each graph, finds an initial matching, makes it
// maximum, and writes the vertex cover.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <optional>

#include "common/cpu/host_arena.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "common/status.h"
#include "matching/cpu/auto.h"
#include "matching/cpu/auto_parallel.h"
#include "matching/cpu/check_graph.h"
#include "matching/cpu/cover.h"
#include "matching/cpu/hopcroft_karp.h"
#include "matching/cpu/parallel.h"
#include "matching/cpu/pothen_fan.h"
#include "matching/cpu/push_relabel.h"
#include "matching/cpu/start.h"
#include "matching/cpu/state.h"
#include "matching/operands.h"

namespace jaxmatch::matching {
namespace {

// The method "auto" searches from the side with fewer free vertices that have edges. Both sides
// have equally many matched vertices, so this is the side with fewer vertices that have edges.
bool auto_searches_from_columns(const BipartiteCsr& g) {
  return count_with_edges(g.col_ptr, g.m) < count_with_edges(g.row_ptr, g.n);
}

// The factor k of push-relabel: a global relabelling comes after every k (n + m) pushes. If the
// option "relabel" is "fixed", "k" is a number of rounds on a GPU, so the default is used here.
double relabel_factor(Options& options) {
  constexpr double kFactor = 0.5;
  const bool is_fixed = options.has("relabel") && options.named("relabel", kRelabels);
  return is_fixed || !options.has("k") ? kFactor : options.real("k");
}

// Extends the matching to a maximum one. Returns the columns reachable from free rows by
// alternating paths, or null if the algorithm does not compute them.
Bitmap find_maximum(MatchingMethod method, double relabel_factor, const Spread& spread,
                    PartialMatching& s, HostArena& scratch) {
  switch (method) {
    case MatchingMethod::kAuto:
      return ParallelAutoSearch::pays(s, spread) ? ParallelAutoSearch(s, scratch, spread).run()
                                                 : AutoSearch(s, scratch).run();
    case MatchingMethod::kHopcroftKarp:
    case MatchingMethod::kApsb:
      return HopcroftKarp(s, scratch).run(false);
    case MatchingMethod::kHkdw:
    case MatchingMethod::kApfb:
      return HopcroftKarp(s, scratch).run(true);
    case MatchingMethod::kPothenFan:
      return PothenFan<Marks>(s, scratch).run(Spread(nullptr));
    case MatchingMethod::kPushRelabel:
      return PushRelabel(s, scratch, relabel_factor).run();
    case MatchingMethod::kPPfp:
      return PothenFan<Claims>(s, scratch).run(spread);
    case MatchingMethod::kInitOnly:
      break;
  }
  return {};
}

void write_invalid(const BipartiteCsr& g, const MatchingResults& out) {
  std::fill_n(out.col4row, g.n, -1);
  std::fill_n(out.row4col, g.m, -1);
  std::fill_n(out.row_cover, g.n, false);
  std::fill_n(out.col_cover, g.m, false);
  *out.cardinality = -1;
  *out.status = kInvalidGraph;
}

// Scratch bytes per vertex: more than the initial matching, the method and its fallback need
// together. A single allocation for all of them saved up to 5 % of the time.
constexpr size_t kScratchBytes = 16 * sizeof(int32_t);

// Returns false if memory runs out.
bool solve_graph(const MatchingOperands& o, double relabel_factor, int64_t b, const Spread& spread,
                 HostArena& scratch) try {
  const BipartiteCsr g = o.graph(b);
  const MatchingResults out = o.results_of(b);
  if (!is_walkable(g, spread)) {
    write_invalid(g, out);
    return true;
  }
  scratch.reset(kScratchBytes * (size_t(g.n) + g.m + 64));
  PartialMatching rows{g.n,       g.m,         g.row_ptr,   g.col_ind, g.col_ptr,
                       g.row_ind, out.col4row, out.row4col, 0};
  start_from(rows, o.start_of(b));
  if (o.init == MatchingInit::kKarpSipser) {
    KarpSipser(rows, scratch).run();
  } else if (o.init == MatchingInit::kCheap) {
    cheap_matching(rows);
  }
  const bool from_columns = o.method == MatchingMethod::kAuto && auto_searches_from_columns(g);
  PartialMatching s = from_columns ? rows.transposed() : rows;
  if (o.init == MatchingInit::kAuto) cheap_matching(s);
  bool* const cover = from_columns ? out.col_cover : out.row_cover;
  bool* const other_cover = from_columns ? out.row_cover : out.col_cover;
  if (o.method == MatchingMethod::kInitOnly) {
    std::fill_n(cover, s.n, false);
    std::fill_n(other_cover, s.m, false);
    *out.status = kUnfinished;
  } else {
    Bitmap reached = find_maximum(o.method, relabel_factor, spread, s, scratch);
    if (!reached) reached = reach_from_free_rows(s, scratch);
    write_cover(s, reached, cover, other_cover);
    *out.status = kOptimal;
  }
  *out.cardinality = s.cardinality;
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

ffi::Error Matching(ffi::ThreadPool pool, Indices row_ptr, Indices col_ind, Indices col_ptr,
                    Indices row_ind, ffi::RemainingArgs optional, ffi::Result<Indices> col4row,
                    ffi::Result<Indices> row4col, ffi::Result<Indices> cardinality,
                    ffi::Result<Flags> row_cover, ffi::Result<Flags> col_cover,
                    ffi::Result<Indices> status, ffi::Dictionary attributes) {
  const auto decoded =
      decode_matching(row_ptr, col_ind, col_ptr, row_ind, optional, col4row, row4col, cardinality,
                      row_cover, col_cover, status, attributes);
  if (!decoded.has_value()) return decoded.error();
  const MatchingOperands& o = *decoded;
  Options options("jaxmatch_matching", o.options);
  const double factor = relabel_factor(options);
  if (options.failed()) return options.error();
  std::atomic<bool> out_of_memory{false};
  if (o.batch == 1) {
    HostArena scratch;
    out_of_memory = !solve_graph(o, factor, 0, Spread(&pool), scratch);
  } else {
    const double vertices = double(o.first.n) + o.first.m, edges = double(o.first.capacity);
    for_each_range(pool, o.batch, 200 + 5 * (vertices + edges), [&](int64_t first, int64_t last) {
      HostArena scratch;
      for (int64_t b = first; b < last; ++b) {
        if (!solve_graph(o, factor, b, Spread(nullptr), scratch)) out_of_memory = true;
      }
    });
  }
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_matching: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::matching

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_matching, jaxmatch::matching::Matching,
    JAXMATCH_BIND_MATCHING(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()).Attrs());
