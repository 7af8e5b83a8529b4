// An auction with epsilon scaling (Bertsekas, The auction algorithm, 1988) that sets the prices. It
// is used only if all rows and columns must be matched. The solver may then start from any prices,
// and the prices of an auction are nearly optimal.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_AUCTION_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_AUCTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "sparse_assignment/cpu/bids.h"
#include "sparse_assignment/cpu/feasible.h"
#include "sparse_assignment/cpu/price_updates.h"
#include "sparse_assignment/cpu/tight_paths.h"

namespace jaxmatch::sparse_assignment {

// Bids match the last free rows of a scale slowly: rows outbid each other by epsilon until the
// prices of many columns have fallen enough for a free column to compete. A global price update
// (price_updates.h) after a number of bids makes all of these moves at once.
template <class Int>
class Auction {
 public:
  // `updates` is set by the first update.
  Auction(MatchingState<Int>& s, std::optional<PriceUpdates<Int>>& updates)
      : s_(s), updates_(updates), waiting_(size_t(s.c.rows)) {}

  // Sets the prices. Keeps the pairs whose reduced cost is exactly 0, and the duals of their rows.
  // `warm`: the prices are nearly optimal already, so only the last scale (with the smallest
  // epsilon) runs. Returns false if not all rows can be matched.
  bool run(bool warm) {
    constexpr int64_t kFirst = 32, kFactor = 8;
    // Costs of higher tiers (see tiers.h) are ignored: an epsilon derived from them would exceed
    // the differences between the other costs. But if many rows need such costs, scales begin with
    // it.
    const Int range = spread(s_.c.tier * std::fabs(s_.c.scale)),
              widest = std::max<Int>(spread(HUGE_VAL) / kFirst, 1),
              last = std::max<Int>(
                  std::min<Int>(range / (4 * int64_t(s_.c.rows)), typical_difference() / 8), 1);
    Int epsilon = warm ? last : std::max<Int>(range / kFirst, last);
    bool may_widen = epsilon < widest;  // once, so that scales end
    for (;;) {
      begin(epsilon);
      bool is_too_small = false;
      if (!match_all(epsilon, may_widen ? &is_too_small : nullptr)) return false;
      if (is_too_small) {
        may_widen = false;
        epsilon = widest;
        continue;
      }
      if (epsilon == last) break;
      epsilon = std::max<Int>(epsilon / kFactor, last);
    }
    begin(0);
    return true;
  }

 private:
  static constexpr Int kNever = kNeverOf<Int>;

  // The range of the costs below `limit`, in units.
  Int spread(double limit) const {
    Int least = kNever, most = -kNever;
    for (const auto& e : s_.c.edges) {
      if (!(double(e.cost) < limit)) continue;
      least = std::min(least, e.cost);
      most = std::max(most, e.cost);
    }
    return least < most ? most - least : 1;
  }

  // The median, over the rows, of the difference between the two least costs of a row. Rows in
  // which these are equal do not count.
  Int typical_difference() const {
    std::vector<Int> found;
    for (int32_t i = 0; i < s_.c.rows; ++i) {
      Choice<Int> best;
      for (int64_t k = s_.c.first[size_t(i)]; k < s_.c.first[size_t(i) + 1]; ++k) {
        best.include(s_.c.edges[size_t(k)].cost, k);
      }
      if (best.next != kNever && best.least < best.next) found.push_back(best.next - best.least);
    }
    if (found.empty()) return 1;
    const auto middle = found.begin() + int64_t(found.size() / 2);
    std::nth_element(found.begin(), middle, found.end());
    return *middle;
  }

  void push(int32_t i) {
    const size_t rows = waiting_.size();
    waiting_[(head_ + size_) % rows] = i;
    ++size_;
  }

  int32_t pop() {
    const int32_t i = waiting_[head_];
    --size_;
    head_ = head_ + 1 == waiting_.size() ? 0 : head_ + 1;
    return i;
  }

  // Starts a scale: frees each matched row whose edge has a cost - price more than epsilon above
  // the row's minimum, and queues all free rows.
  void begin(Int epsilon) {
    head_ = size_ = 0;
    for (int32_t i = 0; i < s_.c.rows; ++i) {
      int64_t& pair = s_.pair[size_t(i)];
      if (pair != kFree) {
        Int least = kNever;
        for (int64_t k = s_.c.first[size_t(i)]; k < s_.c.first[size_t(i) + 1]; ++k) {
          least = std::min(least, s_.reduced(s_.c.edges[size_t(k)]));
        }
        s_.u[size_t(i)] = least;
        const auto& e = s_.c.edges[size_t(pair)];
        if (s_.reduced(e) - least <= epsilon) continue;
        s_.row4col[size_t(e.col)] = kNone;
        pair = kFree;
      }
      push(i);
    }
  }

  // Matches all rows, so that no pair's reduced cost exceeds the least of its row by more than
  // epsilon. Returns false if not all rows can be matched. If `is_too_small` is given, sets it and
  // ends early if many rows are still free after some updates: prices have far to go.
  bool match_all(Int epsilon, bool* is_too_small) {
    // For each row. Measured: bids before the first update of a scale, and between two of them. If
    // not all rows can be matched, each bid may lower a price by four times the greatest cost:
    // after kUnknown bids all still fit into Int.
    constexpr int64_t kBids = 8, kMoreBids = 4, kUnknown = 2;
    constexpr int64_t kUpdates = 4, kManyRows = 16;
    int64_t updates = 0;
    for (int64_t left = (is_known_ ? kBids : kUnknown) * s_.c.rows; size_ > 0; --left) {
      if (left > 0) {
        bid(epsilon);
        continue;
      }
      if (!is_known_) {
        if (!can_match_rows(s_)) return false;
        is_known_ = true;
        left = (kBids - kUnknown) * s_.c.rows;
        continue;
      }
      if (!update(epsilon)) return false;
      if (is_too_small && ++updates == kUpdates && size_ * kManyRows > s_.c.rows) {
        *is_too_small = true;
        return true;
      }
      left = kMoreBids * s_.c.rows;
    }
    return true;
  }

  // Updates the prices and matches the free rows that then have an augmenting path of tight edges.
  // The reduced cost of each pair may exceed the dual of its row by epsilon: the duals of matched
  // rows are set so. An update raises both duals of a pair alike and makes no other reduced cost
  // negative, so no pair exceeds the least reduced cost of its row by more than epsilon afterwards.
  // Returns false if not all rows can be matched.
  bool update(Int epsilon) {
    for (int32_t i = 0; i < s_.c.rows; ++i) {
      const int64_t pair = s_.pair[size_t(i)];
      Int& u = s_.u[size_t(i)];
      u = pair == kFree ? best_of(s_, i).least : s_.reduced(s_.c.edges[size_t(pair)]) - epsilon;
      if (u == kNever) return false;
    }
    if (!updates_.has_value()) updates_.emplace(s_);
    std::vector<int32_t> left;
    while (size_ > 0) left.push_back(pop());
    int64_t work = 0;
    if (!updates_->update(int64_t(left.size()), &work)) return false;
    TightPaths<Int>(s_, updates_->pairs()).match(&left, &work);
    for (const int32_t i : left) push(i);
    return true;
  }

  void bid(Int epsilon) {
    const int32_t i = pop();
    ++s_.bids;
    const int64_t first = s_.c.first[size_t(i)], end = s_.c.first[size_t(i) + 1];
    s_.poll.after(16 + end - first);
    if (first == end) return;
    // The two least of cost - price, without branches, which would be mispredicted.
    Int least = kNever, next = kNever;
    int64_t edge = first;
    const auto* const edges = s_.c.edges.data();
    const Int* const v = s_.v.data();
    for (int64_t k = first; k < end; ++k) {
      const Int x = edges[k].cost - v[edges[k].col];
      const bool better = x < least;
      const Int worse = better ? least : x;
      next = worse < next ? worse : next;
      edge = better ? k : edge;
      least = better ? x : least;
    }
    const int32_t j = edges[edge].col, before = s_.row4col[size_t(j)];
    s_.v[size_t(j)] -= (next == kNever ? 0 : next - least) + epsilon;
    s_.pair[size_t(i)] = edge;
    s_.row4col[size_t(j)] = i;
    if (before == kNone) return;
    s_.pair[size_t(before)] = kFree;
    push(before);
  }

  MatchingState<Int>& s_;
  std::optional<PriceUpdates<Int>>& updates_;
  bool is_known_ = false;         // that all rows can be matched
  std::vector<int32_t> waiting_;  // [rows] ring buffer of the free rows
  size_t head_ = 0;
  int64_t size_ = 0;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_AUCTION_H_
