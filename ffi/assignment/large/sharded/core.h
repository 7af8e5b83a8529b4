// The steps of the core method where costs are divided over devices: what one launch leaves off
// because something has to be exchanged, another one takes up.
//
// Searches, paths and prices are those of one device (assignment/large/core/solve.h), done by all
// of them on the same cores. Each step that looks at costs ends with what it asks for.
#ifndef JAXMATCH_LARGE_DIVIDED_CORE_H_
#define JAXMATCH_LARGE_DIVIDED_CORE_H_

#include "assignment/large/core/solve.h"
#include "assignment/large/sharded/state.h"

namespace jaxmatch::assignment::large {

// What comes next: at once if nothing is asked for.
struct Next {
  Step step;
  Ask ask = kAskNothing;
};

// Nothing is said of what follows.
template <class Team, class T>
JAXMATCH_DEVICE void begin_mail(Team& team, const Divided<T>& d) {
  team.each(d.mail.words, [&](int64_t k) { d.mail.send(k, Mail::kNothing); });
  team.sync();
}

// The range of this device's costs, and the least of each column in its part.
template <class Team, class T>
JAXMATCH_DEVICE Next look_at_part(Team& team, Divided<T>& d) {
  begin_mail(team, d);
  look_at_costs(team, d.part);
  team.leader([&] {
    const GridRange& range = d.p.s.control->range;
    d.mail.send(0, -range.most);
    d.mail.send(1, range.lowest);
    d.mail.send(2, range.invalid);
  });
  team.each(d.part.s.m, [&](int64_t j) {
    d.mail.send(d.mail.first(d.part.col_id(j)), order_of(peek(d.part.s.v_real + j)));
  });
  return {kJudgeCosts, kAskMail};
}

template <class Team, class T>
JAXMATCH_DEVICE void hear_of_costs(Team& team, const Divided<T>& d) {
  team.each(d.p.s.m, [&](int64_t j) {
    put(d.p.s.v_real + j, real_of_order(d.mail.least(d.mail.first(j))));
  });
  team.leader([&] {
    GridRange& range = d.p.s.control->range;
    range.most = -d.mail.least(0);
    range.lowest = d.mail.least(1);
    range.invalid = int32_t(d.mail.least(2));
  });
  team.sync();
}

// What is found of the part's rows, and where their cores end, goes by mail.
struct TellByMail {
  int64_t *least_of, *horizon_of;

  template <class T>
  JAXMATCH_DEVICE explicit TellByMail(const Divided<T>& d)
      : least_of(d.mail.out + d.mail.first(d.part.row0)),
        horizon_of(d.mail.out + d.mail.second(d.part.row0)) {}
  JAXMATCH_DEVICE void operator()(int64_t i, int64_t least) const { lower_to(least_of + i, least); }
  JAXMATCH_DEVICE void operator()(int64_t i, int64_t least, int64_t horizon) const {
    put(least_of + i, least);
    put(horizon_of + i, horizon);
  }
};

// What a pricing makes of a row.
enum Repriced : int32_t { kAsBefore, kChooses, kFalls };

// Lists the part's rows that a pricing does not leave as before; frontier[0] has been 0 since a
// barrier. Returns how many.
template <class Team, class T>
JAXMATCH_DEVICE int64_t list_repriced(Team& team, const Divided<T>& d) {
  const CoreState& s = d.part.s;
  return list_rows(team, s.n, s.frontier, s.control->frontier,
                   [&](int64_t i) { return peek(s.in_tree + i) != kAsBefore; });
}

// Selects new cores for these.
template <class Team, class T>
JAXMATCH_DEVICE void select_repriced(Team& team, const Divided<T>& d, int choice) {
  const CoreState& s = d.part.s;
  const int64_t count = list_repriced(team, d);
  if (count == 0) return;
  select_listed_cores(team, d.part, team.prices(s), s.frontier, count, uint32_t(choice),
                      TellByMail(d));
}

// Copies the cores of the chosen rows from where devices have sent them, and their horizons.
template <class Team, class T, class Chosen>
JAXMATCH_DEVICE void enter_cores(Team& team, const Divided<T>& d, Chosen chosen) {
  const CoreState& s = d.p.s;
  const int classes = d.how.classes();
  team.rows(s.n, [&](Lanes g, int64_t i) {
    if (!d.p.has_row(i) || !chosen(i)) return;
    if (g.lane == 0) put(s.horizon + i, d.mail.least(d.mail.second(i)));
    for (int c = g.lane; c < kClasses; c += g.kCount) {
      ClassCols cols;
      ClassKeys keys;
      const int64_t owner = d.how.by_rows ? i / d.how.each : c / classes;
      if (owner < d.how.devices) {
        const int64_t row = d.how.by_rows ? i - owner * d.how.each : i;
        const int64_t at = row * classes + (d.how.by_rows ? c : c - owner * classes);
        cols = d.exchanged.cols(owner)[at];
        keys = d.exchanged.keys(owner)[at];
      } else {  // fewer classes than there are, as their number does not divide
        JAXMATCH_UNROLL
        for (int b = 0; b < kBest; ++b) {
          cols.x[b] = -1;
          keys.x[b] = 0;
        }
      }
      s.core_col[i * kClasses + c] = cols;
      s.core_key[i * kClasses + c] = keys;
    }
  });
  team.sync();
}

template <class Team, class T>
JAXMATCH_DEVICE Next select_first_cores(Team& team, Divided<T>& d) {
  begin(team, d.p);
  publish_prices(team, d.p);
  begin_mail(team, d);
  select_all_cores(team, d.part, team.prices(d.part.s), TellByMail(d));
  return {kEnterCores, kAskCores};
}

template <class Team, class T>
JAXMATCH_DEVICE Next enter_first_cores(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  const int64_t alone = team.sum(s.n, [&](int64_t i) {
    if (!d.p.has_row(i)) return false;
    const int64_t least = d.mail.least(d.mail.first(i));
    put(s.u + i, least);
    return least >= kFar;
  });
  if (alone > 0) {
    team.leader([&] { s.control->status = kInfeasible; });
    return {kEnd};
  }
  enter_cores(team, d, [](int64_t) { return true; });
  bid_stage(team, d.p);
  team.leader([&] { d.relay->lists_hold = 0; });
  team.sync();
  return {kSearchCores};
}

// A pricing begins: rows that have come as far as their horizons are held against the part. Where
// all of them choose cores anew, they do so at once.
template <class Team, class T>
JAXMATCH_DEVICE Next look_at_prices(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  const Pricing how = begin_pricing(team, d.p);
  if (how.too_wide) return {kStartAgain};
  begin_mail(team, d);
  team.each(s.n, [&](int64_t i) {
    const bool doubtful = how.everyone() || peek(s.u + i) + how.renew > peek(s.horizon + i);
    put(s.in_tree + i, int32_t(d.p.has_row(i) && doubtful ? kChooses : kAsBefore));
  });
  team.sync();
  if (how.renew) {
    select_repriced(team, d, how.number);
    return {kRepriceAll, kAskCores};
  }
  const CoreState& mine = d.part.s;
  const int64_t count = list_repriced(team, d);
  if (count > 0) {
    find_least_of_list(team, d.part, team.prices(mine), mine.frontier, count, TellByMail(d));
  }
  return {kReprice, kAskMail};
}

// Row prices fall to the least that was heard, and then rows lose their partner: pairs were tight.
// Calls keep(i, least) for doubtful rows whose price does not fall. Returns how many lost theirs.
template <class Team, class T, class Keep>
JAXMATCH_DEVICE int64_t lower_row_prices(Team& team, const Divided<T>& d, Keep keep) {
  const CoreState& s = d.p.s;
  return team.sum(s.n, [&](int64_t i) {
    if (peek(s.in_tree + i) == kAsBefore) return false;
    const int64_t least = d.mail.least(d.mail.first(i));
    const int32_t j = peek(s.col4row + i);
    if (least >= peek(s.u + i)) {
      keep(i, least);
      return false;
    }
    put(s.u + i, least);
    put(s.in_tree + i, int32_t(kFalls));
    if (j < 0) return false;
    put(s.col4row + i, int32_t(kFree));
    put(s.row4col + j, int32_t(kFree));
    return true;
  });
}

// What follows a pricing that has freed so many rows.
template <class Team, class T>
JAXMATCH_DEVICE Step close_pricing(Team& team, const Divided<T>& d, const Pricing& how,
                                   int64_t freed) {
  const Step after = end_pricing(team, d.p, how, freed) == kPrice ? kLookAtPrices : kSearchCores;
  team.leader([&] {
    d.relay->after = after;
    d.relay->lists_hold = 0;
  });
  return after;
}

// The same as price_rows(), once all have heard the least that rows can pay.
template <class Team, class T>
JAXMATCH_DEVICE Next reprice(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  const Pricing how(*s.control);
  team.leader([&] { put(s.control->frontier, 0); });
  const int64_t freed = lower_row_prices(team, d, [&](int64_t i, int64_t least) {
    put(s.in_tree + i, int32_t(kAsBefore));
    put(s.horizon + i, how.everyone() ? least : greater(peek(s.horizon + i), least));
  });
  const int64_t choosing =
      team.sum(s.n, [&](int64_t i) { return peek(s.in_tree + i) != kAsBefore; });
  const Step after = close_pricing(team, d, how, freed);
  begin_mail(team, d);  // ends with a barrier
  if (choosing == 0) return {after};
  select_repriced(team, d, how.number);
  return {kRenewCores, kAskCores};
}

template <class Team, class T>
JAXMATCH_DEVICE Next reprice_all(Team& team, Divided<T>& d) {
  const Pricing how(*d.p.s.control);
  const int64_t freed = lower_row_prices(team, d, [](int64_t, int64_t) {});
  const Step after = close_pricing(team, d, how, freed);
  enter_cores(team, d, [&](int64_t i) { return peek(d.p.s.in_tree + i) != kAsBefore; });
  return {after};
}

template <class Team, class T>
JAXMATCH_DEVICE Next renew_cores(Team& team, Divided<T>& d) {
  enter_cores(team, d, [&](int64_t i) { return peek(d.p.s.in_tree + i) != kAsBefore; });
  return {Step(peek(&d.relay->after))};
}

// Phases on the cores until costs have to be looked at.
template <class Team, class T>
JAXMATCH_DEVICE Next search_cores(Team& team, const Core<T>& p) {
  if (peek(&p.s.control->trees)) return {kBeginTrees};
  int64_t budget = INT64_MAX;
  const int next = augment_stage(team, p, budget);
  team.sync();
  return {next == kPrice ? kLookAtPrices : kCheckPrices};
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_DIVIDED_CORE_H_
