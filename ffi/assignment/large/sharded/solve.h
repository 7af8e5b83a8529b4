// How the steps of a divided problem follow each other, and how it ends.
#ifndef JAXMATCH_LARGE_DIVIDED_SOLVE_H_
#define JAXMATCH_LARGE_DIVIDED_SOLVE_H_

#include "assignment/large/sharded/hungarian.h"

namespace jaxmatch::assignment::large {

// What was heard of the costs that a solution pays.
template <class T>
struct Heard {
  const Divided<T>& d;

  JAXMATCH_DEVICE double real(int64_t i, int64_t) const { return real_of_order(peek(d.paid + i)); }
  JAXMATCH_DEVICE double least(Lanes, int64_t i) const { return real_of_order(peek(d.least + i)); }
};

template <class Team, class T>
JAXMATCH_DEVICE void hear_of_rows(Team& team, const Divided<T>& d, int64_t* into) {
  team.each(d.p.s.n, [&](int64_t i) { put(into + i, d.mail.least(d.mail.first(i))); });
  team.sync();
}

template <class Team, class T>
JAXMATCH_DEVICE Next judge_divided_costs(Team& team, Divided<T>& d) {
  hear_of_costs(team, d);
  const bool ends = judge_costs(team, d.p) == kFinish;
  team.sync();
  read_grid(d);
  return {ends ? kEnd : d.core ? kSelectCores : kReduceRows};
}

template <class T>
JAXMATCH_DEVICE void read_grid(Divided<T>& d) {
  const Control& c = *d.p.s.control;
  d.p.costs.factor = d.part.costs.factor = c.factor;
  d.p.costs.boost = d.part.costs.boost = c.boost;
}

// Once everybody is matched: what each row of the part pays.
template <class Team, class T>
JAXMATCH_DEVICE Next check_prices(Team& team, Divided<T>& d) {
  if (has_large_prices(team, d.p)) return {kStartAgain};
  begin_mail(team, d);
  const Part<T>& part = d.part;
  team.each(part.s.n, [&](int64_t i) {
    const int64_t j = int64_t(peek(part.s.col4row + i)) - part.col0;
    if (!part.has_row(i) || j < 0 || j >= part.s.m) return;
    d.mail.send(d.mail.first(part.row_id(i)), order_of(part.costs.real(i, j)));
  });
  return {kCheckPaid, kAskMail};
}

template <class Team, class T>
JAXMATCH_DEVICE Next check_paid(Team& team, Divided<T>& d) {
  hear_of_rows(team, d, d.paid);
  if (uses_cut_costs(team, d.p, Heard<T>{d})) return {kLookAtCosts};
  if (peek(&d.p.s.control->exact)) return {kEnd};
  begin_mail(team, d);
  const Part<T>& part = d.part;
  team.rows(part.s.n, [&](Lanes g, int64_t i) {
    if (!part.has_row(i)) return;
    const double least = least_real(part, g, i);
    if (g.lane == 0) d.mail.send(d.mail.first(part.row_id(i)), order_of(least));
  });
  return {kProve, kAskMail};
}

template <class Team, class T>
JAXMATCH_DEVICE Next start_again(Team& team, Divided<T>& d) {
  Control& c = *d.p.s.control;
  const bool again = peek(&c.coarse);  // never; but nothing may run for ever
  team.sync();
  team.leader([&] {
    c.coarse = 1;
    if (again) c.status = kOverflow;
  });
  team.sync();
  return {again ? kEnd : kLookAtCosts};
}

template <class Team, class T>
JAXMATCH_DEVICE Next take_step(Team& team, Divided<T>& d, Step step) {
  switch (step) {
    case kLookAtCosts:
      return look_at_part(team, d);
    case kJudgeCosts:
      return judge_divided_costs(team, d);
    case kSelectCores:
      return select_first_cores(team, d);
    case kEnterCores:
      return enter_first_cores(team, d);
    case kSearchCores:
      if constexpr (!Team::kSearchesApart) return search_cores(team, d.p);
      return {kSearchCores};  // solve_divided() stops before
    case kLookAtPrices:
      return look_at_prices(team, d);
    case kReprice:
      return reprice(team, d);
    case kRepriceAll:
      return reprice_all(team, d);
    case kRenewCores:
      return renew_cores(team, d);
    case kReduceRows:
      return reduce_part_of_rows(team, d);
    case kReduceCols:
      return reduce_part_of_cols(team, d);
    case kEnterPrices:
      return enter_prices(team, d);
    case kBeginTrees:
      return begin_trees(team, d);
    case kHearLists:
      return hear_lists(team, d);
    case kSearchZeros:
      return search_zeros(team, d);
    case kMoveDuals:
      return move_divided_duals(team, d);
    case kCheckPrices:
      return check_prices(team, d);
    case kCheckPaid:
      return check_paid(team, d);
    case kProve:
      hear_of_rows(team, d, d.least);
      return {kEnd};
    case kStartAgain:
      return start_again(team, d);
    default:
      return {kEnd};
  }
}

// Until something has to be exchanged, or to the end: then it writes the results. A team that
// searches apart stops before a search, and goes on with `again`.
template <class Team, class T>
JAXMATCH_DEVICE void solve_divided(Team& team, Divided<T>& d, const CoreResults& results,
                                   bool again) {
  Control& c = *d.p.s.control;
  Next next{Step(peek(&d.relay->step))};
  if (next.step > kJudgeCosts) read_grid(d);
  team.sync();
  const auto stops = [&] {
    return next.ask != kAskNothing || next.step == kEnd ||
           (Team::kSearchesApart && next.step == kSearchCores);
  };
  while (!stops()) {
    next = take_step(team, d, next.step);
    team.sync();
  }
  // Never: pricings and checks ask for something before the next search. If one did not, an
  // exchange of nothing would lead to it.
  if (again && next.step == kSearchCores) next.ask = kAskMail;
  team.leader([&] {
    d.relay->step = next.step;
    d.relay->ask = next.step == kEnd ? kAskNothing : next.ask;
    if (next.step == kEnd) c.stage = kFinish;
  });
  team.sync();
  if (next.step == kEnd) write_results(team, d.p, results, Heard<T>{d});
}

// What depends on which side is canonical rows, once that is known.
template <class T>
JAXMATCH_DEVICE void divide(Divided<T>& d, bool rows, int64_t each, int64_t me, char* cores_out,
                            int64_t core_count, ZeroList* lists_out) {
  const bool flip = peek(&d.p.s.control->flip);
  const bool by_rows = rows != flip;
  d.how = {by_rows, d.mail.devices, me, each, d.p.s.n, d.p.s.m};
  Part<T>& part = d.part;
  static_cast<Core<T>&>(part) = d.p;
  part.row0 = by_rows ? me * each : 0;
  part.col0 = by_rows ? 0 : me * each;
  part.number_of_classes = d.how.classes();
  part.lists = lists_out + part.row0;
  CoreState& s = part.s;
  if (by_rows) {
    s.n = each;
    s.u += part.row0;
    s.col4row += part.row0;
    s.horizon += part.row0;
    s.in_tree += part.row0;
    if (part.row_mask) part.row_mask += part.row0;
  } else {
    s.m = each;
    s.v += part.col0;
    s.v_real += part.col0;
    s.label += part.col0;
    s.on_path += part.col0;
    if (part.col_mask) part.col_mask += part.col0;
  }
  s.core_key = reinterpret_cast<ClassKeys*>(cores_out);
  s.core_col = reinterpret_cast<ClassCols*>(s.core_key + core_count);
}

// One launch on this device; `again`: after a search, if there was one.
template <class Team, class T>
JAXMATCH_DEVICE void run_divided(Team& team, Divided<T> d, const CoreResults& results, bool rows,
                                 int64_t each, const int32_t* me, char* cores_out,
                                 int64_t core_count, ZeroList* lists_out, bool again = false) {
  if (again && (peek(&d.relay->ask) != kAskNothing || peek(&d.relay->step) == kEnd)) return;
  orient(team, d.p, !rows);
  divide(d, rows, each, *me, cores_out, core_count, lists_out);
  solve_divided(team, d, results, again);
}

// A launch for the search between the two, if it is time for one: with a program of its own, whose
// registers it shares with nothing else. It looks at no cost, so T is any type.
template <class Team, class T>
JAXMATCH_DEVICE void search_divided(Team& team, Core<T> p, Relay* relay, bool rows) {
  if (peek(&relay->ask) != kAskNothing || peek(&relay->step) != kSearchCores) return;
  orient(team, p, !rows);
  const Next next = search_cores(team, p);
  team.leader([&] { relay->step = next.step; });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_DIVIDED_SOLVE_H_
