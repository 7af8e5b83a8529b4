// Recomputes the flows of a plan from the given float masses.
#ifndef JAXMATCH_CUDA_TRANSPORT_FLOWS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_FLOWS_CUH_

#include "transport/cuda/masses.cuh"
#include "transport/cuda/plan.cuh"

namespace jaxmatch::transport {

#include "transport/plan_flows.inc.h"

// Sends the mass that nodes could not send when flows were recomputed. All threads of one block
// call run() and change() together, after a barrier. These functions end with a barrier.
template <class C>
struct RestSender {
  Team team;
  const C& c;
  const Workspace& w;
  PlanFlows& f;  // each thread has a copy

  // The first thread calls the argument, which may change the flows. All threads then copy the new
  // totals.
  template <class F>
  __device__ void change(const F& change) const {
    Control& all = *w.control;
    team.one([&] {
      change();
      all.flows = f.count;
      all.with_flow = f.used;
      all.paid = f.paid;
      all.lost = f.lost;
    });
    team.sync();
    f.count = all.flows;
    f.used = all.with_flow;
    f.paid = all.paid;
    f.lost = all.lost;
    team.sync();
  }

  // The reduced cost of a pair.
  __device__ double slack(int32_t x, int32_t y) const {
    const int32_t i = f.is_row(x) ? x : y, j = x + y - i - f.rows;
    return (c.p.maximize ? -1 : 1) * C::real(c.raw(i, j)) - w.row_dual[i] - w.col_dual[j];
  }

  // The index k in [first, last) with the least number(k); kNone if no number is finite.
  template <class F>
  __device__ int32_t least(int32_t first, int32_t last, const F& number) const {
    uint64_t key = ~uint64_t(0), index = ~uint64_t(0);
    team.each(last - first, [&](int64_t k) {
      const double x = number(first + int32_t(k));
      if (!(x < kFar) || ordered_bits(x) >= key) return;
      key = ordered_bits(x);
      index = uint64_t(first + k);
    });
    team.least(key, index);
    return index == ~uint64_t(0) ? kNone : int32_t(index);
  }

  // Sends the remaining mass of all nodes. Nodes whose remaining mass exceeds the allowed error of
  // every receiver come first, as in transport/cpu/send_rest.h. Returns false if a node has
  // remaining mass but no allowed pair.
  __device__ bool run() const {
    for (int pass = 0; pass < 2; ++pass) {
      for (int32_t from = 0; !f.is_full();) {
        const int32_t x = least(from, f.nodes, [&](int32_t x) { return f.has_left(x) ? x : kFar; });
        if (x == kNone) break;
        from = x;
        const int32_t first = f.is_row(x) ? f.rows : 0, last = f.is_row(x) ? f.nodes : f.rows;
        const auto among = [&](const auto& number) {
          return least(first, last, [&](int32_t y) {
            const double above = f.mass[y] > 0 ? slack(x, y) : kFar;
            return above < kFar ? number(y, above) : kFar;
          });
        };
        const int32_t large = among([&](int32_t y, double) { return -f.mass[y]; });
        if (large == kNone) return false;
        if (pass == 0 && f.spare * f.mass[large] >= f.rest[x]) {
          from = x + 1;
          continue;
        }
        int32_t y =
            among([&](int32_t y, double above) { return f.room(y) >= f.rest[x] ? above : kFar; });
        double part = f.rest[x];
        if (y == kNone) {
          y = among([&](int32_t y, double) { return f.has_left(y) ? -f.rest[y] : kFar; });
          part = y == kNone ? part : fmin(part, f.rest[y]);
        }
        y = y == kNone ? large : y;
        send(x, y, part);
      }
    }
    return true;
  }

  __device__ void send(int32_t x, int32_t y, double part) const {
    const uint64_t wanted = f.key_of(x, y);
    const int32_t k =
        least(0, f.count, [&](int32_t k) { return f.key[k] == wanted ? double(k) : kFar; });
    const double above = slack(x, y);
    change([&] { f.send(x, y, k, part, above); });
  }
};

// Recomputes the flows, and writes them to the plan in sorted order. `most`: the greatest magnitude
// of a dual. Sets `count` to the number of arcs with flow. Adds to `gap` how far their cost may be
// from the optimum. Returns false if some mass cannot move.
template <class C>
__device__ bool recompute_flows(const C& c, const Plan& plan, double most, int32_t& count,
                                double& gap) {
  Team team = plan.team;
  const Workspace& w = plan.w;
  const TransportProblem& p = c.p;
  PlanFlows f{int32_t(p.n),
              int32_t(p.n + p.m),
              spare(p.mass_dtype),
              w.key,
              reinterpret_cast<double*>(w.pool[0]),
              w.real,
              reinterpret_cast<double*>(w.pool[1]),
              w.scratch[0],
              w.scratch[1],
              w.scratch[2]};
  const RestSender<C> sender{team, c, w, f};
  sender.change([&] { f.run(count); });
  if (!sender.run()) return false;
  int64_t used = 0;
  team.each(f.count, [&](int64_t k) {
    const double flow = p.mass_dtype == Dtype::kF32 ? double(float(f.flow[k])) : f.flow[k];
    w.mass[k] = __double_as_longlong(f.flow[k]);
    if (flow > 0) {
      ++used;
    } else {
      w.key[k] = ~uint64_t(0);
    }
  });
  used = team.sum(used);
  team.one([&] { plan.count() = f.count; });
  plan.sort();
  count = int32_t(used);
  double off = 0;
  team.each(f.nodes, [&](int64_t x) { off += f.off(int32_t(x)); });
  gap += f.paid + (team.sum_of_block(off) + f.lost) * most;
  return true;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_FLOWS_CUH_
