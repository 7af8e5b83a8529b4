"""How the check of a plan reads costs: row minima in one pass, and the costs of the plan's pairs.

Costs are minimised. Each cost is an unevaluated sum of a float and a rest, because a long integer
does not fit into one float. A rest of None is 0. Masked pairs cost +inf. NaN becomes −inf: the row
minimum is then −inf, which proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.blocks import blocks_of, in_blocks, rows_from
from jaxmatch._common.distances import distances, recomputed
from jaxmatch._common.proof import as_costs, is_tiny, minus, module_of, proof_float, sum_down
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


Pair = tuple[Array, Array | None]


class RowMinima(NamedTuple):
    """What one pass over the costs finds for each row."""

    least: Float[Array, " n"]  # min_j C_ij − v_j, as a float and a rest
    least_rest: Float[Array, " n"]
    has_tiny: Bool[Array, " n"]  # whether XLA may flush a cost to 0, see `is_tiny`
    is_sound: Bool[Array, " n"]  # whether no cost is NaN or −inf
    has_forbidden: Bool[Array, " n"]  # whether the row has a forbidden pair
    slack: Float[Array, " n"] | None  # a lower bound of min_j C_ij − v_j − u_i; None without u


class CheckCosts(Protocol):
    """Access to the costs of one problem, as a check needs it."""

    dtype: Any
    exist: tuple[Array, Array]  # which rows and which columns exist
    recomputed: tuple[float, float]  # see `jaxmatch._common.distances.recomputed`

    def minima(self, v: Array, u: Array | None = None) -> RowMinima: ...
    def pairs(self, i: Array, j: Array) -> Pair: ...
    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yields the costs in blocks of rows (NumPy): the index of the first row, and the block."""
        ...


class StoredCosts:
    """The costs of a stored matrix."""

    def __init__(
        self,
        cost: Num[Array, "n m"],
        rows: Bool[Array, " n"],
        cols: Bool[Array, " m"],
        maximize: bool,
    ) -> None:
        self._cost, self._rows, self._cols, self._maximize = cost, rows, cols, maximize
        self.dtype, self.exist, self.recomputed = cost.dtype, (rows, cols), (1.0, 0.0)

    def minima(self, v: Array, u: Array | None = None) -> RowMinima:
        n, m = self._cost.shape
        if module_of(v) is jnp:
            return _reduce(self._cost, self._rows, self._cols, v, u, self._maximize)

        def reduce_block(first: int, count: int) -> RowMinima:
            def part(a: Array) -> Array:
                return a[first : first + count]

            own = None if u is None else part(u)
            cost, rows = part(self._cost), part(self._rows)
            return _reduce(cost, rows, self._cols, v, own, self._maximize)

        return in_blocks(reduce_block, n, m, xp=np)

    def pairs(self, i: Int[Array, " k"], j: Int[Array, " k"]) -> Pair:
        if not self._cost.size:
            return module_of(i).full(i.shape, jnp.inf, proof_float(i)), None
        exists = self._rows[i] & self._cols[j]
        return as_costs(self._cost[i, j], exists, self._maximize)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        for first, count in blocks_of(*self._cost.shape):
            here = slice(first, first + count)
            exists = self._rows[here, None] & self._cols
            yield first, as_costs(self._cost[here], exists, self._maximize)[0]


class PointCosts:
    """Distances of points, recomputed in blocks of rows. `problems` is the size of the batch."""

    def __init__(
        self,
        x: Float[Array, "n d"],
        y: Float[Array, "m d"],
        rows: Bool[Array, " n"],
        cols: Bool[Array, " m"],
        maximize: bool,
        metric: str,
        problems: int,
    ) -> None:
        self._points, self._rows, self._cols, self._maximize = (x, y), rows, cols, maximize
        self._metric, self._problems = metric, problems
        self.dtype, self.exist = x.dtype, (rows, cols)
        self.recomputed = recomputed(x.shape[-1], metric)

    def _distances(self, x: Array, y: Array) -> Array:
        near, far = (p.astype(proof_float(p)) for p in (x, y))
        return distances(near, far, self._metric).astype(self.dtype)

    def minima(self, v: Array, u: Array | None = None) -> RowMinima:
        x, y = self._points

        def reduce_block(first: Array, count: int) -> RowMinima:
            def part(a: Array) -> Array:
                return rows_from(a, first, count)

            cost = self._distances(part(x)[:, None], y[None])
            own = None if u is None else part(u)
            return _reduce(cost, part(self._rows), self._cols, v, own, self._maximize)

        return in_blocks(reduce_block, len(x), len(y), self._problems, xp=module_of(x))

    def pairs(self, i: Int[Array, " k"], j: Int[Array, " k"]) -> Pair:
        x, y = self._points
        if 0 in (len(x), len(y)):
            return module_of(i).full(i.shape, jnp.inf, proof_float(i)), None
        cost = self._distances(x[i], y[j])
        return as_costs(cost, self._rows[i] & self._cols[j], self._maximize)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        x, y = self._points
        for first, count in blocks_of(len(x), len(y)):
            here = slice(first, first + count)
            cost = self._distances(x[here, None], y[None])
            yield first, as_costs(cost, self._rows[here, None] & self._cols, self._maximize)[0]


def _reduce(
    cost: Array, rows: Array, cols: Array, v: Array, u: Array | None, maximize: bool
) -> RowMinima:
    xp, exists = module_of(cost), rows[:, None] & cols[None, :]
    c, c_rest = as_costs(cost, exists, maximize)
    x, x_rest = minus(c, c_rest, v[None, :])
    least = x.min(-1, initial=xp.inf)
    slack = None
    if u is not None:
        parts = xp.broadcast_arrays(x, xp.where(x < xp.inf, x_rest, 0), -u[:, None])
        slack = sum_down(xp.stack(parts, -1)).min(-1, initial=xp.inf)
    return RowMinima(
        least,
        xp.where(x == least[:, None], x_rest, xp.inf).min(-1, initial=xp.inf),
        (exists & is_tiny(cost)).any(-1),
        (c > -xp.inf).all(-1),
        (exists & (c == xp.inf)).any(-1),
        slack,
    )


def with_unmatched(
    minima: RowMinima, pairs: Pair, unmatched: Pair
) -> tuple[tuple[Array, Array], Pair]:
    """Adds a dummy column with dual 0, with which each row has a pair at its unmatched cost.

    Returns the new minimum of each row, and the costs `pairs` followed by the unmatched costs.
    """
    xp, (r, r_rest) = module_of(unmatched[0]), unmatched
    x, x_rest = minus(r, r_rest, xp.zeros_like(r))
    least = xp.minimum(minima.least, x)
    rest = xp.where(minima.least == least, minima.least_rest, xp.inf)
    rest = xp.where(x == least, xp.minimum(rest, x_rest), rest)
    own, own_rest = pairs
    if own_rest is not None or r_rest is not None:
        own_rest = xp.zeros_like(own) if own_rest is None else own_rest
        own_rest = xp.concatenate([own_rest, xp.zeros_like(r) if r_rest is None else r_rest])
    return (least, rest), (xp.concatenate([own, r]), own_rest)
