// The k best assignments. The best one is found by shortest augmenting paths, the others by Murty's
// partition, with the bounds, the order and the warm starts of Miller, Stone and Cox (see
// k_best/cpu/tree.h).
//
// Included by portable.cc, avx2.cc and avx512.cc, which define JAXMATCH_ISA_NAMESPACE (the
// namespace) and are compiled for their instruction set. Only solve_k_best may have external
// linkage, and nothing may come from the C++ standard library (see k_best/cpu/problem.h).

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(JAXMATCH_AVX2) || defined(JAXMATCH_AVX512)
#include <immintrin.h>
#endif

#include "common/cpu/poll.h"
#include "common/host_device.h"
#include "k_best/cpu/problem.h"

namespace jaxmatch::k_best {
namespace JAXMATCH_ISA_NAMESPACE {
namespace {

// clang-format off: each of these needs the ones before it.
#include "common/exact_sum.inc.h"
#include "common/float16.inc.h"
#include "common/cpu/number_format.inc.h"
#include "common/cost_levels.inc.h"
#include "common/cost_units.inc.h"
#include "common/cpu/lanes.inc.h"
#include "common/cpu/stack.inc.h"
#include "common/reals.inc.h"
#include "k_best/cpu/vectors.h"
#include "k_best/cpu/units.h"
#include "k_best/cpu/search.h"
#include "k_best/cpu/tree.h"
#include "k_best/cpu/partition.h"
#include "k_best/cpu/enumerate.h"
#include "k_best/cpu/finish.h"
// clang-format on

// The number of ways to match all rows, cols! / (cols - rows)!, or `limit` if that is less.
int64_t most_assignments(const Form& f, int64_t limit) {
  int64_t count = 1;
  for (int32_t i = 0; i < f.rows && count < limit; ++i) {
    const __int128 more = __int128(count) * (f.cols - i);
    count = more < limit ? int64_t(more) : limit;
  }
  return count;
}

struct Workspace {
  Matrix c;
  Assignment now;
  int64_t *open, *dist, *from, *length, *busy, *avoid, *into, *bound;
  int32_t* settled;
  Tree tree;
  int32_t* queue;
  int64_t* known;
  Ranked* ranked;

  void allocate(Form* f, const KBestProblem& p, int64_t k, Stack* stack) {
    f->allocate(p, stack);
    c.rows = f->rows;
    c.cols = f->cols;
    c.stride = f->stride;
    c.cost = stack->take<int64_t>(c.all_rows() * c.stride);
    now.col4row = stack->take<int32_t>(c.all_rows());
    now.row4col = stack->take<int32_t>(c.cols);
    now.v = stack->take<int64_t>(c.stride);
    open = stack->take<int64_t>(c.stride);
    dist = stack->take<int64_t>(c.stride);
    from = stack->take<int64_t>(c.stride);
    length = stack->take<int64_t>(c.stride);
    busy = stack->take<int64_t>(c.stride);
    avoid = stack->take<int64_t>(c.stride);
    into = stack->take<int64_t>(c.stride);
    bound = stack->take<int64_t>(c.rows);
    settled = stack->take<int32_t>(c.cols);
    tree.rows = c.rows;
    tree.stride = c.stride;
    tree.keys = (c.rows + 7) / 8 * 8;
    tree.size = 0;
    tree.node = stack->take<Node>(k);
    tree.col4row = stack->take<int32_t>(k * (c.rows + 1));
    tree.order = stack->take<int32_t>(k * c.rows);
    tree.v = stack->take<int64_t>(k * tree.stride);
    tree.key = stack->take<Key>(k * tree.keys);
    tree.rise = stack->take<int64_t>(k * tree.keys);
    queue = stack->take<int32_t>(k);
    known = stack->take<int64_t>(k);
    ranked = stack->take<Ranked>(k);
  }
};

// Lists the k best assignments for the costs that `map` yields. `most` is the greatest magnitude of
// these costs. Returns the number of assignments found.
template <class Elem>
int64_t enumerate(const KBestProblem& p, const Form& f, Workspace& w, int64_t k, double most,
                  const CostMap& map) {
  Matrix& c = w.c;
  CostSummary found;
  found.most = most;
  if (!Format<Elem>::kInteger) choose_unit<Elem>(found, p.maximize, &c);
  c.map = map;
  convert_costs<Elem>(p, f, &c);
  w.tree.size = 0;
  Search search{c, w.now, w.open, w.dist, w.from, w.length, w.busy, w.settled, 0, p.counts};
  Partition partition{c, w.tree, w.open, w.avoid, w.into, w.bound};
  Enumeration all{c, k, w.tree, search, partition, Queue{w.tree, w.queue}, {w.known, 0, k}};
  return all.run() ? w.tree.size : 0;
}

// Solves with the lowest level of costs alone (common/cost_levels.inc.h) and forbids all other
// costs. Then allows one more level each time, until there are k assignments or no more levels.
// A unit large enough for the costs of a high level would round the costs below them away. So
// before each solve, draw_near() replaces the costs of a high level, where it can, by a smaller
// number that still outweighs all lower levels. Returns false if there is no assignment.
template <class Elem>
bool solve_levels(const KBestProblem& p, const Form& f, Workspace& w, int64_t k,
                  const CostSummary& found) {
  const CostLevels levels = find_levels<Elem>(p, f, found);
  for (int end = 1; end <= levels.count; ++end) {
    double most = 0;
    CostMap map = draw_near(levels, end, most_pairs(f), &most);
    const bool draws = map.draws_near();
    const double all_most = levels.count > 1 ? levels.level[end - 1].most : found.most;
    if (!draws) most = all_most;
    const int64_t count = enumerate<Elem>(p, f, w, k, most, map);
    if (count < k && end < levels.count) continue;
    if (count == 0) return false;
    write_solution<Elem>(p, f, w.c, w.tree, w.ranked);
    // If the best assignment has a cost that draw_near() may have lowered, its duals do not prove
    // that it is optimal for the given costs. They are then computed again without draw_near().
    if (draws && first_pays<Elem>(p, f, w.c, w.tree, levels.level[1].from)) {
      enumerate<Elem>(p, f, w, 1, all_most, forbid_from(levels, end));
      write_duals(p, f, w.c, w.tree);
    }
    return true;
  }
  return false;
}

template <class Elem>
bool solve_as(const KBestProblem& p, Arena* arena) {
  Form f(p);
  const int64_t k = most_assignments(f, p.k);
  Workspace w;
  Stack stack;
  w.allocate(&f, p, k, &stack);
  if (!reserve(arena, stack.used, &stack)) return false;
  w.allocate(&f, p, k, &stack);
  p.counts[kSearches] = p.counts[kScans] = 0;
  const CostSummary found = summarize_costs<Elem>(p, f);
  Status status = found.invalid ? kInvalidCost : kOptimal;
  if (status == kOptimal && !choose_unit<Elem>(found, p.maximize, &w.c)) status = kOverflow;
  if (status == kOptimal && !solve_levels<Elem>(p, f, w, k, found)) status = kInfeasible;
  if (status != kOptimal) write_failure(p, status);
  return true;
}

}  // namespace

bool solve_k_best(const KBestProblem& p, Arena* arena) {
  switch (p.cost_dtype) {
    case Dtype::kBF16:
      return solve_as<BFloat16>(p, arena);
    case Dtype::kF16:
      return solve_as<Float16>(p, arena);
    case Dtype::kF32:
      return solve_as<float>(p, arena);
    case Dtype::kF64:
      return solve_as<double>(p, arena);
    case Dtype::kS32:
      return solve_as<int32_t>(p, arena);
    case Dtype::kS64:
      return solve_as<int64_t>(p, arena);
  }
  return false;
}

}  // namespace JAXMATCH_ISA_NAMESPACE
}  // namespace jaxmatch::k_best
