"""Lexicographic bottleneck assignment: level by level, from the greatest cost down.

A level consists of all pairs with the same key (a cost as an integer, see `keys`). To settle a
level means to keep only the assignments with the fewest pairs of this level.

After Burkard, Dell'Amico and Martello, *Assignment Problems*, section 6.3.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._bottleneck.bounds import Bound, raised
from jaxmatch._bottleneck.search import (
    Pairs,
    Search,
    Sides,
    Solver,
    greatest,
    own_keys,
    tested,
    where,
)
from jaxmatch._common.proof import either, module_of, repeat
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.typing import Array, Bool, Int


class Levels(NamedTuple):
    """The search for the next level, and the constraints from settled levels.

    `key` holds the key of each pair. It becomes the least integer for pairs of settled levels, and
    the greatest integer for pairs that no optimum contains.
    """

    search: Search
    key: Int[Array, "... n m"]
    must_rows: Bool[Array, "... n"]  # if rows are the longer side: rows that every optimum matches
    must_cols: Bool[Array, "... m"]
    proof: Bound  # the bound of the first level, which proves the bottleneck
    settled: Bool[Array, "..."]  # whether the first level is settled
    overflow: Bool[Array, "..."]  # whether the duals of a level were too large to be exact


def find_lexicographic(
    search: Search, key: Array, sides: Sides, skip: Array, solve: Solver
) -> Levels:
    """Runs searches, each followed by a turn that settles its level, until all keys are settled.

    Suppose that some levels are settled: all remaining assignments have the same number of pairs in
    each of these levels, and all optima remain. Let k be the smallest maximum key that the pairs of
    other levels can have in a remaining assignment. The search finds k, and k is the next level.
    Settling it keeps those remaining assignments that have no greater key and the fewest pairs with
    the key k. All optima are among them.

    They are the optimal assignments for these costs: 1 for pairs with the key k, 0 for smaller keys
    and for pairs of settled levels, and for all others more than the whole assignment that the
    search found. By complementary slackness, the optimal assignments are exactly those that consist
    of tight pairs and match all vertices with negative duals. Every remaining assignment has a pair
    in each settled level, so there are at most as many levels as pairs in an assignment.
    """

    def is_done(s: Levels) -> Bool[Array, "..."]:
        nothing_left = s.search.found & (s.search.most == jnp.iinfo(key.dtype).min)
        return skip | s.search.failed | nothing_left | s.overflow

    def turn(s: Levels) -> Levels:
        done = is_done(s)
        return where(done, s, _turn(s, sides, done, solve))

    no = module_of(key).zeros_like(skip)
    start = Levels(search, key, ~sides.rows & False, ~sides.cols & False, search.bound, no, no)
    start = vary_alike(start, (start, sides, skip))
    end = repeat(lambda s: ~is_done(s).all(), turn, start, module_of(key))
    return end._replace(proof=where(end.settled, end.proof, end.search.bound))


def _turn(s: Levels, sides: Sides, done: Bool[Array, "..."], solve: Solver) -> Levels:
    """Solves one assignment problem: to test a threshold, or, after a search, to settle a level."""
    xp, search, settle = module_of(s.key), s.search, s.search.ended
    at = where(settle, search.most, search.threshold)
    own, matched = own_keys(s.key, search.pairs), search.pairs.col4row >= 0
    in_level = (matched & (own == at[..., None])).sum(-1, dtype=jnp.int32)
    price = where(settle, in_level + 1, xp.ones_like(in_level))[..., None, None]

    here = at[..., None, None]
    of_level = settle[..., None, None] & (s.key == here)
    must = s.must_rows[..., :, None] | s.must_cols[..., None, :]
    cost = xp.where(s.key > here, price, of_level.astype(jnp.int32)) - xp.where(must, price, 0)
    res = solve(AssignmentProblem(xp.where(done[..., None, None], 0, cost), *sides.masks))

    after = tested(search, s.key, at, res, sides, (s.must_rows, s.must_cols))
    settling = settle & ~done
    return either(
        settling.any(),
        lambda: where(settle, _settled(s, cost, res, sides), s._replace(search=after)),
        lambda: s._replace(search=after),
    )


def _settled(s: Levels, cost: Int[Array, "... n m"], res: Assignment, sides: Sides) -> Levels:
    """Keeps only assignments that are optimal for `cost`, and begins the next level's search."""
    xp = module_of(s.key)
    least, never = jnp.iinfo(s.key.dtype).min, jnp.iinfo(s.key.dtype).max
    u, v, level = res.row_dual, res.col_dual, s.search.most[..., None, None]
    tight = cost.astype(u.dtype) == u[..., :, None] + v[..., None, :]
    key = xp.where(s.key == level, least, s.key)
    key = xp.where(tight & (s.key <= level), key, never)

    rows, cols = (x[..., None] for x in sides.counts)
    pairs = Pairs(res.col4row, res.row4col)
    search = Search(
        bound=raised(key, sides.rows, sides.cols, xp.minimum(*sides.counts)),
        most=greatest(own_keys(key, pairs), pairs.col4row >= 0),
        found=s.search.found,
        pairs=pairs,
        turns=s.search.turns * 0,
    )
    # Duals are integers. From this magnitude on, the sum of two of them may be rounded.
    most = 2.0 ** (jnp.finfo(u.dtype).nmant)
    large = (xp.abs(u) >= most).any(-1) | (xp.abs(v) >= most).any(-1)
    return Levels(
        search,
        key,
        s.must_rows | (sides.rows & (rows > cols) & (u < 0)),
        s.must_cols | (sides.cols & (cols > rows) & (v < 0)),
        where(s.settled, s.proof, s.search.bound),
        s.settled | True,
        large,
    )
