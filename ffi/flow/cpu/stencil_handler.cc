// The target jaxmatch_stencil_flow: maximum flow in a network of cells (see stencil.h) whose edges
// are given by direction. Python makes this form of a network that it has solved several times
// (jaxmatch/_flow/stencil.py). What is left to read and write are capacities and flows.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "common/cpu/index_checks.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "common/handler.h"
#include "common/limits.h"
#include "common/status.h"
#include "flow/cpu/stencil.h"
#include "grid_cut/cpu/ibfs.h"
#include "grid_cut/cpu/memory.h"
#include "grid_cut/cpu/neighbours.h"

namespace jaxmatch::flow {
namespace {

using Numbers = ffi::Buffer<ffi::S32>;

struct StencilOperands {
  // [2 * count + 2, cells], the edge from each cell in each direction, from the source to each cell
  // and from each cell to the sink; -1 if there is none. Direction k leads to the cell number plus
  // distances[k], direction count + k to the number minus distances[k].
  const int32_t* edges;
  const int32_t* distances;  // [count]
  const int32_t* capacity;   // [num_edges]
  int count;
  int32_t cells, num_edges;
  CellNumbers numbers;
  int32_t num_arcs;   // of the network
  int32_t* flow;      // [num_edges]
  bool* source_side;  // [cells + 2]

  const int32_t* row(int k) const { return edges + int64_t(k) * cells; }
};

// Returns the value of the flow, or a negative number if the problem is not solved: if edges or
// distances are invalid, if a capacity is negative, if sums of capacities at a terminal are large,
// or if the search takes long.
template <int kArcs>
class StencilFlow {
 public:
  explicit StencilFlow(const StencilOperands& o)
      : o_(o),
        memory_(3 * Memory::bytes_for<int32_t>(o.cells) +
                Memory::bytes_for<int32_t>(kArcs * int64_t(o.cells)) + Search::bytes(o.cells)),
        excess_(memory_.take<int32_t>(o.cells)),
        arcs_(memory_.take<int32_t>(kArcs * int64_t(o.cells))) {}

  int64_t solve() {
    if (!read()) return -1;
    const auto neighbours = all_neighbours();
    const grid_cut::GridCapacities<int32_t> capacities{
        {1, 1, o_.cells}, false, nullptr, nullptr, arcs_};
    Search search(capacities, neighbours, excess_, memory_);
    try {
      search.run(most_stencil_steps(o_.num_arcs));
    } catch (const grid_cut::TooManySteps&) {
      return -1;
    }
    write_sides(search);
    return write_flow(search.flow());
  }

 private:
  using Memory = grid_cut::GridMemory;
  using Search = grid_cut::GridSearch<kArcs, int32_t>;
  static constexpr int kHalf = kArcs / 2;
  static constexpr int32_t kMost = (1 << 30) - 1;

  // Directions of the search that the stencil lacks repeat its first one, without capacities.
  int32_t distance(int k) const { return o_.distances[k < o_.count ? k : 0]; }

  bool are_edges(const int32_t* edge, int32_t count) const {
    const uint32_t most = uint32_t(o_.num_edges);
    uint32_t outside = 0;
    vectorized([&]() JAXMATCH_VECTORIZED {
      uint32_t found = 0;
      for (int32_t i = 0; i < count; ++i) {
        const uint32_t next = uint32_t(edge[i]) + 1;
        found |= next | (most - next);
      }
      outside = found;
    });
    return !(outside >> 31);
  }
  // True if no capacity is negative, not even that of an edge between other nodes than cells.
  bool are_capacities() const {
    int32_t signs = 0;
    vectorized([&]() JAXMATCH_VECTORIZED {
      int32_t found = 0;
      for (int32_t k = 0; k < o_.num_edges; ++k) found |= o_.capacity[k];
      signs = found;
    });
    return signs >= 0;
  }
  // Calls f(cell, capacity) for each cell. Returns false if an edge is invalid.
  template <class F>
  bool read_row(const int32_t* edge, const F& f) const {
    constexpr int32_t kBlock = 2048;
    const int32_t* const capacity = o_.capacity;
    for (int32_t first = 0; first < o_.cells; first += kBlock) {
      const int32_t last = std::min(o_.cells, first + kBlock);
      if (!are_edges(edge + first, last - first)) return false;
      for (int32_t i = first; i < last; ++i) {
        const int32_t none = edge[i] >> 31;
        const int32_t c = capacity[edge[i] & ~none] & ~none;
        f(i, std::min(c, kMost));
      }
    }
    return true;
  }
  bool read() {
    if (o_.num_edges == 0 || !are_capacities()) return false;
    for (int k = 0; k < o_.count; ++k) {
      if (o_.distances[k] < 1 || o_.distances[k] >= o_.cells) return false;
      if (k > 0 && o_.distances[k] <= o_.distances[k - 1]) return false;
    }
    int64_t from_source = 0, to_sink = 0;
    int32_t* const excess = excess_;
    const bool reads = read_row(o_.row(2 * o_.count),
                                [&](int32_t i, int32_t c) {
                                  from_source += c;
                                  excess[i] = c;
                                }) &&
                       read_row(o_.row(2 * o_.count + 1), [&](int32_t i, int32_t c) {
                         to_sink += c;
                         excess[i] -= c;
                       });
    if (!reads || from_source >= kMost || to_sink >= kMost) return false;
    for (int k = 0; k < o_.count; ++k) {
      for (const bool back : {false, true}) {
        int32_t* const arcs = arcs_ + int64_t(k + back * kHalf) * o_.cells;
        if (!read_row(o_.row(k + back * o_.count), [&](int32_t i, int32_t c) { arcs[i] = c; })) {
          return false;
        }
        // No edge leads out of the numbers of cells.
        const int32_t d = o_.distances[k];
        const int32_t* const outside = arcs + (back ? 0 : o_.cells - d);
        if (!std::all_of(outside, outside + d, [](int32_t c) { return c == 0; })) return false;
      }
    }
    return true;
  }

  // An arc without an edge has no capacity, so all cells may count as neighbours.
  grid_cut::Neighbours<kArcs> all_neighbours() {
    uint8_t* const exists = memory_.take<uint8_t>(o_.cells);
    std::fill_n(exists, o_.cells, uint8_t((1 << kArcs) - 1));
    grid_cut::Neighbours<kArcs> found{{}, exists};
    for (int k = 0; k < kHalf; ++k) {
      const int32_t d = distance(k);
      found.offset[k] = d;
      found.offset[k + kHalf] = -d;
      for (int32_t i = 0; i < d; ++i) {
        exists[i] &= uint8_t(~(1 << (k + kHalf)));
        exists[o_.cells - 1 - i] &= uint8_t(~(1 << k));
      }
      if (k < o_.count) continue;
      for (int32_t i = 0; i < o_.cells; ++i) exists[i] &= uint8_t(~(1 << k | 1 << (k + kHalf)));
    }
    return found;
  }

  void write_sides(const Search& search) const {
    bool* const side = o_.source_side;
    const auto [low, high] = std::minmax(o_.numbers.source, o_.numbers.sink);
    search.write_sides(0, low, side);
    search.write_sides(low, high - 1, side + 1);
    search.write_sides(high - 1, o_.cells, side + 2);
    side[o_.numbers.source] = true;
    side[o_.numbers.sink] = false;
  }
  // Writes f(cell) to the edge of each cell that has one.
  template <class F>
  void write_row(const int32_t* edge, int32_t first, int32_t last, const F& f) const {
    int32_t* const flow = o_.flow;
    for (int32_t i = first; i < last; ++i) {
      if (edge[i] >= 0) flow[edge[i]] = f(i);
    }
  }
  int64_t write_flow(const int32_t* net) const {
    const int32_t cells = o_.cells;
    std::fill_n(o_.flow, o_.num_edges, 0);
    for (int k = 0; k < o_.count; ++k) {
      const int32_t* const out = net + int64_t(k) * cells;
      const int32_t d = o_.distances[k];
      write_row(o_.row(k), 0, cells, [&](int32_t i) { return std::max(out[i], 0); });
      write_row(o_.row(k + o_.count), d, cells,
                [&](int32_t i) { return std::max(-out[i - d], 0); });
    }
    const int32_t *const capacity = o_.capacity, *const excess = excess_;
    const int32_t* const from_source = o_.row(2 * o_.count);
    const int32_t* const to_sink = o_.row(2 * o_.count + 1);
    write_row(from_source, 0, cells,
              [&](int32_t i) { return capacity[from_source[i]] - std::max(excess[i], 0); });
    int64_t value = 0;
    write_row(to_sink, 0, cells, [&](int32_t i) {
      const int32_t arrives = capacity[to_sink[i]] + std::min(excess[i], 0);
      value += arrives;
      return arrives;
    });
    return value;
  }

  const StencilOperands& o_;
  grid_cut::GridMemory memory_;
  int32_t* const excess_;  // [cells]
  int32_t* const arcs_;    // [kArcs, cells]
};

int64_t solve_stencil(const StencilOperands& o) {
  switch (o.count) {
    case 1:
    case 2:
      return StencilFlow<4>(o).solve();
    case 3:
      return StencilFlow<6>(o).solve();
    default:
      return StencilFlow<8>(o).solve();
  }
}

// If the problem is not solved, the status is kUnfinished.
ffi::Error SolveStencil(Numbers edges, Numbers distances, Numbers about, Numbers capacity,
                        ffi::Result<ffi::AnyBuffer> value, ffi::Result<Numbers> flow,
                        ffi::Result<ffi::Buffer<ffi::PRED>> source_side,
                        ffi::Result<Numbers> status) {
  const auto size = [](const auto& buffer) { return int64_t(buffer.element_count()); };
  const auto is_list = [](const auto& buffer) { return buffer.dimensions().size() == 1; };
  const int64_t count = size(distances);
  const bool is_wide = value->element_type() == ffi::S64;
  if (edges.dimensions().size() != 2 || !is_list(distances) || !is_list(about) ||
      !is_list(capacity) || count < 1 || count > Stencil::kMost ||
      edges.dimensions()[0] != 2 * count + 2 || size(about) != 3 || size(*value) != 1 ||
      size(*status) != 1 || size(*flow) != size(capacity) ||
      size(*source_side) != edges.dimensions()[1] + 2 ||
      !(is_wide || value->element_type() == ffi::S32)) {
    return ffi::Error::InvalidArgument("jaxmatch_stencil_flow: the arrays do not belong together");
  }
  const int64_t cells = edges.dimensions()[1];
  if (cells + 2 > kMostVertices || size(capacity) > kMostNetworkEdges) {
    return ffi::Error::InvalidArgument("jaxmatch_stencil_flow: too many cells or edges");
  }
  const StencilOperands o{edges.typed_data(),
                          distances.typed_data(),
                          capacity.typed_data(),
                          int(count),
                          int32_t(cells),
                          int32_t(size(capacity)),
                          {about.typed_data()[0], about.typed_data()[1]},
                          about.typed_data()[2],
                          flow->typed_data(),
                          source_side->typed_data()};
  const auto [source, sink] = o.numbers;
  const bool has_ends = source >= 0 && source < cells + 2 && sink >= 0 && sink < cells + 2;
  const int64_t found = has_ends && source != sink ? solve_stencil(o) : -1;
  if (found < 0) {
    std::fill_n(o.flow, o.num_edges, -1);
    std::fill_n(o.source_side, cells + 2, false);
  }
  if (is_wide) {
    *static_cast<int64_t*>(value->untyped_data()) = std::max<int64_t>(found, -1);
  } else {
    *static_cast<int32_t*>(value->untyped_data()) = int32_t(std::max<int64_t>(found, -1));
  }
  *status->typed_data() = found < 0 ? kUnfinished : kOptimal;
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::flow

JAXMATCH_INTERRUPTIBLE_HANDLER(jaxmatch_stencil_flow, jaxmatch::flow::SolveStencil,
                               xla::ffi::Ffi::Bind()
                                   .Arg<jaxmatch::flow::Numbers>()
                                   .Arg<jaxmatch::flow::Numbers>()
                                   .Arg<jaxmatch::flow::Numbers>()
                                   .Arg<jaxmatch::flow::Numbers>()
                                   .Ret<xla::ffi::AnyBuffer>()
                                   .Ret<jaxmatch::flow::Numbers>()
                                   .Ret<xla::ffi::Buffer<xla::ffi::PRED>>()
                                   .Ret<jaxmatch::flow::Numbers>());
