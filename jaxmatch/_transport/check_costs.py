"""The costs that a check of a plan reads: row minima of one pass, and the costs of its pairs.

Costs are minimised. Each is an unevaluated sum of a float and a rest, as a long integer does not
fit into one float; a rest of None is 0. Masked pairs cost +inf. NaN becomes −inf: a row minimum is
then −inf, which proves nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment.sharded_check import in_blocks
from jaxmatch._common.distances import distances
from jaxmatch._common.proof import is_tiny, minus, split, sum_down
from jaxmatch._common.result import result_float
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


Pair = tuple[Array, Array | None]


class RowMinima(NamedTuple):
    """Of one pass over the costs."""

    least: Float[Array, " n"]  # min_j C_ij − v_j, the least pair in lexicographic order
    least_rest: Float[Array, " n"]
    has_tiny: Bool[Array, " n"]  # a cost that XLA may flush to 0, see `_small`
    is_sound: Bool[Array, " n"]  # no cost is NaN or −inf
    slack: Float[Array, " n"] | None  # a lower bound of min_j C_ij − v_j − u_i, with u given


class CheckCosts(Protocol):
    """What a check reads of the costs of one problem."""

    dtype: Any

    def minima(self, v: Array, u: Array | None = None) -> RowMinima: ...
    def pairs(self, i: Array, j: Array) -> Pair: ...


class StoredCosts:
    """A matrix."""

    def __init__(
        self,
        cost: Num[Array, "n m"],
        rows: Bool[Array, " n"],
        cols: Bool[Array, " m"],
        maximize: bool,
    ) -> None:
        self._cost, self._rows, self._cols, self._maximize = cost, rows, cols, maximize
        self.dtype = cost.dtype

    def minima(self, v: Array, u: Array | None = None) -> RowMinima:
        return _reduce(self._cost, self._rows, self._cols, v, u, self._maximize)

    def pairs(self, i: Int[Array, " k"], j: Int[Array, " k"]) -> Pair:
        if not self._cost.size:
            return jnp.full(i.shape, jnp.inf, result_float()), None
        exists = self._rows[i] & self._cols[j]
        return _as_costs(self._cost[i, j], exists, self._maximize)


class PointCosts:
    """Distances, recomputed in blocks of rows; `problems` are checked at a time, by `vmap`."""

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
        self.dtype = x.dtype

    def _distances(self, x: Array, y: Array) -> Array:
        near, far = (p.astype(result_float()) for p in (x, y))
        return distances(near, far, self._metric).astype(self.dtype)

    def minima(self, v: Array, u: Array | None = None) -> RowMinima:
        x, y = self._points

        def reduce_block(first: Array, count: int) -> RowMinima:
            def part(a: Array) -> Array:
                return lax.dynamic_slice_in_dim(a, first, count)

            cost = self._distances(part(x)[:, None], y[None])
            own = None if u is None else part(u)
            return _reduce(cost, part(self._rows), self._cols, v, own, self._maximize)

        return in_blocks(reduce_block, len(x), len(y), self._problems)

    def pairs(self, i: Int[Array, " k"], j: Int[Array, " k"]) -> Pair:
        x, y = self._points
        if 0 in (len(x), len(y)):
            return jnp.full(i.shape, jnp.inf, result_float()), None
        cost = self._distances(x[i], y[j])
        return _as_costs(cost, self._rows[i] & self._cols[j], self._maximize)


def _as_costs(cost: Array, exists: Array, maximize: bool) -> Pair:
    c, c_rest = split(cost, maximize)
    c = jnp.where(exists, c, jnp.inf)
    return jnp.where(jnp.isnan(c), -jnp.inf, c), c_rest


def _reduce(
    cost: Array, rows: Array, cols: Array, v: Array, u: Array | None, maximize: bool
) -> RowMinima:
    exists = rows[:, None] & cols[None, :]
    c, c_rest = _as_costs(cost, exists, maximize)
    x, x_rest = minus(c, c_rest, v[None, :])
    least = x.min(-1, initial=jnp.inf)
    slack = None
    if u is not None:
        parts = jnp.broadcast_arrays(x, jnp.where(x < jnp.inf, x_rest, 0), -u[:, None])
        slack = sum_down(jnp.stack(parts, -1)).min(-1, initial=jnp.inf)
    return RowMinima(
        least,
        jnp.where(x == least[:, None], x_rest, jnp.inf).min(-1, initial=jnp.inf),
        (exists & is_tiny(cost)).any(-1),
        (c > -jnp.inf).all(-1),
        slack,
    )


def with_unmatched(
    minima: RowMinima, pairs: Pair, unmatched: Pair
) -> tuple[tuple[Array, Array], Pair]:
    """With one more column, whose dual is 0, to which every row has one more pair.

    Returns the least of each row, and the costs of the pairs.
    """
    r, r_rest = unmatched
    x, x_rest = minus(r, r_rest, jnp.zeros_like(r))
    least = jnp.minimum(minima.least, x)
    rest = jnp.where(minima.least == least, minima.least_rest, jnp.inf)
    rest = jnp.where(x == least, jnp.minimum(rest, x_rest), rest)
    own, own_rest = pairs
    if own_rest is not None or r_rest is not None:
        own_rest = jnp.zeros_like(own) if own_rest is None else own_rest
        own_rest = jnp.concatenate([own_rest, jnp.zeros_like(r) if r_rest is None else r_rest])
    return (least, rest), (jnp.concatenate([own, r]), own_rest)
