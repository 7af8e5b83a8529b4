"""The exact assignment of one level: sparse problems, priced against all pairs."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from jaxmatch._assignment_points.level_arrays import put, repeat_while
from jaxmatch._assignment_points.nearest import Nearest, nearest
from jaxmatch._assignment_points.pair_graph import Near, pair_graph
from jaxmatch._common.promotion import module_of
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Float, Int
from jaxmatch._sparse_assignment.native import sparse_assignment


Platform: TypeAlias = Literal["cpu", "cuda"]

_OF_ROW, _OF_COL = 8, 4  # pairs of each row and of each column in a sparse problem
# Pairs are also looked for between the prices of a sparse problem and the best ones known, and
# nearer to the best ones while these stay the best (in-out separation: Ben-Ameur and Neto,
# Acceleration of cutting-plane and column generation algorithms, 2007). Without this, the prices of
# sparse problems may alternate for ever.
_PART, _LEAST_PART = 0.5, 2.0**-6


class _Duals(NamedTuple):
    """Duals that fit all pairs."""

    row: Float[Array, " n"]
    col: Float[Array, " m"]


class State(NamedTuple):
    solves: Int[Array, ""]
    res: Any  # of the last sparse problem
    pair: Int[Array, " n"]
    price: Float[Array, " m"]  # of the last sparse problem: its duals do not fit all pairs
    near: tuple[Near, Near]  # at these prices, and between them and the best ones
    part: Float[Array, ""]  # of the way from the best prices to these
    best: _Duals
    excess: Float[Array, ""]  # of the cost of the pairs over the sum of the best duals


def window(middle: Int[Array, " n"], count: int, m: int) -> Int[Array, "n count"]:
    xp = module_of(middle)
    first = xp.clip(middle - count // 2, 0, m - count)
    return first[:, None] + xp.arange(count, dtype=xp.int32)[None]


def _with_pair(pair: Int[Array, " n"], others: Int[Array, "n k"]) -> Int[Array, "n k+1"]:
    return module_of(pair).concatenate([pair[:, None], others], axis=1)


def by_rank(n: int, m: int, xp: Any) -> Int[Array, " n"]:
    """A number from 0 to m − 1 for each number from 0 to n − 1, in the same order."""
    return (xp.arange(n, dtype=xp.int64) * m // n).astype(xp.int32)


def solve_level(
    x: Array,
    y: Array,
    pair: Array,
    price: Array,
    metric: str,
    platform: Platform,
    most: int,
    gap: float,
) -> State:
    """Assigns all points, or stops after `most` solves, or at this gap as a part of the cost.

    `pair`, a column for each row, and `price` are where it starts. They only save time.
    """
    xp, n, m = module_of(x), len(x), len(y)

    def look(pair: Array, price: Array, near: Near) -> tuple[Near, _Duals]:
        """The best columns of rows and rows of columns, and the duals that these prices allow."""
        of_rows = nearest(x, y, price, _with_pair(pair, near.of_rows.col), _OF_ROW, metric)
        row4col = put(near.of_cols.col[:, 0], pair, xp.arange(n, dtype=xp.int32))
        near_cols = _with_pair(row4col, near.of_cols.col)
        of_cols = nearest(y, x, of_rows.reduced, near_cols, _OF_COL, metric)
        return Near(of_rows, of_cols), _Duals(of_rows.reduced, price)

    def step(state: State, starts: bool) -> State:
        graph, cost, edge = pair_graph(state.pair, state.near)
        res, _, _ = sparse_assignment(
            graph,
            cost,
            col_dual=state.price,
            edge=edge if starts and platform == "cuda" else None,
            maximize=False,
            platform=platform,
        )
        solved = res.status == Status.OPTIMAL
        pair = xp.where(solved, res.col4row, state.pair)
        own, duals = look(pair, res.col_dual, state.near[0])
        between = state.best.col + state.part * (res.col_dual - state.best.col)
        others, duals_between = look(pair, between, own)
        cost_of_pair = own.of_rows.cost_of_pair.astype(price.dtype)
        alone = put(xp.ones(m, bool), pair, False)
        best, excess = state.best, _excess(cost_of_pair, pair, alone, state.best)
        for found in (duals, duals_between):
            other = _excess(cost_of_pair, pair, alone, found)
            better = ~(other >= excess)
            best = jax.tree.map(lambda a, b, c=better: xp.where(c, a, b), found, best)
            excess = xp.where(better, other, excess)
        rises = excess < _excess(cost_of_pair, pair, alone, state.best)
        part = xp.where(state.part > _LEAST_PART, state.part / 2, 1 - state.part)
        part = xp.where(rises, _PART, part)
        excess = xp.where(solved, excess, jnp.nan)
        return State(state.solves + 1, res, pair, res.col_dual, (own, others), part, best, excess)

    def goes_on(state: State) -> Array:
        return (state.excess > most_excess(state, gap)) & (state.solves < most)

    cols, rows = window(pair, _OF_ROW, m), window(by_rank(m, n, xp), _OF_COL, n)
    blank = Near(*(Nearest(k, *[xp.zeros(())] * 3) for k in (cols, rows)))
    near, duals = look(pair, price, blank)
    part = xp.full((), _PART, price.dtype)
    first = State(xp.int32(0), None, pair, price, (near, near), part, duals, xp.zeros(()))
    if platform == "cpu" and xp is jnp:
        # Solves with and without a start are the same there. A loop that begins with a solution at
        # infinity compiles in half of the time.
        shapes = jax.eval_shape(lambda state: step(state, False), first)
        blanks = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes.res)
        first = first._replace(res=blanks, excess=jnp.full((), jnp.inf, price.dtype))
    else:
        first = step(first, False)
    return repeat_while(goes_on, lambda state: step(state, True), first, like=x)


def _excess(cost_of_pair: Array, pair: Array, alone: Array, duals: _Duals) -> Array:
    """By how much the cost of the pairs exceeds the sum of the duals; no term is negative."""
    xp = module_of(pair)
    excess = xp.maximum(cost_of_pair - duals.col[pair] - duals.row, 0).sum()
    return excess - xp.where(alone, duals.col, 0).sum()


def most_excess(state: State, gap: float) -> Array:
    xp = module_of(state.pair)
    return xp.maximum(gap * xp.abs(state.res.cost), state.res.gap)
