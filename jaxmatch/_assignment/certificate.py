"""Verifies certificates of assignments: feasibility and the dual bound. Uses no code of solvers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.blocks import blocks_of
from jaxmatch._common.proof import (
    add_up,
    as_costs,
    exact_sum,
    flushed_to,
    is_inverse,
    is_tiny,
    judged,
    minus,
    module_of,
    proof_float,
    spacing,
    split,
    sum_up,
    take,
    take_pairs,
    tolerance,
    two_float_sum,
)
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check
from jaxmatch._common.tighten import WORTH_IT, Blocks, Pairs, Stays, tightened
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class AssignmentCheck(Check):
    """The result of [`check_assignment`][jaxmatch.check_assignment]; leading `...` is batch.

    - `valid`: `bool[...]`, the assignment is feasible, whatever its cost.
    - `optimal`: `bool[...]`, the assignment is valid, and `gap` is no larger than the rounding of
      costs and duals can explain, which proves that none costs less; see [Checks][optimal].
    - `gap`: `f[...]`, a proved bound on cost − optimum, +inf where nothing is proved.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]


class RowReductions(NamedTuple):
    """Per-row results of one pass over the costs. Numbers are unevaluated sums x + x_rest."""

    least: Float[Array, "... n"]  # min_j C_ij − v_j
    least_rest: Float[Array, "... n"]
    own: Float[Array, "... n"]  # the cost of the row's pair
    own_rest: Float[Array, "... n"]
    has_tiny: Bool[Array, "... n"]  # whether XLA may flush a cost to 0, see `is_tiny`


def reduce_rows(
    cost: Num[Array, "... n m"],
    rows: Bool[Array, "... n"],
    cols: Bool[Array, "... m"],
    v: Float[Array, "... m"],
    col4row: Int[Array, "... n"],
    maximize: bool,
) -> RowReductions:
    xp = module_of(cost)
    exists = rows[..., :, None] & cols[..., None, :]
    # A cost is a float and a rest, because a long integer does not fit into one float.
    c, c_rest = as_costs(cost, exists, maximize)
    # The minimum of x + x_rest: the pairs (x, x_rest) are exact, so compare them lexicographically.
    x, x_rest = minus(c, c_rest, v[..., None, :])
    least = x.min(-1, initial=xp.inf)
    least_rest = xp.where(x == least[..., None], x_rest, xp.inf).min(-1, initial=xp.inf)
    own = take_pairs(c, col4row)
    own_rest = xp.zeros_like(own) if c_rest is None else take_pairs(c_rest, col4row)
    has_tiny = (exists & is_tiny(cost)).any(-1)
    return RowReductions(least, least_rest, own, own_rest, has_tiny)


def passes(
    cost: Num[Array, "... n m"], bound: DualBound, col4row: Int[Array, "... n"], maximize: bool
) -> tuple[Callable[[Array], RowReductions], Callable[[tuple[int, ...]], Blocks] | None]:
    """The arguments `reduce` and `blocks` of `DualBound.verify`, for a matrix of costs.

    On the host they read the costs in blocks of rows.
    """
    rows, cols, (n, m) = bound.rows, bound.cols, cost.shape[-2:]

    def reduce(v: Array) -> RowReductions:
        return reduce_rows(cost, rows, cols, v, col4row, maximize)

    def reduce_blocks(v: Array) -> RowReductions:
        parts = []
        for first, count in blocks_of(n, m * math.prod(cost.shape[:-2])):
            here = slice(first, first + count)
            part = cost[..., here, :], rows[..., here], cols, v, col4row[..., here], maximize
            parts.append(reduce_rows(*part))
        whole: Any = (np.concatenate(x, -1) for x in zip(*parts, strict=True))
        return RowReductions(*whole)

    def blocks(k: tuple[int, ...]) -> Blocks:
        for first, count in blocks_of(n, m):
            here = slice(first, first + count)
            exists = rows[k][here, None] & cols[k]
            yield first, as_costs(cost[k][here], exists, maximize)[0]

    if module_of(cost) is jnp:
        return reduce, None
    integer = split(cost[..., :0, :], False)[1] is not None  # costs have rests; `blocks` drops them
    return (reduce_blocks if n else reduce), None if integer else blocks


class DualBound(NamedTuple):
    """The data of a lower bound on the optimum: column duals, and a problem without its costs."""

    rows: Bool[Array, "... n"]  # existing rows
    cols: Bool[Array, "... m"]
    v: Float[Array, "... m"]  # column duals when minimising; at most 0 for optional columns
    r: Float[Array, "... n"]  # the cost of leaving a row unmatched, as a float and a rest
    r_rest: Float[Array, "... n"]
    cols_optional: Bool[Array, "... m"]  # columns that may stay unmatched
    flushed: Float[Array, "..."]  # bound on the error if XLA flushes denormal numbers to 0
    has_tiny: Bool[Array, "..."]  # whether XLA may flush duals or unmatched costs to 0
    whole: bool  # whether all costs are integers
    spacing: float  # relative float spacing of the duals
    # Tolerances for costs that are distances, see `jaxmatch._common.distances.recomputed`.
    recomputed: tuple[float, float] = (1, 0)

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        row_mask: Array | None,
        col_mask: Array | None,
        unmatched_cost: Array | None,
        col_dual: Array,
        maximize: bool,
        dtype: Any,
    ) -> DualBound:
        *batch, n, m = shape
        xp, real = module_of(col_dual), proof_float(col_dual)
        rows = xp.ones((*batch, n), bool) if row_mask is None else row_mask
        cols = xp.ones((*batch, m), bool) if col_mask is None else col_mask
        num_rows, num_cols = rows.sum(-1, keepdims=True), cols.sum(-1, keepdims=True)
        if unmatched_cost is None:
            r = xp.where(num_rows > num_cols, 0, xp.inf).astype(real)
            r, r_rest = xp.broadcast_to(r, rows.shape), None
            cols_optional = xp.broadcast_to(num_rows < num_cols, cols.shape)
        else:
            r, r_rest = split(unmatched_cost, maximize)
            r = xp.where(xp.isnan(r), -xp.inf, r)
            cols_optional = xp.ones_like(cols)
        v = xp.where(cols, -col_dual if maximize else col_dual, 0).astype(real)
        v = xp.where(cols_optional, xp.minimum(v, 0), v)
        has_tiny = is_tiny(v).any(-1)
        dtypes = [dtype]
        if unmatched_cost is not None:
            has_tiny |= (rows & is_tiny(unmatched_cost)).any(-1)
            dtypes.append(unmatched_cost.dtype)
        tiny = max(flushed_to(x, v) for x in dtypes)
        return cls(
            rows,
            cols,
            v,
            r,
            xp.zeros_like(r) if r_rest is None else r_rest,
            cols_optional,
            xp.full(tuple(batch), 32 * (n + m) * tiny, real),
            has_tiny,
            all(jnp.issubdtype(x, jnp.integer) for x in dtypes),
            # On the host, tighter duals are computed if needed, so the dtype of the given duals
            # does not matter.
            spacing(dtype if xp is np else col_dual.dtype, real),
        )

    def verify(
        self,
        reduce: Callable[[Array], RowReductions],
        col4row: Int[Array, "... n"],
        row4col: Int[Array, "... m"],
        col_dual: Float[Array, "... m"],
        blocks: Callable[[tuple[int, ...]], Blocks] | None = None,
    ) -> AssignmentCheck:
        """Checks that an assignment is feasible, and compares its cost with the bound.

        `reduce(v)` makes a pass over the costs with the column duals v. `blocks(k)`, on the host,
        yields the costs of problem k, to be minimised, in blocks of rows (see `Blocks`).
        """
        xp, reductions = module_of(self.v), reduce(self.v)
        valid = self._is_valid(reductions, col4row, row4col)
        proved = valid & xp.isfinite(xp.where(self.cols, col_dual, 0)).all(-1)

        def gap_of(v: Array, reductions: RowReductions) -> tuple[Array, ...]:
            gap, *sizes = self._gap(v, reductions, col4row, row4col)
            return xp.where(proved & ~xp.isnan(gap), gap, xp.inf), *sizes

        def by_lowered() -> Array:
            """The gap of duals that are lowered by their rounding error.

            A dual that is too low adds slack only to the pair of its own column. One that is too
            high may lower the duals of many rows.
            """
            return better(self.v - self.spacing * xp.abs(self.v))

        def better(v: Array) -> Array:
            """The gap of other column duals where that is within rounding, else the gap so far."""
            other = gap_of(v, reduce(v))[0]
            return xp.where(other <= rounding, xp.minimum(gap, other), gap)

        gap, *sizes = gap_of(self.v, reductions)
        rounding = self.recomputed[0] * tolerance(sizes[0], sizes[1], self.spacing)
        if self.whole and xp is np:  # the gap is an integer: demand 0, which tight duals can prove
            rounding = xp.minimum(rounding, 0.5)
        more = proved & (gap > rounding)
        if xp is jnp:
            gap = lax.cond(more.any(), by_lowered, lambda: gap)
        elif blocks is not None and (more := more & (gap <= WORTH_IT * sum(sizes))).any():
            v = self.v.copy()
            for k in np.argwhere(more):
                tight = self._tightened(tuple(k.tolist()), blocks, reductions, col4row, row4col)
                v[tuple(k)] = v[tuple(k)] if tight is None else tight
            gap = better(v)
        optimal, bound = judged(gap, rounding)
        return AssignmentCheck(valid=valid, optimal=optimal, gap=bound)

    def _tightened(
        self,
        k: tuple[int, ...],
        blocks: Callable[[tuple[int, ...]], Blocks],
        reductions: RowReductions,
        col4row: Any,
        row4col: Any,
    ) -> Any:
        """Column duals of problem k with more digits than the result has, see `tightened`."""
        i = np.flatnonzero(col4row[k] >= 0)
        own = Pairs(i, col4row[k][i], reductions.own[k][i])
        price = np.where(self.rows[k], self.r[k], np.inf)
        left = self.rows[k] & (col4row[k] < 0)
        room = self.cols[k] & (row4col[k] < 0)
        stays = Stays(price, left, self.cols[k] & self.cols_optional[k], room)
        v = tightened(blocks(k), own, reductions.least[k], self.v[k], stays)
        return None if v is None else v[:-1] - v[-1]

    def _is_valid(
        self, reductions: RowReductions, col4row: Array, row4col: Array
    ) -> Bool[Array, "..."]:
        """Whether all pairs exist, and form a matching of all rows and columns that must match."""
        xp, matched, used = module_of(self.v), col4row >= 0, row4col >= 0
        pairs = is_inverse(col4row, row4col) & is_inverse(row4col, col4row)
        pairs &= (~matched | (self.rows & xp.isfinite(reductions.own))).all(-1)
        complete = (~self.rows | matched | (self.r < xp.inf)).all(-1)
        complete &= (~self.cols | used | self.cols_optional).all(-1)
        return pairs & complete

    def _gap(
        self, v: Array, reductions: RowReductions, col4row: Array, row4col: Array
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """The gap that column duals prove, and the sums of magnitudes of costs and of duals."""
        xp, (rows, r, r_rest) = module_of(v), (self.rows, self.r, self.r_rest)
        matched = col4row >= 0
        # u + u_rest is the row dual u_i, or a lower bound of it.
        u = xp.minimum(reductions.least, r)
        u_rest = xp.where(reductions.least == u, reductions.least_rest, xp.inf)
        u_rest = xp.where(r == u, xp.minimum(u_rest, r_rest), u_rest)
        own = xp.where(matched, reductions.own, r)
        own_rest = xp.where(matched, reductions.own_rest, r_rest)
        of_col = xp.where(matched, take(v, col4row), 0)

        # The slack of each row's pair, and of each unmatched column.
        reduced, rest = exact_sum(own, -of_col)
        terms = (reduced, -u, add_up(rest, own_rest), -u_rest)
        slack = [xp.where(rows, x, 0) for x in two_float_sum(xp.stack(terms, -1))]
        unused = xp.where(self.cols & (row4col < 0), -v, 0)
        flushed = xp.where(self.has_tiny | reductions.has_tiny.any(-1), self.flushed, 0)
        gap = sum_up(*slack, unused, flushed[..., None])
        gap = xp.floor(gap) if self.whole else gap
        sizes = xp.abs(own) + self.recomputed[1], xp.abs(of_col) + xp.abs(u)
        return gap, *(xp.where(rows, x, 0).sum(-1) for x in sizes)
