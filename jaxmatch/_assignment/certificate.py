"""Certificates of assignments: feasibility and the dual bound. Shares no code with the solvers."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxmatch._common.promotion import last_iota
from jaxmatch._common.registered import registered
from jaxmatch._common.result import Check, result_float
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, Bool, Float, Int, Num


@registered
@dataclasses.dataclass(frozen=True, eq=False)
class AssignmentCheck(Check):
    """The result of [`check_assignment`][jaxmatch.check_assignment]; leading `...` is batch.

    - `valid`: `bool[...]`, the assignment is feasible, whatever its cost.
    - `optimal`: `bool[...]`, the duals prove that no assignment costs less: valid, and gap 0.
    - `gap`: `f[...]`, a proved bound on cost − optimum, +inf where nothing is proved.
    """

    valid: Bool[Array, "..."]
    optimal: Bool[Array, "..."]
    gap: Float[Array, "..."]


class RowReductions(NamedTuple):
    """Per-row results of one pass over the costs. Each number is an unevaluated sum, x + x_rest."""

    least: Float[Array, "... n"]  # min_j C_ij − v_j
    least_rest: Float[Array, "... n"]
    own: Float[Array, "... n"]  # the cost of the row's pair
    own_rest: Float[Array, "... n"]
    has_tiny: Bool[Array, "... n"]  # a cost that XLA may flush to 0, see `_small`


def reduce_rows(
    cost: Num[Array, "... n m"],
    rows: Bool[Array, "... n"],
    cols: Bool[Array, "... m"],
    v: Float[Array, "... m"],
    col4row: Int[Array, "... n"],
    maximize: bool,
) -> RowReductions:
    exists = rows[..., :, None] & cols[..., None, :]
    # Minimise. A cost is a float and a rest: a long integer does not fit into one float.
    c, c_rest = _split(cost, maximize)
    c = jnp.where(exists, c, jnp.inf)
    c = jnp.where(jnp.isnan(c), -jnp.inf, c)  # then u_i = -inf, which proves nothing
    # The minimum of the exact pairs (float, rest), in lexicographic order.
    x, x_rest = _minus(c, c_rest, v[..., None, :])
    least = x.min(-1, initial=jnp.inf)
    least_rest = jnp.where(x == least[..., None], x_rest, jnp.inf).min(-1, initial=jnp.inf)
    own = _take_pairs(c, col4row=col4row)
    own_rest = jnp.zeros_like(own) if c_rest is None else _take_pairs(c_rest, col4row=col4row)
    has_tiny = (exists & _between_0_and(_small(v.dtype), cost)).any(-1)
    return RowReductions(least, least_rest, own, own_rest, has_tiny)


class DualBound(NamedTuple):
    """A lower bound on the optimum by column duals: all data of a problem except its costs."""

    rows: Bool[Array, "... n"]  # existing rows
    cols: Bool[Array, "... m"]
    v: Float[Array, "... m"]  # column duals when minimising; at most 0 for optional columns
    r: Float[Array, "... n"]  # the cost of leaving a row unmatched, as a float and a rest
    r_rest: Float[Array, "... n"]
    cols_optional: Bool[Array, "... m"]  # columns that may stay unmatched
    flushed: Float[Array, "..."]  # bound on the error by flushed denormal numbers
    has_tiny: Bool[Array, "..."]  # whether duals or unmatched costs may be flushed

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
        real = result_float()
        rows = jnp.ones((*batch, n), bool) if row_mask is None else row_mask
        cols = jnp.ones((*batch, m), bool) if col_mask is None else col_mask
        num_rows, num_cols = rows.sum(-1, keepdims=True), cols.sum(-1, keepdims=True)
        if unmatched_cost is None:
            r = jnp.where(num_rows > num_cols, 0, jnp.inf).astype(real)
            r, r_rest = jnp.broadcast_to(r, rows.shape), None
            cols_optional = jnp.broadcast_to(num_rows < num_cols, cols.shape)
        else:
            r, r_rest = _split(unmatched_cost, maximize)
            r = jnp.where(jnp.isnan(r), -jnp.inf, r)
            cols_optional = jnp.ones_like(cols)
        v = jnp.where(cols, -col_dual if maximize else col_dual, 0).astype(real)
        v = jnp.where(cols_optional, jnp.minimum(v, 0), v)
        has_tiny = _between_0_and(_small(real), v).any(-1)
        if unmatched_cost is not None:
            has_tiny |= (rows & _between_0_and(_small(real), unmatched_cost)).any(-1)
        dtypes = (dtype, real if unmatched_cost is None else unmatched_cost.dtype)
        narrow = any(x != real and jnp.issubdtype(x, jnp.floating) for x in dtypes)
        tiny = float(jnp.finfo(jnp.float32 if narrow else real).tiny)
        flushed = jnp.full(batch, 32 * (n + m) * tiny, real)
        r_rest = jnp.zeros_like(r) if r_rest is None else r_rest
        return cls(rows, cols, v, r, r_rest, cols_optional, flushed, has_tiny)

    def verify(
        self,
        reductions: RowReductions,
        col4row: Int[Array, "... n"],
        row4col: Int[Array, "... m"],
        col_dual: Float[Array, "... m"],
    ) -> AssignmentCheck:
        """Compares the bound with the cost of an assignment, which must be feasible."""
        rows, cols, v, r, r_rest = self[:5]
        # A matching of existing pairs that leaves out no mandatory row or column.
        matched, used = col4row >= 0, row4col >= 0
        pairs = _is_inverse(col4row, row4col) & _is_inverse(row4col, col4row)
        pairs &= (~matched | (rows & jnp.isfinite(reductions.own))).all(-1)
        complete = (~rows | matched | (r < jnp.inf)).all(-1)
        complete &= (~cols | used | self.cols_optional).all(-1)
        valid = pairs & complete

        # u_i, or a lower bound of it.
        u = jnp.minimum(reductions.least, r)
        u_rest = jnp.where(reductions.least == u, reductions.least_rest, jnp.inf)
        u_rest = jnp.where(r == u, jnp.minimum(u_rest, r_rest), u_rest)

        # Lower bounds of minus the slack of each row's pair and of each unmatched column.
        pair, pair_rest = _minus(-reductions.own, -reductions.own_rest, -_take(v, col4row))
        pair, pair_rest = jnp.where(matched, pair, -r), jnp.where(matched, pair_rest, -r_rest)
        slack = jnp.where(rows, _sum_down(jnp.stack([pair, u, pair_rest, u_rest], -1)), 0)
        unused = jnp.where(cols & ~used, v, 0)
        flushed = jnp.where(self.has_tiny | reductions.has_tiny.any(-1), self.flushed, 0)
        gap = 0 - _sum_down(jnp.concatenate([slack, unused, -flushed[..., None]], -1))
        proved = valid & jnp.isfinite(jnp.where(cols, col_dual, 0)).all(-1) & ~jnp.isnan(gap)
        gap = jnp.where(proved, gap, jnp.inf)
        return AssignmentCheck(valid=valid, optimal=gap == 0, gap=gap)


def _take(x: Num[Array, "... k"], index: Int[Array, "... l"]) -> Num[Array, "... l"]:
    """x at the indices; an arbitrary entry where an index is out of range."""
    if x.shape[-1] == 0:
        return jnp.zeros_like(x, shape=index.shape)
    return jnp.take_along_axis(x, index.clip(0, x.shape[-1] - 1), axis=-1)


def _take_pairs(x: Num[Array, "... n m"], *, col4row: Int[Array, "... n"]) -> Num[Array, "... n"]:
    return _take(x, col4row[..., None])[..., 0]


def _is_inverse(there: Int[Array, "... k"], back: Int[Array, "... l"]) -> Bool[Array, "..."]:
    """Whether every index is −1 or leads to an entry that leads back."""
    in_range = (there >= -1) & (there < back.shape[-1])
    entry = lax.broadcasted_iota(back.dtype, there.shape, there.ndim - 1)
    returns = _take(back, there) == entry
    return (in_range & ((there < 0) | returns)).all(-1)


# ---------------------------------------------------------------------------------------------
# Error-free transformations


def _exact_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """TwoSum (Møller, Knuth): a + b rounded and its error, a float; error 0 for infinite sums."""
    s = a + b
    a_part = s - b
    b_part = s - a_part
    return s, jnp.where(jnp.isfinite(s), (a - a_part) + (b - b_part), 0)


def _sum_down(x: Float[Array, "... k"]) -> Float[Array, "..."]:
    """A lower bound of the sum over the last axis; equal to the sum where nothing is rounded.

    Pairwise summation: its order does not depend on the batch.
    """
    if x.shape[-1] == 0:
        return jnp.zeros_like(x, shape=x.shape[:-1])
    if is_symbolic(x.shape[-1:]):
        return _sum_down_in_place(x)
    while x.shape[-1] > 1:
        x = jnp.concatenate([x, jnp.zeros_like(x[..., : x.shape[-1] % 2])], -1)
        x = _add_down(x[..., 0::2], x[..., 1::2])
    return x[..., 0]


def _add_down(a: Array, b: Array) -> Array:
    s, error = _exact_sum(a, b)
    below = s - jnp.abs(s) * jnp.finfo(s.dtype).eps  # one or two floats further
    return jnp.where(error >= 0, s, below)


def _sum_down_in_place(x: Float[Array, "... k"]) -> Float[Array, "..."]:
    """`_sum_down` in the same order, without intermediate arrays, whose lengths depend on k."""
    place = last_iota(jnp.int32, x.shape[-1], x.ndim)

    def halve(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, count = state

        def at(index: Array) -> Array:
            return jnp.where(index < count, _take(x, index), 0)

        return _add_down(at(2 * place), at(2 * place + 1)), (count + 1) // 2

    count = jnp.asarray(x.shape[-1], jnp.int32)
    return lax.while_loop(lambda state: state[1] > 1, halve, (x, count))[0][..., 0]


def _split(x: Num[Array, "..."], negate: bool) -> tuple[Array, Array | None]:
    """x or −x as the nearest float and the rest; the rest is None where it is always 0."""
    f, bits = result_float(), 8 * x.dtype.itemsize
    if not jnp.issubdtype(x.dtype, jnp.integer) or bits <= jnp.finfo(f).nmant:
        x = x.astype(f)
        return (-x if negate else x), None
    # Each half is exact as a float.
    high = lax.shift_right_arithmetic(x, jnp.asarray(bits // 2, x.dtype))
    low = x - lax.shift_left(high, jnp.asarray(bits // 2, x.dtype))
    high, low = high.astype(f) * 2.0 ** (bits // 2), low.astype(f)
    return _exact_sum(-high, -low) if negate else _exact_sum(high, low)


def _minus(c: Array, c_rest: Array | None, v: Array) -> tuple[Array, Array]:
    """c + c_rest − v as a float and a rest: exact, or a lower bound if c_rest is not 0."""
    x, rest = _exact_sum(c, -v)
    if c_rest is None:
        return x, rest
    rest = _sum_down(jnp.stack(jnp.broadcast_arrays(rest, c_rest), -1))
    return _exact_sum(x, rest)


def _small(dtype: Any) -> float:
    """The magnitude from which on no sum or rounding error is denormal; XLA flushes those to 0."""
    info = jnp.finfo(dtype)
    return 8 * float(info.tiny) / float(info.eps)


def _between_0_and(limit: float, x: Num[Array, "..."]) -> Bool[Array, "..."]:
    """Where 0 < |x| < limit or x is denormal. Denormal float64 are not found on a TPU."""
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype == jnp.float16:
        return jnp.zeros_like(x, bool)  # the least float16 is a normal float32
    info = jnp.finfo(x.dtype)
    bits = jnp.dtype(f"uint{info.bits}")
    bound = jnp.asarray(max(limit, float(info.tiny)), x.dtype)

    def by_bits(x: Array, bound: Array) -> Array:
        """Compares bits: XLA may flush x to 0."""
        x, bound = (lax.bitcast_convert_type(y, bits) for y in (x, bound))
        magnitude = x & (2 ** (info.bits - 1) - 1)
        return (magnitude > 0) & (magnitude < bound)

    def by_value(x: Array, bound: Array) -> Array:
        return (x != 0) & (jnp.abs(x) < bound)

    if x.dtype != jnp.float64:
        return by_bits(x, bound)
    return lax.platform_dependent(
        x, bound, tpu=by_value, default=by_bits
    )  # TPUs cannot bitcast float64
