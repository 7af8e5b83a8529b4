// The Hungarian algorithms of Date and Nagi (2016) where costs are divided over devices, as in
// their section 5; but rounds are few and fat.
//
// Devices look for the zeros among their own reduced costs, and tell each other: a short list for
// each row. All of them then go the whole forward pass along these alone, level after level without
// a word. Only where a row in the frontier has more zeros than a list has room for, they tell each
// other the least slack that such rows offer each column outside the trees: what is offered none
// belongs to that level. When the pass has come to its end without a path, duals move by the least
// slack that any row of the trees has. The classical variant then looks for zeros anew. The tree
// variant goes on: pairs of rows and columns outside of the trees are as they were, so zeros still
// hold for them, and a column that became tight by the dual update has the row that offered it
// least for a parent.
#ifndef JAXMATCH_LARGE_DIVIDED_TREES_H_
#define JAXMATCH_LARGE_DIVIDED_TREES_H_

#include "assignment/large/hungarian/iterate.h"
#include "assignment/large/sharded/core.h"

namespace jaxmatch::assignment::large {

// Algorithm 1: the least of each row ...
template <class Team, class T>
JAXMATCH_DEVICE Next reduce_part_of_rows(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  team.each(s.m, [&](int64_t j) {
    put(s.v + j, int64_t{0});
    put(s.row4col + j, int32_t(d.p.has_col(j) ? kFree : kAbsent));
  });
  begin_mail(team, d);  // ends with a barrier
  publish_prices(team, d.part);
  find_least_of_all(team, d.part, d.part.s.v_real, TellByMail(d));
  return {kReduceCols, kAskMail};
}

// ... and of what is left the least of each column. A wide problem keeps its columns' duals at
// zero.
template <class Team, class T>
JAXMATCH_DEVICE Next reduce_part_of_cols(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  const int64_t alone = team.sum(s.n, [&](int64_t i) {
    const int64_t least = d.p.has_row(i) ? d.mail.least(d.mail.first(i)) : 0;
    put(s.col4row + i, int32_t(d.p.has_row(i) ? kFree : kAbsent));
    put(s.u + i, least);
    return least >= kFar;
  });
  team.leader([&] {
    if (alone > 0) s.control->status = kInfeasible;
    d.relay->lists_hold = 0;
  });
  if (alone > 0) return {kEnd};
  const bool wide = peek(&s.control->rows) < peek(&s.control->cols);
  begin_mail(team, d);
  if (wide) return {kBeginTrees};
  const Part<T>& part = d.part;
  team.each(part.s.m, [&](int64_t j) { put(part.s.label + j, kFar); });
  team.sync();
  team.row_groups(part.s.m, [&](int64_t j, int64_t first, int64_t step) {
    lower_to(part.s.label + j, least_of_column(part, j, first, step));
  });
  team.sync();
  team.each(part.s.m,
            [&](int64_t j) { d.mail.send(d.mail.first(part.col_id(j)), peek(part.s.label + j)); });
  return {kEnterPrices, kAskMail};
}

template <class Team, class T>
JAXMATCH_DEVICE Next enter_prices(Team& team, Divided<T>& d) {
  team.each(d.p.s.m, [&](int64_t j) {
    const int64_t least = d.mail.least(d.mail.first(j));
    if (least < kFar) put(d.p.s.v + j, least);
  });
  team.sync();
  return {kBeginTrees};
}

// The zeros of a row in a word of columns, behind those that are listed; as far as there is room.
// Their order does not matter to who reads them.
template <class T>
JAXMATCH_DEVICE void list_word(const Part<T>& part, int64_t i, int64_t word, uint32_t zeros) {
  if (zeros == 0 || !part.has_row(i)) return;
  ZeroList& list = part.lists[i];
  if (peek(&list.count) > ZeroList::kRoom) return;
  for (int at = count_up(&list.count, bit_count(zeros)); zeros && at < ZeroList::kRoom; ++at) {
    put(list.col + at, int32_t(part.col_id(word * kWordBits + trailing_zeros(zeros))));
    zeros &= zeros - 1;
  }
}

// Algorithm 2. Without free rows this is the end; else their trees begin, along zeros that hold.
template <class Team, class T>
JAXMATCH_DEVICE Next begin_trees(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  const int64_t count = check_optimality(team, d.p);
  const bool hold = peek(&d.relay->lists_hold);
  team.leader([&] {
    s.control->free_rows = int32_t(count);
    s.control->ends = 0;
    d.relay->level = 0;
    d.relay->count = int32_t(count);
  });
  if (count > 0 && !hold) {
    const Part<T>& part = d.part;
    team.each(part.s.n, [&](int64_t i) { put(&part.lists[i].count, 0); });
    find_zeros(team, part, [](const Part<T>& its, int64_t i, int64_t word, uint32_t zeros) {
      list_word(its, i, word, zeros);
    });
  }
  team.sync();
  team.leader([&] { d.relay->lists_hold = 1; });
  if (count == 0) return {kCheckPrices};
  if (hold) return {kSearchZeros};
  return {kHearLists, kAskLists};
}

// One list for each row, of the zeros in all parts, where there is room.
template <class Team, class T>
JAXMATCH_DEVICE Next hear_lists(Team& team, Divided<T>& d) {
  const bool by_rows = d.how.by_rows;
  team.each(d.p.s.n, [&](int64_t i) {
    if (!d.p.has_row(i)) return;
    int32_t* const listed = d.listed + i * d.kListed;
    int64_t all = 0;
    const int64_t first = by_rows ? i / d.how.each : 0;
    for (int64_t k = first; k <= (by_rows ? first : d.how.devices - 1); ++k) {
      const ZeroList& list = d.exchanged.lists[k * d.exchanged.list_count + i];
      const int32_t count = peek(&list.count);
      JAXMATCH_UNROLL
      for (int a = 0; a < ZeroList::kRoom; ++a) {
        const int32_t j = peek(list.col + a);
        if (a < count && all + a < ZeroList::kRoom) put(listed + all + a, j);
      }
      all += count;
    }
    const bool room = all <= ZeroList::kRoom;
    for (int64_t a = room ? all : 0; a < d.kListed; ++a) put(listed + a, room ? -1 : d.kNoRoom);
  });
  team.sync();
  return {kSearchZeros};
}

// Algorithm 3, of both variants: along the zeros of the rows of the frontier that are listed.
// Returns whether there are rows with more.
template <class Team, class T>
JAXMATCH_DEVICE bool expand_lists(Team& team, const Divided<T>& d, int64_t level, int64_t count) {
  const CoreState& s = d.p.s;
  const int32_t* const frontier = s.frontier + (level & 1) * s.n;
  return team.sum(count * d.kListed, [&](int64_t k) {
    const int64_t i = peek(frontier + k / d.kListed);
    const int32_t j = peek(d.listed + i * d.kListed + k % d.kListed);
    if (j >= 0 && peek(s.on_path + j) == kInactive) {
      lower_to(s.parent + j, uint64_t(place_of_row(i, j)));
    }
    return j == d.kNoRoom;
  }) != 0;
}

// Algorithm 4 for many rows at once: what the part's rows that are new in the trees offer columns
// outside; or those of them alone that have no list. Returns how many rows have made no offer yet.
template <class Team, class T>
JAXMATCH_DEVICE int64_t offer_least(Team& team, const Divided<T>& d, int64_t level, bool unlisted) {
  const CoreState& s = d.p.s;
  const auto offers = [&](int64_t i) {  // of the whole
    return peek(s.in_tree + i) == 1 && !(unlisted && peek(d.listed + i * d.kListed) != d.kNoRoom);
  };
  Part<T> rows = d.part;
  rows.s.frontier = s.frontier + (level & 1) * s.n;  // not needed any more
  rows.s.parent = d.offer + rows.col0;
  int32_t* const length = &s.control->frontier[level & 1];
  // Duals as doubles, for the offers.
  team.each(rows.s.n, [&](int64_t i) {
    put(d.paid + rows.row_id(i), int64_t(bits_of(double(peek(rows.s.u + i)))));
  });
  const int64_t count = list_rows(team, rows.s.n, rows.s.frontier, length,
                                  [&](int64_t i) { return offers(rows.row_id(i)); });
  if (count > 0) {
    expand_tree(team, rows, 0, count,
                [&](int64_t i) { return real_of(uint64_t(d.paid[rows.row_id(i)])); });
  }
  team.leader([&] { put(length, 0); });
  team.sync();
  return team.sum(s.n, [&](int64_t i) {
    if (offers(i)) put(s.in_tree + i, 2);
    return peek(s.in_tree + i) == 1;
  });
}

// The forward pass as far as lists go. Then Algorithms 5 and 6, or the least outside the trees.
template <class Team, class T>
JAXMATCH_DEVICE Next search_zeros(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  Control& c = *s.control;
  int64_t level = peek(&d.relay->level), count = peek(&d.relay->count);
  const int64_t start = level;
  const bool first = peek(&c.phases) == 0;
  bool no_room = false;
  team.sync();
  for (; count > 0; ++level) {
    no_room = expand_lists(team, d, level, count);
    if (no_room) break;
    count = contract(team, d.p, level, [&](int64_t j) { return peek(s.parent + j) != kNoParent; });
  }
  if (!no_room && peek(&c.ends) != 0) {
    const int64_t paths = reverse_and_augment(team, d.p);
    team.leader([&] {
      c.phases += 1;
      c.dense_phases += d.core;
      c.rounds += int32_t(level - start);
      if (first) c.bid_rounds = int32_t(paths);  // the initial assignment
    });
    team.sync();
    return {kBeginTrees};
  }
  const bool offers = d.tree || no_room;
  int64_t left = 0;
  team.leader([&] {
    c.frontier[0] = c.frontier[1] = 0;  // lengths of lists from here on
    put(&c.reach, kFar);
  });
  begin_mail(team, d);  // ends with a barrier
  if (offers) {
    left = offer_least(team, d, level, no_room);
    team.each(d.part.s.m, [&](int64_t j) {
      if (peek(d.part.s.on_path + j) != kInactive) return;
      const int64_t at = d.part.col_id(j);
      d.mail.send(d.mail.first(at), peek(s.label + at));
      d.mail.send(d.mail.second(at), int64_t(peek(d.offer + at)));
    });
  } else {
    const int64_t least = least_outside_classical(team, d.part, s.frontier, &c.frontier[0]);
    team.leader([&] { d.mail.send(0, least); });
  }
  team.leader([&] {
    c.rounds += int32_t(level - start);
    d.relay->level = int32_t(level & 1);
    d.relay->offers = offers;
    d.relay->all = left == 0;
  });
  return {kMoveDuals, kAskMail};
}

// Of the offers from all devices the least, and the first row that makes it. Returns the least of
// all columns.
template <class Team, class T>
JAXMATCH_DEVICE int64_t take_offers(Team& team, const Divided<T>& d) {
  const CoreState& s = d.p.s;
  team.leader([&] { put(&s.control->reach, kFar); });
  team.sync();
  team.each(s.m, [&](int64_t j) {
    if (peek(s.on_path + j) != kInactive || !d.p.has_col(j)) return;
    int64_t least = kFar;
    uint64_t from = kNoParent;
    for (int64_t k = 0; k < d.how.devices; ++k) {
      const int64_t label = d.mail.heard(d.mail.first(j), k);
      const uint64_t place = uint64_t(d.mail.heard(d.mail.second(j), k));
      if (label < least || (label == least && place < from)) {
        least = label;
        from = place;
      }
    }
    put(s.label + j, least);
    put(d.offer + j, from);
    lower_to(&s.control->reach, least);
  });
  team.sync();
  return peek(&s.control->reach);
}

// Where all rows of the trees have made their offers, none of them a zero, and no path has been
// found, this is Algorithms 8 and 9; then the classical variant begins anew. Otherwise it ends the
// level of which some rows have no list: with what these offered, and what lists have reached.
template <class Team, class T>
JAXMATCH_DEVICE Next move_divided_duals(Team& team, Divided<T>& d) {
  const CoreState& s = d.p.s;
  Control& c = *s.control;
  const bool ended = peek(&c.ends) != 0, all = peek(&d.relay->all);
  const int64_t theta =
      peek(&d.relay->offers) ? take_offers(team, d) : lesser(d.mail.least(0), kFar);
  const int64_t level = peek(&d.relay->level);
  if (theta > 0 && all && !ended) {
    if (theta >= kFar) {
      team.leader([&] { c.status = kInfeasible; });
      return {kEnd};
    }
    const bool too_wide = move_duals(team, d.p, theta) > 0;
    team.leader([&] {
      c.pricings += 1;
      c.stale = 1;
      d.relay->lists_hold = 0;
    });
    team.sync();
    if (too_wide) return {kStartAgain};
    if (!d.tree) return {kBeginTrees};
  }
  team.each(s.m, [&](int64_t j) {
    if (peek(s.on_path + j) == kInactive && peek(s.label + j) == 0) {
      lower_to(s.parent + j, peek(d.offer + j));
    }
  });
  team.sync();
  const int64_t count =
      contract(team, d.p, level, [&](int64_t j) { return peek(s.parent + j) != kNoParent; });
  team.leader([&] {
    d.relay->level = int32_t((level + 1) & 1);
    d.relay->count = int32_t(count);
  });
  team.sync();
  return {kSearchZeros};
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_DIVIDED_TREES_H_
