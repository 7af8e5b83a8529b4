// The second phase of a solve: returns the excess that reached no deficit to the source. This turns
// a maximum pseudoflow into a maximum flow.
#ifndef JAXMATCH_FLOW_CPU_RETURN_EXCESS_H_
#define JAXMATCH_FLOW_CPU_RETURN_EXCESS_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "flow/cpu/setup.h"

namespace jaxmatch::flow {

// Remaining excess is pushed back against the flow that brought it, to nodes that receive flow
// straight from the source. There it is cancelled against the flow from the source (keep_back).
// First a depth-first search against the flow, from the nodes with excess, cancels all cycles of
// flow that it finds. Then the visited nodes return their excess in topological order: each node
// after all nodes that return flow to it (Cherkassky and Goldberg, Algorithmica 19, 1997). The flow
// into a node equals the flow out of it plus its excess, so there is always enough flow to cancel.
//
// Termination: cancelling a cycle removes all flow from one of its arcs, and no step adds flow to
// an arc. So there are at most as many cancellations as arcs. Apart from them, each arc is scanned
// twice: by the search and by hand_back().
template <class T>
class ExcessReturn {
 public:
  ExcessReturn(const FlowProblem<T>& problem, HostArena& memory)
      : p_(problem), g_(problem.residual), memory_(memory) {}

  void run() {
    int32_t first = -1;
    for (int32_t v = 0; v < g_.n; ++v) {
      keep_back(v);
      if (first < 0 && g_.excess[v] > 0) first = v;
    }
    if (first < 0) return;
    state_ = memory_.take<State>(g_.n, State::kNew);
    current_ = memory_.take<int32_t>(g_.n);
    std::copy_n(g_.begin, g_.n, current_);
    path_ = memory_.take<int32_t>(g_.n);
    order_ = memory_.take<int32_t>(g_.n);
    // The search does not go beyond the source, where the excess has arrived.
    if (p_.keeps_terminals) state_[p_.source] = State::kDone;
    for (int32_t v = first; v < g_.n; ++v) {
      if (g_.excess[v] > 0 && state_[v] == State::kNew) search(v);
    }
    for (int32_t i = ordered_; i > 0; --i) hand_back(order_[i - 1]);
    if (p_.keeps_terminals) keep_back(p_.source);
  }

 private:
  enum class State : uint8_t { kNew, kOnPath, kDone };

  // Cancels the excess of v against flow that reaches v straight from the source.
  void keep_back(int32_t v) {
    const T amount = std::min(g_.excess[v], p_.supply[v]);
    if (amount <= 0) return;
    g_.excess[v] -= amount;
    p_.supply[v] -= amount;
  }
  // The flow from the head of arc a to its tail.
  T incoming(int32_t a) const { return g_.arcs[a].out - p_.capacity[a]; }

  void enter(int32_t v) {
    state_[v] = State::kOnPath;
    path_[length_++] = v;
  }
  void search(int32_t root) {
    length_ = 0;
    enter(root);
    while (length_ > 0) {
      poll_.after(4);
      const int32_t v = path_[length_ - 1];
      int32_t& a = current_[v];
      while (a < g_.end[v] && (incoming(a) <= 0 || state_[g_.arcs[a].head] == State::kDone)) ++a;
      if (a == g_.end[v]) {
        state_[v] = State::kDone;
        order_[ordered_++] = v;
        --length_;
        if (length_ > 0) ++current_[path_[length_ - 1]];
      } else if (state_[g_.arcs[a].head] == State::kNew) {
        enter(g_.arcs[a].head);
      } else {
        cancel_cycle(g_.arcs[a].head);
      }
    }
  }
  // Cancels the cycle of flow formed by the nodes of the path from `first` on.
  void cancel_cycle(int32_t first) {
    int32_t begin = length_ - 1;
    T amount = incoming(current_[path_[begin]]);
    while (path_[begin] != first) amount = std::min(amount, incoming(current_[path_[--begin]]));
    poll_.after(8 * int64_t(length_ - begin));
    // The search resumes at the first node on the path whose current arc has no flow left.
    int32_t kept = length_;
    for (int32_t i = length_ - 1; i >= begin; --i) {
      const int32_t a = current_[path_[i]];
      g_.push(g_.arcs[a], amount);
      if (incoming(a) == 0) kept = i + 1;
    }
    while (length_ > kept) state_[path_[--length_]] = State::kNew;
  }

  void hand_back(int32_t v) {
    keep_back(v);
    for (int32_t a = g_.begin[v]; a < g_.end[v] && g_.excess[v] > 0; ++a) {
      const T amount = std::min(incoming(a), g_.excess[v]);
      if (amount <= 0) continue;
      g_.push(g_.arcs[a], amount);
      g_.excess[v] -= amount;
      g_.excess[g_.arcs[a].head] += amount;
    }
  }

  const FlowProblem<T>& p_;
  const Residual<T>& g_;
  HostArena& memory_;
  State* state_ = nullptr;
  int32_t* current_ = nullptr;  // [n], current arc of each node; the arcs before it are finished
  int32_t* path_ = nullptr;     // [n]
  int32_t* order_ = nullptr;    // [n], each node after all nodes that it returns flow to
  int32_t length_ = 0, ordered_ = 0;
  Poll poll_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_RETURN_EXCESS_H_
