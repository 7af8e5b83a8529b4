"""The smallest maximum key of an assignment: a bisection, for a whole batch in one loop.

Keys are costs as integers in the same order, see `keys`. Each turn of the loop tests one threshold
for each problem of the batch, by solving an assignment problem, see `bounds`. The first turns test
the current lower bound on the key. A failed test raises it, mostly so far that few turns are
needed. Later turns alternately test the bound and the middle of the remaining interval, so there
are at most two of them for each bit of a key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp

from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._bottleneck.bounds import Bound, raised, uncovered
from jaxmatch._bottleneck.keys import middle
from jaxmatch._common.proof import either, module_of, repeat
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.typing import Array, Bool, Int


_FIRST_TURNS = 8  # the number of first turns, which test only the lower bound

T = TypeVar("T")
Solver: TypeAlias = Callable[[AssignmentProblem], Assignment]


class Sides(NamedTuple):
    """The rows and columns of a batch of problems."""

    rows: Bool[Array, "... n"]  # rows that exist
    cols: Bool[Array, "... m"]
    masks: tuple[Bool[Array, "... n"] | None, Bool[Array, "... m"] | None]  # as given by callers

    @property
    def counts(self) -> tuple[Int[Array, "..."], Int[Array, "..."]]:
        return self.rows.sum(-1, dtype=jnp.int32), self.cols.sum(-1, dtype=jnp.int32)


class Pairs(NamedTuple):
    col4row: Int[Array, "... n"]
    row4col: Int[Array, "... m"]


class Search(NamedTuple):
    """The state of the loop. `bound.least` <= smallest maximum key <= `most`."""

    bound: Bound
    most: Int[Array, "..."]  # the greatest key of `pairs`; at first, of all allowed pairs
    found: Bool[Array, "..."]  # whether an assignment was found; it is `pairs`
    pairs: Pairs
    turns: Int[Array, "..."]  # the number of turns so far

    @property
    def ended(self) -> Bool[Array, "..."]:
        return self.found & (self.bound.least >= self.most)

    @property
    def failed(self) -> Bool[Array, "..."]:
        return ~self.found & (self.bound.least > self.most)

    @property
    def threshold(self) -> Int[Array, "..."]:
        least = self.bound.least
        halve = (self.turns >= _FIRST_TURNS) & (self.turns % 2 == 1) & (least < self.most)
        return where(halve, middle(least, self.most), least)


def first(key: Int[Array, "... n m"], most: Int[Array, "..."], sides: Sides) -> Search:
    """The state before the first turn. `most`: the greatest key of an allowed pair."""
    xp = module_of(key)
    bound = raised(key, sides.rows, sides.cols, xp.minimum(*sides.counts))
    no = xp.zeros_like(most, bool)
    pairs = Pairs(*(x.astype(jnp.int32) * 0 - 1 for x in (sides.rows, sides.cols)))
    return Search(bound, most, no, pairs, no.astype(jnp.int32))


def find(search: Search, key: Array, sides: Sides, skip: Array, solve: Solver) -> Search:
    """Runs a search until it has ended or failed. Problems in `skip` are not searched.

    Pairs that do not exist or are forbidden have the greatest integer as key.
    """

    def is_done(search: Search) -> Bool[Array, "..."]:
        return skip | search.ended | search.failed

    def turn(search: Search) -> Search:
        done, at = is_done(search), search.threshold
        cost = (~done[..., None, None] & (key > at[..., None, None])).astype(jnp.int32)
        res = solve(AssignmentProblem(cost, *sides.masks))
        return where(done, search, tested(search, key, at, res, sides))

    start = vary_alike(search, (search, key, sides, skip))
    return repeat(lambda s: ~is_done(s).all(), turn, start, module_of(key))


def tested(
    search: Search,
    key: Int[Array, "... n m"],
    threshold: Int[Array, "..."],
    res: Assignment,
    sides: Sides,
    must: tuple[Array, Array] | None = None,
) -> Search:
    """The state after a test of `threshold`.

    `res`: the solution of the problem with costs 0 for keys up to `threshold`, and 1 for greater
    keys. `must`: the rows and the columns of the longer side that must be matched. The costs of
    their pairs were lowered by 1.
    """
    pairs = Pairs(res.col4row, res.row4col)
    own, matched = own_keys(key, pairs), pairs.col4row >= 0
    closed = matched & (own > threshold[..., None])
    u, v = res.row_dual, res.col_dual
    count = closed.sum(-1, dtype=jnp.int32)
    if must is not None:
        must_rows, must_cols = must
        closed |= must_rows & ~matched
        count = closed.sum(-1, dtype=jnp.int32)
        count += (must_cols & (pairs.row4col < 0)).sum(-1, dtype=jnp.int32)
        u, v = u + must_rows.astype(u.dtype), v + must_cols.astype(v.dtype)
    fits = count == 0

    def higher() -> Bound:
        rows, cols = uncovered(u, v, closed)
        return where(fits, search.bound, raised(key, sides.rows & rows, sides.cols & cols, count))

    return Search(
        bound=either(fits.all(), lambda: search.bound, higher),
        most=where(fits, greatest(own, matched), search.most),
        found=search.found | fits,
        pairs=where(fits, pairs, search.pairs),
        turns=search.turns + 1,
    )


def own_keys(key: Int[Array, "... n m"], pairs: Pairs) -> Int[Array, "... n"]:
    """Returns the key of each row's pair. A row without a pair has an arbitrary key."""
    xp = module_of(key)
    at = xp.maximum(pairs.col4row, 0)[..., None]
    return xp.take_along_axis(key, at, axis=-1)[..., 0]


def greatest(key: Int[Array, "... n"], among: Bool[Array, "... n"]) -> Int[Array, "..."]:
    least = jnp.iinfo(key.dtype).min
    return module_of(key).where(among, key, least).max(-1, initial=least)


def where(condition: Bool[Array, "..."], a: T, b: T) -> T:
    """Selects from two pytrees, problem by problem."""

    def select(x: Array, y: Array) -> Array:
        xp, inner = module_of(condition), tuple(range(condition.ndim, x.ndim))
        return xp.where(xp.expand_dims(condition, inner), x, y)

    return jax.tree.map(select, a, b)
