"""Assignments between many points in the plane or in space, on CUDA, by levels of resolution.

Groups of four neighbouring points, as single points at their means, are assigned first, and these
in the same way. The duals of the groups predict which pairs of points may be used. Only these pairs
are solved, as a sparse problem. Then all pairs are compared with the duals of the points, and those
that could improve the solution take part in the next solve, until there are none. So the result is
exact for all pairs, whatever the prediction was worth.

Merigot (A multiscale approach to optimal transport, 2011) and Schmitzer (A sparse multiscale
algorithm for dense optimal transport, 2016) solve coarse problems first, too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment import native_large
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Float, Int
from jaxmatch._ffi.call import Result, native_call
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.native import sparse_assignment


_MOST_DIMENSIONS = 3  # as in ffi/nearest/problem.h
_OF_ROW, _OF_COL = 8, 4  # pairs of each row and of each column in a sparse problem
_GROUP = 4  # points
_DENSE = 4096  # at most this many points are assigned with all pairs
_COARSE_SOLVES, _COARSE_GAP = 10, 2.0**-10  # of each level but the last
_MOST_SOLVES, _GAP = 48, 2.0**-36  # of the last level; the gap as a part of the cost
# Pairs are also looked for between the prices of a sparse problem and the best ones known, and
# nearer to the best ones while these stay the best (in-out separation: Ben-Ameur and Neto,
# Acceleration of cutting-plane and column generation algorithms, 2007). Without this, the prices of
# sparse problems may alternate for ever.
_PART, _LEAST_PART = 0.5, 2.0**-6
_LEAST = 20_000  # points from which on this pays
_MOST_RATIO = 32  # of the longer side to the shorter one
_MOST = (1 << 24) - 1  # points of a side
TAKES = f"from {_DENSE + 1} to {_MOST} points a side, of which one is at most {_MOST_RATIO} times "
TAKES += f"longer than the other, in up to {_MOST_DIMENSIONS} dimensions"


class Nearest(NamedTuple):
    """For each row the columns of least cost − price, best first."""

    col: Int[Array, "n k"]
    cost: Float[Array, "n k"]
    reduced: Float[Array, " n"]  # the least cost − price
    cost_of_pair: Float[Array, " n"]  # of the row and the first column that was named near


class _Near(NamedTuple):
    of_rows: Nearest
    of_cols: Nearest


class _Duals(NamedTuple):
    """Duals that fit all pairs."""

    row: Float[Array, " n"]
    col: Float[Array, " m"]


class _State(NamedTuple):
    solves: Int[Array, ""]
    res: Any  # of the last sparse problem
    pair: Int[Array, " n"]
    price: Float[Array, " m"]  # of the last sparse problem: its duals do not fit all pairs
    near: tuple[_Near, _Near]  # at these prices, and between them and the best ones
    part: Float[Array, ""]  # of the way from the best prices to these
    best: _Duals
    excess: Float[Array, ""]  # of the cost of the pairs over the sum of the best duals


def fit(n: int, m: int, dims: int) -> bool:
    """Whether `solve` takes problems of this size."""
    few, many = sorted((n, m))
    return 0 < dims <= _MOST_DIMENSIONS and _DENSE < few and many <= min(_MOST_RATIO * few, _MOST)


def pay(n: int, m: int, dims: int) -> bool:
    """Whether `solve` takes such problems, and is faster than a solver that uses all pairs."""
    return fit(n, m, dims) and min(n, m) >= _LEAST


def with_status(res: Assignment, solved: Array) -> Assignment:
    """The result with the status that its gap asks for, where no other method solves the problem.

    A sparse problem that has no solution says nothing about all pairs: cost and gap are infinite.
    """
    found = res.status == Status.OPTIMAL
    invalid = res.status == Status.INVALID_COST

    def field(a: Array) -> Array:
        return jnp.where(found, a, -1 if jnp.issubdtype(a.dtype, jnp.integer) else jnp.nan)

    status = jnp.where(found & solved, Status.OPTIMAL, Status.TIME_LIMIT)
    status = jnp.where(invalid, Status.INVALID_COST, status).astype(res.status.dtype)
    unknown = found | invalid
    cost, gap = (jnp.where(unknown, field(a), jnp.inf) for a in (res.cost, res.gap))
    return jax.tree.map(field, res).replace(status=status, cost=cost, gap=gap)


def solve(
    x: Float[Array, "n d"], y: Float[Array, "m d"], *, metric: str
) -> tuple[Assignment, Array]:
    """The assignment, and whether it is optimal: if not, its gap is that of the last solve.

    Computes in 64 bits, whatever the configuration. No point may be masked.
    """
    real = result_float()
    with jax.enable_x64(True):
        few, many = (x, y) if len(x) <= len(y) else (y, x)
        res, solved = _solve(few, many, metric)
        gap = res.gap.astype(real)
        gap = jnp.where(
            gap.astype(res.gap.dtype) < res.gap, jnp.nextafter(gap, jnp.asarray(jnp.inf, real)), gap
        )
        cost, row_dual, col_dual = (a.astype(real) for a in (res.cost, res.row_dual, res.col_dual))
        res = res.replace(cost=cost, row_dual=row_dual, col_dual=col_dual, gap=gap)
        if len(x) > len(y):
            res = res.replace(
                col4row=res.row4col,
                row4col=res.col4row,
                row_dual=res.col_dual,
                col_dual=res.row_dual,
            )
    return res, solved


def _solve(x: Array, y: Array, metric: str) -> tuple[Assignment, Array]:
    orders = _orders(x, y)
    levels = [(x[orders[0]], y[orders[1]])]
    while len(levels[-1][0]) > _DENSE:
        x, y = levels[-1]
        levels.append((_means(x), _means(y)))
    res = _by_all_pairs(*levels[-1], metric)
    col4row, row_dual = res.col4row, res.row_dual
    state: _State | None = None
    for level in reversed(range(len(levels) - 1)):
        coarse, (x, y) = levels[level + 1][0], levels[level]
        pair = _pairs_of_groups(col4row, *map(len, (x, y, levels[level + 1][1])))
        price = _extended(coarse, row_dual, y, metric)
        if len(x) < len(y):  # then columns stay free, at the price 0
            price = jnp.minimum(price, 0)
        stop = (_COARSE_SOLVES, _COARSE_GAP) if level else (_MOST_SOLVES, _GAP)
        state = _solve_level(x, y, pair, price, metric, *stop)
        col4row, row_dual = state.pair, state.best.row
    assert state is not None
    # The duals of a row are rounded to half of the last place of a price.
    rounding = sum(jnp.abs(a).sum() for a in state.best) * 2.0**-52
    gap = state.excess + state.res.gap + rounding
    res = state.res.replace(row_dual=state.best.row, col_dual=state.best.col, gap=gap)
    return _in_given_order(res, *orders), state.excess <= _most_excess(state, _GAP)


def _orders(x: Array, y: Array) -> tuple[Array, Array]:
    """Orders of the points along Hilbert's curve, as Skilling (2004) computes it."""
    dims = x.shape[-1]
    bits = min(62 // dims, 31)
    x, y = x.astype(jnp.float64), y.astype(jnp.float64)
    least = jnp.minimum(x.min(0), y.min(0))
    width = jnp.maximum((jnp.maximum(x.max(0), y.max(0)) - least).max(), jnp.finfo(x.dtype).tiny)

    def order(points: Array) -> Array:
        cells = ((points - least[None]) / width * (2.0**bits - 1)).astype(jnp.uint64)
        at = list(cells.T)
        for bit in reversed(range(1, bits)):
            low = jnp.uint64((1 << bit) - 1)
            for axis in range(dims):
                upper = (at[axis] >> bit & 1).astype(bool)
                swapped = (at[0] ^ at[axis]) & low
                first = jnp.where(upper, at[0] ^ low, at[0] ^ swapped)
                if axis:
                    at[axis] = jnp.where(upper, at[axis], at[axis] ^ swapped)
                at[0] = first if axis else jnp.where(upper, first, at[0])
        for axis in range(1, dims):
            at[axis] ^= at[axis - 1]
        turn = jnp.zeros_like(at[0])
        for bit in reversed(range(1, bits)):
            turn ^= jnp.where((at[-1] >> bit & 1).astype(bool), jnp.uint64((1 << bit) - 1), 0)
        key = jnp.zeros_like(at[0])
        for bit in reversed(range(bits)):
            for axis in range(dims):
                key = key << 1 | ((at[axis] ^ turn) >> bit & 1)
        return _argsort(key)

    return order(x), order(y)


def _argsort(keys: Array) -> Int[Array, " n"]:
    return lax.sort((keys, lax.iota(jnp.int32, len(keys))), num_keys=1)[1]


def _in_given_order(res: Assignment, rows: Array, cols: Array) -> Assignment:
    def back(values: Array, order: Array) -> Array:
        return jnp.zeros_like(values).at[order].set(values)

    def named(pairs: Array, order: Array) -> Array:
        return jnp.where(pairs < 0, -1, order[jnp.maximum(pairs, 0)])

    return res.replace(
        col4row=back(named(res.col4row, cols), rows),
        row4col=back(named(res.row4col, rows), cols),
        row_dual=back(res.row_dual, rows),
        col_dual=back(res.col_dual, cols),
    )


def _means(points: Array) -> Array:
    """The means of neighbouring points. A last group that is not full has none."""
    count = len(points) // _GROUP
    return points[: count * _GROUP].reshape(count, _GROUP, -1).mean(1)


def _by_all_pairs(x: Array, y: Array, metric: str) -> Assignment:
    res, _ = native_large.large(
        x.T, None, None, maximize=False, method="core", col_points=y.T, metric=metric
    )
    rank = jnp.arange(len(x), dtype=jnp.int32)
    solved = res.status == Status.OPTIMAL
    return res.replace(
        col4row=jnp.where(solved, res.col4row, rank), row_dual=jnp.where(solved, res.row_dual, 0)
    )


def _pairs_of_groups(group4row: Array, n: int, m: int, groups: int) -> Int[Array, " n"]:
    """A column for each row, no two alike: points of a group are paired with those of its pair."""
    of_group = jnp.arange(_GROUP, dtype=jnp.int32)
    pairs = (group4row[:, None] * _GROUP + of_group[None]).ravel()
    taken = jnp.zeros(groups + 1, bool).at[group4row].set(True)
    # The first group without a pair, or the points after the last group, are enough for the rest.
    spare = lax.argmin(taken, 0, jnp.int32) * _GROUP
    return jnp.concatenate([pairs, spare + of_group[: n - len(pairs)]])


def _window(middle: Int[Array, " n"], count: int, m: int) -> Int[Array, "n count"]:
    first = jnp.clip(middle - count // 2, 0, m - count)
    return first[:, None] + jnp.arange(count, dtype=jnp.int32)[None]


def _with_pair(pair: Int[Array, " n"], others: Int[Array, "n k"]) -> Int[Array, "n k+1"]:
    return jnp.concatenate([pair[:, None], others], axis=1)


def _by_rank(n: int, m: int) -> Int[Array, " n"]:
    return (jnp.arange(n, dtype=jnp.int64) * m // n).astype(jnp.int32)


def _extended(x: Array, row_dual: Array, y: Array, metric: str) -> Array:
    """The prices of columns y that the duals of rows x allow."""
    near = _window(_by_rank(len(y), len(x)), 8, len(x))
    price = nearest(y, x, row_dual, near, 1, metric).reduced
    return jnp.where(jnp.isfinite(price), price, 0)


def _solve_level(
    x: Array, y: Array, pair: Array, price: Array, metric: str, most: int, gap: float
) -> _State:
    n, m = len(x), len(y)

    def look(pair: Array, price: Array, near: _Near) -> tuple[_Near, _Duals]:
        """The best columns of rows and rows of columns, and the duals that these prices allow."""
        of_rows = nearest(x, y, price, _with_pair(pair, near.of_rows.col), _OF_ROW, metric)
        row4col = near.of_cols.col[:, 0].at[pair].set(jnp.arange(n, dtype=jnp.int32))
        near_cols = _with_pair(row4col, near.of_cols.col)
        of_cols = nearest(y, x, of_rows.reduced, near_cols, _OF_COL, metric)
        return _Near(of_rows, of_cols), _Duals(of_rows.reduced, price)

    def step(state: _State, starts: bool) -> _State:
        graph, cost, edge = _graph(state.pair, state.near)
        res, _, _ = sparse_assignment(
            graph,
            cost,
            col_dual=state.price,
            edge=edge if starts else None,
            maximize=False,
            cardinality="full",
            platform="cuda",
        )
        solved = res.status == Status.OPTIMAL
        pair = jnp.where(solved, res.col4row, state.pair)
        own, duals = look(pair, res.col_dual, state.near[0])
        between = state.best.col + state.part * (res.col_dual - state.best.col)
        others, duals_between = look(pair, between, own)
        cost_of_pair = own.of_rows.cost_of_pair.astype(price.dtype)
        alone = jnp.ones(m, bool).at[pair].set(False)
        best, excess = state.best, _excess(cost_of_pair, pair, alone, state.best)
        for found in (duals, duals_between):
            other = _excess(cost_of_pair, pair, alone, found)
            better = ~(other >= excess)
            best = jax.tree.map(lambda a, b, c=better: jnp.where(c, a, b), found, best)
            excess = jnp.where(better, other, excess)
        rises = excess < _excess(cost_of_pair, pair, alone, state.best)
        part = jnp.where(state.part > _LEAST_PART, state.part / 2, 1 - state.part)
        part = jnp.where(rises, _PART, part)
        excess = jnp.where(solved, excess, jnp.nan)
        return _State(state.solves + 1, res, pair, res.col_dual, (own, others), part, best, excess)

    def goes_on(state: _State) -> Array:
        return (state.excess > _most_excess(state, gap)) & (state.solves < most)

    cols, rows = _window(pair, _OF_ROW, m), _window(_by_rank(m, n), _OF_COL, n)
    blank = _Near(*(Nearest(k, *[jnp.zeros(())] * 3) for k in (cols, rows)))
    near, duals = look(pair, price, blank)
    part = jnp.full((), _PART, price.dtype)
    first = _State(jnp.int32(0), None, pair, price, (near, near), part, duals, jnp.zeros(()))
    return lax.while_loop(goes_on, lambda state: step(state, True), step(first, False))


def _excess(cost_of_pair: Array, pair: Array, alone: Array, duals: _Duals) -> Array:
    """By how much the cost of the pairs exceeds the sum of the duals; no term is negative."""
    excess = jnp.maximum(cost_of_pair - duals.col[pair] - duals.row, 0).sum()
    return excess - jnp.where(alone, duals.col, 0).sum()


def _most_excess(state: _State, gap: float) -> Array:
    return jnp.maximum(gap * jnp.abs(state.res.cost), state.res.gap)


def _graph(pair: Array, near: tuple[_Near, _Near]) -> tuple[BipartiteGraph, Array, Array]:
    """The pairs of a sparse problem and their costs, and where the pair of each row is.

    Those of a row are its pair, the best columns of the row, and the columns it is best for. A pair
    that comes again has the cost +inf.
    """
    of_rows, of_cols = (tuple(k) for k in zip(*near, strict=True))
    own, own_cost = pair[:, None], of_rows[0].cost_of_pair[:, None]
    for found in of_rows:
        again = (found.col[:, :, None] == own[:, None]).any(2)
        own = jnp.concatenate([own, found.col], axis=1)
        own_cost = jnp.concatenate([own_cost, jnp.where(again, jnp.inf, found.cost)], axis=1)
    (n, k), m = own.shape, len(of_cols[0].col)
    rows = jnp.concatenate([found.col for found in of_cols], axis=1)
    again = (of_cols[1].col[:, :, None] == of_cols[0].col[:, None]).any(2)
    others = jnp.where(again, jnp.inf, of_cols[1].cost)
    costs = jnp.concatenate([of_cols[0].cost, others], axis=1)
    k_of_cols = rows.shape[1]

    order = _argsort(rows.ravel())
    row, col = rows.ravel()[order], order // k_of_cols
    cost = costs.ravel()[order]
    cost = jnp.where((own[row] == col[:, None]).any(1), jnp.inf, cost)

    given = jnp.zeros(n, jnp.int32).at[row].add(1)
    before = jnp.cumsum(given, dtype=jnp.int32) - given
    row_ptr = _pointers(given + k)
    size = n * k + m * k_of_cols
    at_own = row_ptr[:-1, None] + jnp.arange(k, dtype=jnp.int32)[None]
    at = row_ptr[row] + k + jnp.arange(m * k_of_cols, dtype=jnp.int32) - before[row]
    col_ind = jnp.zeros(size, jnp.int32).at[at_own].set(own).at[at].set(col)
    all_costs = jnp.zeros(size, cost.dtype).at[at_own].set(own_cost).at[at].set(cost)
    degree = jnp.full(m, k_of_cols, jnp.int32).at[own].add(1)
    # The solver reads `col_ptr`. It only checks the range of `row_ind`, so zeros suffice.
    row_ind = jnp.zeros(size, jnp.int32)
    sides = jnp.asarray(n, jnp.int32), jnp.asarray(m, jnp.int32)
    graph = BipartiteGraph(row_ptr, col_ind, _pointers(degree), row_ind, *sides)
    return graph, all_costs, row_ptr[:-1]


def _pointers(count: Int[Array, " n"]) -> Int[Array, " n+1"]:
    return jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(count, dtype=jnp.int32)])


def nearest(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    price: Float[Array, " m"],
    near: Int[Array, "n k+"],
    k: int,
    metric: str,
) -> Nearest:
    """The k columns of least cost − price of each row, on CUDA.

    `near`: columns near each row, k of them different, which save time; first that whose cost is
    asked for.
    """
    n = len(x)
    return Nearest(
        *native_call(
            "jaxmatch_nearest",
            [x, y, price, near],
            [
                Result((n, k), jnp.int32),
                Result((n, k), x.dtype),
                Result((n,), price.dtype),
                Result((n,), x.dtype),
            ],
            core_dims=[2, 2, 1, 2],
            metric=metric,
        )
    )
